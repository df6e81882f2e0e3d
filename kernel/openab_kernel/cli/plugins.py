"""`plugins list`: what is loaded, and why something is not."""

from __future__ import annotations

import os
from pathlib import Path

import click

from openab_kernel.app import find_plugins
from openab_kernel.cli.options import config_option, describe_plugin, exit_on_error, silence_logs
from openab_kernel.config import glance


@click.group()
def plugins() -> None:
    """Look at plugins."""


@plugins.command("list")
@config_option
@exit_on_error()
def list_plugins(path: Path) -> None:
    """List what is loaded, and what could not be and why."""
    silence_logs()
    found = find_plugins(glance(path), os.environ)
    found.settings()
    for info in found.infos.values():
        click.echo(f"{info.name:<16} {describe_plugin(info)}")
