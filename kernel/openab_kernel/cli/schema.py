"""`schema`: JSON Schemas of the configuration file and of the wire formats."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from openab_kernel.app import find_plugins
from openab_kernel.cli.options import config_option, exit_on_error, silence_logs
from openab_kernel.cli.wire_schemas import DIALECT, EVENT, REPLY, TURN
from openab_kernel.config import KERNEL_SECTIONS, glance

WIRE = {"event": EVENT, "reply": REPLY, "turn": TURN}


@click.command()
@click.argument("kind", type=click.Choice(["config", *WIRE]))
@config_option
@exit_on_error()
def schema(kind: str, path: Path) -> None:
    """Print a JSON Schema: of config.toml, of the gateway's events and replies, or of an agent's turn."""
    silence_logs()
    found = WIRE.get(kind) or config_schema({**find_plugins(glance(path), os.environ).settings(), **KERNEL_SECTIONS})
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))


def config_schema(sections: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """One schema of a file with these sections; others may belong to plugins that are missing."""
    references, definitions = models_json_schema([(model, "validation") for model in sections.values()])
    return {
        "$schema": DIALECT,
        "title": "config.toml of openab-kernel",
        "type": "object",
        "properties": {name: references[model, "validation"] for name, model in sections.items()},
        **definitions,
    }
