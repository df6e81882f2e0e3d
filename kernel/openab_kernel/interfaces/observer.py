"""Who may watch. An observer is told, and changes nothing; what it raises is counted and logged, nothing more."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, runtime_checkable

from openab_kernel.facts.turn import ChannelTurnResult, StageEvent, TurnSummary


@runtime_checkable
class StageObserver(Protocol):
    """Told of every stage of every message. Async methods run on the loop, plain ones in a worker thread."""

    def stage_event(self, event: StageEvent) -> Awaitable[None] | None: ...


@runtime_checkable
class ResultObserver(Protocol):
    """Told how every message ended."""

    def message_ended(self, result: ChannelTurnResult) -> Awaitable[None] | None: ...


@runtime_checkable
class TurnObserver(Protocol):
    """Told of every finished turn."""

    def turn_finished(self, summary: TurnSummary) -> Awaitable[None] | None: ...


Observer = StageObserver | ResultObserver | TurnObserver
