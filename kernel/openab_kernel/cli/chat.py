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
from openab_kernel.cli.threads import leave_stuck_threads
from openab_kernel.config import read_document
from openab_kernel.default_plugins import demo_agent
from openab_kernel.errors import KernelError
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
GREETING = "A chat with the built-in demo agent. Say hello, or press Ctrl-D to end."
WAITING = "\nStopping when the answer is there; press Ctrl-C again to stop at once."


@click.command()
@click.option("-c", "--config", "path", type=click.Path(path_type=Path), default=DEFAULT_FILE, show_default=True)
@click.option("--demo", is_flag=True, help="No file, no account: a built-in agent, and a state that is forgotten.")
@leave_stuck_threads()
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
        _chat(demo_file, greeting=GREETING)


def _chat(path: Path, *, greeting: str = "") -> None:
    document = read_document(path)
    quiet(document.secrets(os.environ))
    setup = set_up(document, os.environ)
    settings = setup.config.of(LogSettings)
    configure(settings if "level" in settings.model_fields_set else LogSettings(level="warning"), setup.redact)
    kernel = build(setup, interactive=True)
    try:
        if greeting and sys.stdin.isatty():
            _print(greeting)
        run_kernel(kernel, "asyncio", lambda: click.echo(WAITING, err=True))
    finally:
        _discard_what_nobody_reads()


def _print(text: str) -> None:
    try:
        click.echo(text)
    except OSError as error:
        raise KernelError(f"standard output cannot be written: {error.strerror}") from error


def _discard_what_nobody_reads() -> None:
    """Or Python would try to write it once more at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
