"""The command line as a whole: what it costs to start, and how errors end it."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from openab_kernel import __version__
from openab_kernel.cli import COMMANDS, main
from openab_kernel.cli.options import describe_plugin, exit_on_error
from openab_kernel.errors import ConfigError, ConfigProblem, StoreLockedError
from openab_kernel.plugin_host.loader import PluginInfo


def test_version_is_told_without_loading_the_kernel():
    code = """
import sys
from openab_kernel.cli import main
main(["--version"], standalone_mode=False)
heavy = {"pydantic", "anyio", "structlog", "httpx", "openab_kernel.config", "openab_kernel.app"}
print(sorted(heavy & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [f"openab-kernel, version {__version__}", "[]"]


def test_help_lists_every_command():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0, result.output
    assert all(f"  {name}" in result.output for name in COMMANDS)


def test_unknown_command_is_a_wrong_usage():
    assert CliRunner().invoke(main, ["nothing"]).exit_code == 2


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (
            ConfigError([ConfigProblem("a", "b", "c"), ConfigProblem("d", "e", "f")]),
            2,
            "error: a: b; c\nerror: d: e; f\n",
        ),
        (StoreLockedError("x.db", "process 7"), 1, "error: store x.db: held by process 7"),
        (StoreLockedError("x.db\x1b", "Bearer canary-5f1c"), 1, r"error: store x.db\x1b: held by Bearer ***"),
    ],
)
def test_error_of_ours_is_told_in_a_line_and_a_status(error, status, text):
    @click.command()
    @exit_on_error()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(fail)
    assert result.exit_code == status
    assert result.stderr.startswith(text)


def test_error_of_somebody_else_is_not_hidden():
    @click.command()
    @exit_on_error()
    def fail() -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(fail).exception, ZeroDivisionError)


def test_loaded_plugins_are_listed_with_their_packages(tmp_path):
    result = CliRunner().invoke(main, ["plugins", "list", "-c", str(tmp_path / "absent.toml")])
    assert result.exit_code == 0, result.output
    listed = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert listed["gateway_ws"] == listed["terminal"] == ["openab-kernel", __version__]
    assert listed["stores"] == ["openab-kernel", "built", "in"]


def test_disabled_plugin_is_not_listed(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[plugins]\ndisabled = ["gateway_ws"]')
    result = CliRunner().invoke(main, ["plugins", "list", "-c", str(path)])
    assert "gateway_ws" not in result.stdout
    assert "terminal" in result.stdout


def test_plugin_that_failed_is_told_on_one_line_without_its_secrets():
    text = describe_plugin(PluginInfo("x", "openab-x", "1.0", "ValueError: Bearer canary-5f1c\nand more"))
    assert text == r"not loaded: ValueError: Bearer ***\nand more (openab-x 1.0)"


def test_store_that_no_plugin_serves_is_named_with_those_that_are(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[gateway]\nurl = "ws://127.0.0.1:1"\n[agent]\ncommand = "cat"\n[store]\nurl = "postgresql://db/x"\n'
    )
    result = CliRunner().invoke(main, ["serve", "-c", str(config)])
    assert result.exit_code == 2
    assert "store.url: no store for postgresql:; known schemes: sqlite" in result.stderr
