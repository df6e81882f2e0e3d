"""Stage 1: the raw platform event, in the kernel's words."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any, TypeVar

from openab_kernel.facts.event import NormalizedTurnInput
from openab_kernel.interfaces.channel import TurnAdapter

T = TypeVar("T")


async def ingest(adapter: TurnAdapter, raw: Any) -> NormalizedTurnInput | None:
    """None: the event is not for us.

    Raises:
        TypeError: the adapter gave something else.
    """
    return expect(await answer(adapter.ingest(raw)), NormalizedTurnInput, "ingest")


async def answer(value: Any) -> Any:
    """What an adapter method or a listener gave, whether it is async or plain."""
    return await value if isawaitable(value) else value


def expect(value: Any, kind: type[T], method: str) -> T | None:
    """`value` if it is of the kind an adapter method promises, or None.

    Raises:
        TypeError: it is neither.
    """
    if value is None or isinstance(value, kind):
        return value
    raise TypeError(f"turn adapter, {method}: gave {type(value).__name__}; expected {kind.__name__} or None")
