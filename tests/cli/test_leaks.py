"""X-01: a plugin that quotes a secret while it loads leaks it into no command's output."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openab_kernel.cli import main

CANARY = "canary-5f1c"
SOURCE = """
import os
raise RuntimeError("login failed with " + os.environ["LK"])
"""
GATEWAY = '[agent]\ncommand = "cat"\n[gateway]\nallowed_users = ["1"]\n'

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command beside a plugin that cannot be loaded; gives its result."""
    info = tmp_path / "leaky_dist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: leaky-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[openab_kernel.plugins]\nleaky = leaky_plugin\n")
    (tmp_path / "leaky_plugin.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run_it(text: str | None, *command: str, **environ: str) -> Result:
        path = tmp_path / "config.toml"
        if text is not None:
            path.write_text(text)
        return CliRunner(env={"LK": CANARY, **environ}).invoke(main, [*command, "-c", str(path)])

    return run_it


@pytest.mark.parametrize("command", ["check", "plugins list", "serve", "schema config"])
@pytest.mark.parametrize("plugins", ["", "[plugins]\nstrict = true"])
@pytest.mark.parametrize(
    ("keys", "environ"),
    [
        ('url = "ws://h"\ntoken = "${GATEWAY_TOKEN}"', {"GATEWAY_TOKEN": CANARY}),
        (f'url = "ws://h"\ntoken = "{CANARY}"', {}),
        ('url = "ws://h"\nlogin = "${LK}"', {}),
        (f'url = "ws://me:{CANARY}@h"', {}),
        (f'url = "ws://h"\ntoken = {{ x = ["{CANARY}"] }}', {}),
    ],
)
def test_configured_secret_is_masked(run: Run, command: str, plugins: str, keys: str, environ: dict[str, str]) -> None:
    broken = "[log]\nlevel = 5\n" if command == "serve" else ""  # or it would run
    result = run(f"{GATEWAY}{keys}\n{broken}{plugins}", *command.split(), **environ)
    assert CANARY not in result.output + result.stderr
    if plugins:
        assert result.exit_code == 1
        assert "error: plugin leaky: leaky_plugin: RuntimeError: login failed with ***" in result.stderr


@pytest.mark.parametrize("text", [None, "", "x = "])
def test_without_a_configuration_only_the_class_of_the_error_is_told(run: Run, text: str | None) -> None:
    result = run(text, "plugins", "list")
    assert "not loaded: leaky_plugin: RuntimeError (leaky-dist 1.0)" in result.stdout
    assert CANARY not in result.output
    assert CANARY not in run("", "serve").output
