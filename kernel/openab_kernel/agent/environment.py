"""The environment of an agent (agent.md 1.2, 1.3). PURE.

An agent sees nothing of ours that was not listed by name: no token of a platform, gateway or store. And it is told the
delivery mode, by three variables that no second setting may contradict: a mispaired agent is the one way machine text
could reach a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from openab_kernel.agent.settings import AgentSettings
from openab_kernel.delivery.settings import DeliveryMode, DeliverySettings
from openab_kernel.errors import ConfigProblem
from openab_kernel.redact import printable

POSIX_NAMES = ("HOME", "PATH", "USER")
WINDOWS_NAMES = ("USERPROFILE", "USERNAME", "PATH", "SystemRoot", "SystemDrive")

ENVELOPE = "OPENAB_AGENT_TURN_ENVELOPE"
SEQUENTIAL = "OPENAB_AGENT_SEQUENTIAL_BUBBLES"
MAX_BUBBLES = "OPENAB_AGENT_MAX_BUBBLES"

SHOWN_CHARS = 80
SWITCH_OFF = ("", "0", "false", "no", "off")
SWITCH_ON = ("1", "true", "yes", "on")


class ToldMode(NamedTuple):
    """`[delivery]`, as far as an agent is told of it."""

    mode: DeliveryMode
    schema: str
    max_bubbles: int

    @classmethod
    def of(cls, delivery: DeliverySettings) -> ToldMode:
        return cls(delivery.mode, delivery.schema_id, delivery.max_bubbles)

    def variables(self) -> dict[str, str]:
        return {
            ENVELOPE: "" if self.mode == "text" else self.schema,
            SEQUENTIAL: "1" if self.mode == "sequential" else "0",
            MAX_BUBBLES: str(self.max_bubbles),
        }


def agent_environment(
    settings: AgentSettings, told: ToldMode, environ: Mapping[str, str], *, is_windows: bool = False
) -> dict[str, str]:
    """Give the whole environment of the agent. `environ` is the kernel's own.

    The pairs of `[agent] env` win over inherited ones. The variables of the mode are as `told` says, but for a
    smaller cap. Settings that `environment_problems` finds fault with must not come here.
    """
    listed = _listed(settings, environ)
    base = WINDOWS_NAMES if is_windows else POSIX_NAMES
    inherited = {name: environ[name] for name in base if name in environ}
    result = {**inherited, **{name: value for name, (_, value) in listed.items()}, **told.variables()}
    _, cap = listed.get(MAX_BUBBLES, ("", ""))
    return {**result, MAX_BUBBLES: cap.strip()} if cap.strip() else result


def environment_problems(settings: AgentSettings, told: ToldMode, environ: Mapping[str, str]) -> list[ConfigProblem]:
    """Name every listed variable that gives the mode another meaning, and the setting it contradicts."""
    return list(_problems(_listed(settings, environ), told))


def _listed(settings: AgentSettings, environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What the operator listed: name to the key that listed it and the value."""
    inherited = {name: ("inherit_env", environ[name]) for name in settings.inherit_env if name in environ}
    return {**inherited, **{name: ("env", value) for name, value in settings.env.items()}}


def _problems(listed: Mapping[str, tuple[str, str]], told: ToldMode) -> Iterator[ConfigProblem]:
    for name, meant in told.variables().items():
        key, found = listed.get(name, ("", meant))
        if _agrees(name, found, meant):
            continue
        if name == MAX_BUBBLES:
            way_out = f"[delivery] max_bubbles is {meant}: leave it out, or give 1 to {meant}"
        else:
            way_out = f'[delivery] mode is {told.mode}, which makes it "{meant}": leave it out, or change [delivery]'
        shown = f'"{printable(found, SHOWN_CHARS)}"' if found.strip() else "blank"
        yield ConfigProblem(f"agent.{key}.{name}", shown, way_out)


def _agrees(name: str, found: str, meant: str) -> bool:
    """Does a listed value mean what the mode says? A blank envelope is off, a blank cap is none of its own."""
    if name == ENVELOPE:
        return (found if found.strip() else "") == meant
    if name == SEQUENTIAL:
        return found.strip().lower() in (SWITCH_ON if meant == "1" else SWITCH_OFF)
    cap = found.strip()
    return not cap or (cap.isascii() and cap.isdigit() and len(cap) < 9 and 1 <= int(cap) <= int(meant))
