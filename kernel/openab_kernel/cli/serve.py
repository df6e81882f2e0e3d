"""`serve`: run the service until it is told to stop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import anyio
import click

from openab_kernel.app import Kernel, build, set_up, tell_at_start
from openab_kernel.app import serve as run_until_signalled
from openab_kernel.cli.options import config_option, exit_on_error
from openab_kernel.cli.threads import leave_stuck_threads
from openab_kernel.config import read_document
from openab_kernel.observability.logs import configure
from openab_kernel.observability.settings import LogSettings
from openab_kernel.redact import Redactor

CUT_STATUS = 130
SWITCH_SECONDS = 0.0005
"""How long the loop may keep the interpreter from the thread that writes the store; Python's own 5 ms are a fifth of
what a person calls at once."""


@click.command()
@config_option
@click.option(
    "--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio", show_default=True, help="The event loop."
)
@leave_stuck_threads()
@exit_on_error()
def serve(path: Path, backend: str) -> None:
    """Serve until SIGTERM; then finish what runs and exit with 0. Status 2 for a configuration that cannot be used."""
    document = read_document(path)
    quiet(document.secrets(os.environ))
    setup = set_up(document, os.environ)
    configure(setup.config.of(LogSettings), setup.redact)
    tell_at_start(setup.config, os.environ)
    run_kernel(build(setup), backend)


def quiet(secrets: Iterable[str]) -> None:
    """Until the configuration says more, only warnings are logged."""
    configure(LogSettings(level="warning"), Redactor(secrets))


def run_kernel(kernel: Kernel, backend: str, on_stop: Callable[[], object] = lambda: None) -> None:
    """Run to the end; an error of one of the kernel's own parts is raised as itself, not as a group.

    `on_stop`: see `openab_kernel.app.serve`.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        ended = anyio.run(run_until_signalled, kernel, on_stop, backend=backend)
    except BaseExceptionGroup as group:
        raise innermost(group) from group
    if not ended:
        raise SystemExit(CUT_STATUS)


def innermost(error: BaseException) -> BaseException:
    """The first error of a group that is no group itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
