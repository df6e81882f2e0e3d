"""What a process ends with although a thread is stuck in it."""

import subprocess
import sys

import pytest

STUCK = """
import sys, threading
from openab_kernel.cli.threads import leave_stuck_threads

@leave_stuck_threads()
def work():
    threading.Thread(target=threading.Event().wait).start()
    print("said")
    {end}

work()
"""


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        ("pass", 0, "thread.abandoned"),
        ("sys.exit(3)", 3, "thread.abandoned"),
        ("sys.exit()", 0, "thread.abandoned"),
        ("sys.exit('words')", 1, "thread.abandoned"),
        ("1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_a_stuck_thread_changes_neither_the_status_nor_what_was_said(end: str, status: int, told: str) -> None:
    command = [sys.executable, "-c", STUCK.format(end=end)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert run.returncode == status
    assert run.stdout.startswith("said\n")
    assert told in run.stdout + run.stderr


@pytest.mark.parametrize(("end", "status"), [("pass", 0), ("sys.exit(3)", 3)])
def test_without_one_the_process_ends_as_ever(end: str, status: int) -> None:
    source = STUCK.format(end=end).replace("threading.Event().wait", "print")
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=30)
    assert (run.returncode, run.stderr) == (status, "")
    assert "thread.abandoned" not in run.stdout
