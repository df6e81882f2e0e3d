"""Which models an agent offers, and how a person is told (agent.md 10). PURE.

Agents say it in one of two ways: as a config option of the category `model`, or, the older ones, in `models` of the
answer to `session/new`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from openab_kernel.agent.acp.mapping import objects_of

Object = dict[str, Any]

SHOWN_MODELS = 50
NAME_LIMIT_CHARS = 100


class ModelChoice(NamedTuple):
    """Ids of the models, in the agent's order, and the one in use, if it says."""

    ids: tuple[str, ...]
    current: str | None


def models_in_session(answer: Object) -> ModelChoice | None:
    """Read the answer to `session/new`, `session/load` or `session/set_config_option`."""
    found = models_in_options(answer.get("configOptions"))
    models = answer.get("models")
    if found is not None or not isinstance(models, dict):
        return found
    return _choice(_ids(models.get("availableModels"), "modelId"), models.get("currentModelId"))


def models_in_options(options: object) -> ModelChoice | None:
    """Read a list of config options."""
    for option in objects_of(options):
        if option.get("category") == "model" or option.get("id") == "model":
            return _choice(_ids(option.get("options"), "value"), option.get("currentValue"))
    return None


def _choice(ids: Iterator[str], current: object) -> ModelChoice:
    return ModelChoice(tuple(ids), current if isinstance(current, str) else None)


def _ids(values: object, key: str) -> Iterator[str]:
    """The ids in a list of choices, or of groups of choices."""
    for value in objects_of(values):
        for choice in (value, *objects_of(value.get("options"))):
            if isinstance(choice.get(key), str):
                yield choice[key]


def models_text(choice: ModelChoice | None) -> str:
    """Lines for a person."""
    if choice is None or not choice.ids:
        in_use = f" It uses {_shown(choice.current)}." if choice and choice.current else ""
        return f"This agent does not say which models it offers.{in_use}"
    shown = choice.ids[:SHOWN_MODELS]
    if choice.current is not None and choice.current not in shown:
        shown = (choice.current, *shown)
    lines = [f"{_shown(name)} (in use)" if name == choice.current else _shown(name) for name in shown]
    hidden = len(choice.ids) - SHOWN_MODELS
    return "\n".join(["Models:", *lines, *([f"and {hidden} more"] if hidden > 0 else [])])


def _shown(name: str) -> str:
    """An id on one line, of bearable length."""
    return " ".join(name.split())[:NAME_LIMIT_CHARS]
