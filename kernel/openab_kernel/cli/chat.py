"""`chat`: the same kernel with the terminal as its channel."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click

from openab_kernel.app import build, set_up
from openab_kernel.cli.options import DEFAULT_FILE, exit_on_error
from openab_kernel.cli.serve import quiet, run_kernel
from openab_kernel.config import read_document
from openab_kernel.default_plugins import demo_agent
from openab_kernel.observability.logs import configure
from openab_kernel.observability.settings import LogSettings

DEMO = """\
[agent]
command = '{python}'
args = ["-I", '{agent}']
[store]
url = "sqlite:///demo.db"
[log]
level = "warning"
"""


@click.command()
@click.option("-c", "--config", "path", type=click.Path(path_type=Path), default=DEFAULT_FILE, show_default=True)
@click.option("--demo", is_flag=True, help="No file, no account: a built-in agent, and a state that is forgotten.")
@exit_on_error()
def chat(path: Path, demo: bool) -> None:
    """Talk to the agent here. Reads a keyboard or a pipe; ends when the input does."""
    if sys.stdin is None:
        raise click.UsageError("standard input is closed: chat reads its messages from a keyboard, a pipe or a file")
    if sys.stdout is None:
        raise click.UsageError("standard output is closed: chat writes its answers there")
    if not demo:
        return _chat(path)
    with tempfile.TemporaryDirectory(prefix="openab-demo-") as folder:
        demo_file = Path(folder, "config.toml")
        demo_file.write_text(DEMO.format(python=sys.executable, agent=demo_agent.__file__), encoding="utf-8")
        if sys.stdin.isatty():
            click.echo("A chat with the built-in demo agent. Say hello, or press Ctrl-D to end.")
        _chat(demo_file)


def _chat(path: Path) -> None:
    document = read_document(path)
    quiet(document.secrets(os.environ))
    setup = set_up(document, os.environ)
    settings = setup.config.of(LogSettings)
    configure(settings if "level" in settings.model_fields_set else LogSettings(level="warning"), setup.redact)
    kernel = build(setup, interactive=True)
    run_kernel(kernel, "asyncio")
    if any(getattr(channel, "is_output_lost", False) for channel in kernel.parts.channels):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries once more at its end
        raise SystemExit(1)
