"""What commands share: the configuration option, and how a start that cannot be is told."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import structlog

from openab_kernel.errors import ConfigError, KernelError
from openab_kernel.plugin_host.loader import PluginInfo
from openab_kernel.redact import Redactor, printable

CAUSE_CHARS = 500
EMOJI_JOINER = "\u200d"
LONGEST_ESCAPE = len("\\U0001f600")
DEFAULT_FILE = Path("config.toml")

config_option = click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT_FILE,
    show_default=True,
    help="The configuration file.",
)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End with status 2 and one line a problem for a bad configuration, with 1 for another error of ours.

    Also a decorator.
    """
    try:
        yield
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"error: {problem}", err=True)
        sys.exit(2)
    except KernelError as error:
        click.echo(f"error: {printable(Redactor()(str(error)), CAUSE_CHARS)}", err=True)
        sys.exit(1)


def silence_logs() -> None:
    """For a command that prints what it finds: nothing is told twice."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def describe_plugin(info: PluginInfo) -> str:
    """What it is, or why it is not loaded, on one line."""
    if info.cause is None:
        return f"{info.distribution} {info.version}"
    return printable(Redactor()(f"not loaded: {info.cause} ({info.distribution} {info.version})"), CAUSE_CHARS)


def lines_for_terminal(text: str) -> list[str]:
    """The lines of a text of an agent's, so that they can do nothing to a terminal."""
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return [
        EMOJI_JOINER.join(printable(part, LONGEST_ESCAPE * len(part)) for part in line.split(EMOJI_JOINER))
        for line in lines
    ]
