"""May a message start a turn? Four kinds, ordered by strictness (turn-kernel.md 5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from openab_kernel.facts.base import Facts


class Dispatch(Facts):
    """The agent runs and its replies are visible."""

    kind: Literal["dispatch"] = "dispatch"
    reason: str | None = None


class ObserveOnly(Facts):
    """Recorded, and the agent runs in an assembled turn, but nothing of it is visible."""

    kind: Annotated[
        Literal["observeOnly"],
        BeforeValidator(lambda kind: "observeOnly" if kind == "observe_only" else kind),
    ] = "observeOnly"
    reason: str


class Handled(Facts):
    """Consumed here: no record, no dispatch."""

    kind: Literal["handled"] = "handled"
    reason: str


class Drop(Facts):
    """Skipped. With `record_history` the message is noted for the next turn of its conversation."""

    kind: Literal["drop"] = "drop"
    reason: str
    record_history: bool = False


def _kind_of(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "observeOnly" if kind == "observe_only" else str(kind)


Admission = Dispatch | ObserveOnly | Handled | Drop

STRICTNESS: dict[str, int] = {"dispatch": 0, "observeOnly": 1, "handled": 2, "drop": 3}


_MODELS: dict[str, type[Dispatch] | type[ObserveOnly] | type[Handled] | type[Drop]] = {
    "dispatch": Dispatch,
    "observeOnly": ObserveOnly,
    "handled": Handled,
    "drop": Drop,
}


def as_admission(value: object) -> Admission | None:
    """Take `value` for an admission if its `kind` (attribute or key) is one of the four, else None.

    Raises:
        pydantic.ValidationError: the kind fits and the other fields do not.
    """
    if isinstance(value, Dispatch | ObserveOnly | Handled | Drop):
        return value
    kind = _kind_of(value)
    if kind not in STRICTNESS:
        return None
    fields = (
        dict(value)
        if isinstance(value, dict)
        else {name: getattr(value, name) for name in ("reason", "record_history") if hasattr(value, name)}
    )
    model = _MODELS[kind]
    return model(**{**fields, "kind": kind})


def strictest(*admissions: Admission | None) -> Admission:
    """The strictest of those given; of two equally strict the earlier. None given: dispatch."""
    found: Admission | None = None
    for admission in admissions:
        if admission is not None and (found is None or STRICTNESS[admission.kind] > STRICTNESS[found.kind]):
            found = admission
    return found or Dispatch()
