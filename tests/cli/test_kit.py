"""The offline kit from the command line, as a person would use it: real processes, loopback alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from openab_kernel.cli import main
from openab_kernel.kit.scenarios import SCENARIOS

KERNEL = [sys.executable, "-m", "openab_kernel"]
EXAMPLES = Path(__file__).parents[2] / "examples/offline"
WAIT_SECONDS = 90

APOLOGY = "⚠️ That reply did not come out right. Please ask again."
FAILURE = "⚠️ The assistant stopped before it was done. Please try again."
THREE = ["on it", "your flight moved to 8pm", "gate B12, have a good trip"]
MESSAGE = re.compile(r"\+(?P<gap>\d+\.\d\d) s  message (?P<number>\d+) of the turn \| (?P<text>.*)")
MORE = re.compile(r" +\| (?P<text>.*)")


class Shown(NamedTuple):
    """What the kit printed about one turn: texts of messages, the gap before each in seconds, and the end."""

    texts: list[str]
    gaps: list[float]
    outcome: str


def read(output: str) -> Shown:
    texts: list[str] = []
    gaps: list[float] = []
    outcome = ""
    for line in output.splitlines():
        if message := MESSAGE.fullmatch(line):
            texts.append(message["text"])
            gaps.append(float(message["gap"]))
            assert int(message["number"]) == len(texts)
        elif more := MORE.fullmatch(line):
            texts[-1] += "\n" + more["text"]
        elif line.startswith("the turn ended: "):
            outcome = line.removeprefix("the turn ended: ")
    return Shown(texts, gaps, outcome)


@contextmanager
def running(*command: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A program that is killed at the end of the block if it still runs then, or after a long time."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(env or {})}
    )
    watchdog = threading.Timer(WAIT_SECONDS, process.kill)
    watchdog.start()
    try:
        with process:
            yield process
            process.kill()
    finally:
        watchdog.cancel()


@pytest.mark.parametrize(
    ("scenario", "texts", "outcome", "least_gap"),
    [
        ("envelope", THREE, "done", 0.4),
        ("multiline", ["your flight moved\nfrom 7pm to 8pm\ngate B12"], "done", 0),
        ("silent", [], "silent", 0),
        (
            "prose",
            ['Your flight leaves at 8pm. The airline sent {"gate": "B12"}, and that is all I know.'],
            "done",
            0,
        ),
        ("broken", ["sorry, one sec"], "done", 0),
        ("toolong", [APOLOGY], "done", 0),
        # The agent pauses for 2 s; how long a bubble then takes varies, and counts in either direction.
        ("seqslow", THREE, "done", 1),
        ("seqhalf", [*THREE[:2], FAILURE], "failed", 0),
        ("sequential", THREE, "done", 0.4),
        ("text", ["Your flight leaves at 8pm, from gate B12.\n\nNothing else has changed."], "done", 0),
    ],
)
def test_kit_shows_what_a_person_would_see(
    scenario: str, texts: list[str], outcome: str, least_gap: float, tmp_path: Path
) -> None:
    """delivery 12.35"""
    run = subprocess.run([*KERNEL, "kit", scenario], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS)
    shown = read(run.stdout)
    assert (shown.texts, shown.outcome) == (texts, f"{outcome}, as it should"), run.stdout + run.stderr
    assert all(gap >= least_gap - 0.01 for gap in shown.gaps[1:]), run.stdout
    assert (run.returncode, run.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_table_above_has_every_scenario() -> None:
    (mark,) = test_kit_shows_what_a_person_would_see.pytestmark  # type: ignore[attr-defined]  # set by the decorator
    assert [row[0] for row in mark.args[1]] == list(SCENARIOS)


def test_kit_alone_lists_each_scenario_with_its_line() -> None:
    result = CliRunner().invoke(main, ["kit"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split(maxsplit=1) for line in lines[: len(SCENARIOS)]] == [
        [scenario.name, scenario.line] for scenario in SCENARIOS.values()
    ]


@pytest.mark.parametrize("arguments", [["nope"], ["agent", "nope"], ["envelope", "--port", "65536"], ["agent"]])
def test_wrong_use_is_status_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["kit", *arguments]).exit_code == 2


def test_kernel_started_by_hand_on_an_example_talks_to_the_gateway_alone(tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "openab-kernel"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m openab_kernel "$@"\n')
    program.chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    with running(*KERNEL, "kit", "seqhalf", "--gateway-only", "--port", "0") as gateway:
        assert gateway.stdout is not None
        found = re.search(r"ws://127\.0\.0\.1:(\d+)/ws", gateway.stdout.readline())
        assert found is not None
        config = tmp_path / "seqhalf.toml"
        config.write_text((EXAMPLES / "seqhalf.toml").read_text("utf-8").replace(":8765/", f":{found[1]}/"), "utf-8")
        with running("openab-kernel", "serve", "-c", str(config), env=env):
            lines = [gateway.stdout.readline() for _ in range(4)]
        assert lines[0].startswith("a kernel has connected")
        assert read("".join(lines)).texts == [*THREE[:2], FAILURE]
        gateway.send_signal(signal.SIGINT)
        assert gateway.wait(WAIT_SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_in_the_middle_ends_it_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    with running(*KERNEL, "kit", "seqslow", env={"TMPDIR": str(tmp_path)}) as kit:
        assert kit.stdout is not None
        while "message 1" not in kit.stdout.readline():
            assert kit.poll() is None
        kit.send_signal(number)
        rest = kit.stdout.read()
        assert kit.wait(WAIT_SECONDS) == 128 + number, rest
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []


def test_port_that_is_taken_ends_the_gateway_with_status_1() -> None:
    with running(*KERNEL, "kit", "gateway", "--port", "0") as first:
        assert first.stdout is not None
        found = re.search(r":(\d+)/", first.stdout.readline())
        assert found is not None
        result = CliRunner().invoke(main, ["kit", "gateway", "--port", found[1]])
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: port {found[1]} of 127.0.0.1: ")
