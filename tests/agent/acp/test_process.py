"""Pieces of the process that decide something (agent.md 1)."""

import os
import subprocess
import sys

import pytest

from openab_kernel.agent.acp.process import AdoptedChildren, LineAllowance, for_log, zombie_children
from openab_kernel.redact import Redactor


@pytest.mark.parametrize(
    ("line", "limit", "shown"),
    [
        (b"plain", 10, "plain"),
        ("text", 10, "text"),
        (b"\x1b[2J\x07", 20, "\\x1b[2J\\x07"),
        (b"\xff\xfe", 10, "\ufffd\ufffd"),
        (b"a tok-123456", 20, "a ***"),
        (b"aaaa tok-123456", 8, "aaaa ***"),
        (b"x" * 100, 5, "xxxx…"),
    ],
)
def test_text_for_a_log_is_masked_escaped_and_then_cut(line, limit, shown):
    assert for_log(line, limit, Redactor(["tok-123456"])) == shown


def test_so_many_lines_a_second_may_be_logged():
    allowance = LineAllowance(2)
    assert [allowance.take(10.0) for _ in range(4)] == [(True, 0), (True, 0), (False, 0), (False, 0)]
    assert allowance.skipped == 2
    assert allowance.take(10.9) == (False, 0)
    assert allowance.take(11.0) == (True, 3)
    assert allowance.skipped == 0
    assert allowance.take(30.0) == (True, 0)


def test_zombies_are_found_by_state_and_parent(tmp_path):
    for pid, stat in {"7": "7 (a) Z 1 0", "8": "8 (b) Z) S 1 0", "9": "9 (c) (d) Z 5 0", "10": "", "self": "z"}.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "stat").write_text(stat)
    (tmp_path / "11").mkdir()
    assert zombie_children(1, tmp_path) == {7}
    assert zombie_children(1, tmp_path / "missing") == set()


def test_orphan_is_reaped_when_it_is_seen_twice():
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", ""], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        adopted = AdoptedChildren()
        assert adopted.reap() == 0
        assert child.pid in zombie_children(os.getpid())
        assert adopted.reap() == 1
        assert child.pid not in zombie_children(os.getpid())
        assert adopted.reap() == 0
