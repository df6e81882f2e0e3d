"""The channel of docs/plugins.md, as its author would have it: installed, tested, run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ECHO


def run(*command: str | Path, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], env=env, cwd=cwd, capture_output=True, text=True, timeout=120
    )


def test_its_own_tests_pass(with_echo: dict[str, str]) -> None:
    tests = run("pytest", "-q", "-p", "no:cacheprovider", env=with_echo, cwd=ECHO)
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert " passed" in tests.stdout


def test_it_is_found_by_its_entry_point(with_echo: dict[str, str], tmp_path: Path) -> None:
    listed = run("openab_kernel", "plugins", "list", env=with_echo, cwd=tmp_path).stdout.splitlines()
    assert [line.split() for line in listed if line.startswith("echo")] == [["echo", "openab-echo", "1.0"]]


def test_check_tells_who_may_write_to_it(with_echo: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"[echo]\nfolder = '{tmp_path}'\nallowed_users = ['alice']\n[agent]\ncommand = 'opencode'\n")
    told = run("openab_kernel", "check", "-c", config, env=with_echo, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "direct chats: alice" in told.stdout
