"""The command line: arguments and printing. A command is imported when it is called, or in the help."""

from __future__ import annotations

import importlib

import click

from openab_kernel import __version__

COMMANDS = ("serve", "chat", "check", "envelope", "kit", "plugins", "schema")
"""Each is a module of this package that holds a command of its own name."""


class LazyGroup(click.Group):
    """A group whose commands cost nothing until they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"{__name__}.{cmd_name}"), cmd_name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="openab-kernel")
def main() -> None:
    """The service between chat platforms and AI agents that speak ACP."""
