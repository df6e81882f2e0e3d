"""`[agent]` and `[pool]` (agent.md 1.1, 14): what is run, and how many of it for how long.

The error of a validator says what was expected, no more: the loader adds the key and what was found.
"""

from __future__ import annotations

import os.path
import shlex
import shutil
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from openab_kernel.errors import ConfigError, ConfigProblem
from openab_kernel.facts.base import Facts

Permission = Literal["reject", "allow_once", "allow_always"]

OWN_AGENT = "openab-agent"
COMMAND_VARIABLE = "OPENAB_AGENT_COMMAND"
BUBBLE_INACTIVITY_SECONDS = 600
SLOT_WAIT_SECONDS = 60
WEEK_SECONDS = 7 * 24 * 3600


def _check_text(value: str) -> str:
    if not value.strip():
        raise ValueError("a string that is not blank")
    return value


def _check_list(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("an array of strings")
    return value


def _check_table(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError("a table of names and values")
    return value


Text = Annotated[str, AfterValidator(_check_text)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_check_list)]


class AgentSettings(Facts):
    """`[agent]`. No command: see `resolve_command`. No `working_dir`: the home directory."""

    command: Text | None = None
    args: Texts = ()
    working_dir: Text | None = None
    env: Annotated[dict[str, str], BeforeValidator(_check_table)] = Field(default={})
    inherit_env: Texts = ()
    permission: Permission = "reject"


class PoolSettings(Facts):
    """`[pool]`. `prompt_inactivity_timeout_secs` None: by the mode; 0: off."""

    max_sessions: int = Field(default=10, ge=1, le=10_000)
    session_ttl_hours: float = Field(default=4, gt=0, le=8760)
    prompt_hard_timeout_secs: int = Field(default=1800, ge=1, le=WEEK_SECONDS)
    prompt_inactivity_timeout_secs: int | None = Field(default=None, ge=0, le=WEEK_SECONDS)
    liveness_check_secs: int = Field(default=30, ge=1, le=WEEK_SECONDS)
    hung_grace_secs: int = Field(default=120, ge=0, le=WEEK_SECONDS)
    shutdown_grace_secs: int = Field(default=30, ge=0, le=WEEK_SECONDS)
    default_config_options: Annotated[dict[str, bool | str], BeforeValidator(_check_table)] = Field(default={})

    def inactivity_seconds(self, *, is_bubble_mode: bool) -> int:
        """How long an agent may be silent in a turn; 0: as long as it likes."""
        if self.prompt_inactivity_timeout_secs is not None:
            return self.prompt_inactivity_timeout_secs
        return BUBBLE_INACTIVITY_SECONDS if is_bubble_mode else 0


def resolve_command(settings: AgentSettings, environ: Mapping[str, str]) -> list[str]:
    """Give the program and its arguments.

    Raises:
        ConfigError: none is named and `openab-agent` is not installed, or what is named cannot be read.
    """
    if settings.command is not None:
        return [settings.command, *settings.args]
    if settings.args:
        raise _command_error("missing, and args are given", "name the program these args are for")
    if environ.get(COMMAND_VARIABLE, "").strip():
        return _split(environ[COMMAND_VARIABLE])
    if shutil.which(OWN_AGENT, path=environ.get("PATH")) is None:
        way_out = f"set [agent] command or ${COMMAND_VARIABLE}, or install {OWN_AGENT}"
        raise _command_error(f"not set, and {OWN_AGENT} is not on the PATH", way_out)
    return [OWN_AGENT]


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        way_out = f"write ${COMMAND_VARIABLE} as a shell would read it"
        raise _command_error(f"${COMMAND_VARIABLE} cannot be split: {error}", way_out) from error


def _command_error(found: str, way_out: str) -> ConfigError:
    return ConfigError([ConfigProblem("agent.command", found, way_out)])


def resolve_working_dir(settings: AgentSettings, environ: Mapping[str, str]) -> str:
    """Give the absolute directory agents work in."""
    return os.path.abspath(settings.working_dir or environ.get("HOME") or os.curdir)
