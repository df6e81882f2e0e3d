"""A plugin that warns of slow turns: a section of its own, and an observer."""

from __future__ import annotations

import structlog
from pydantic import BaseModel, ConfigDict, Field

from openab_kernel import Services, Settings, hookimpl
from openab_kernel.facts.turn import TurnSummary
from openab_kernel.interfaces.observer import Observer

log = structlog.get_logger("stopwatch")


class StopwatchSettings(BaseModel):
    """What an operator may write in `[stopwatch]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    slow_ms: int = Field(default=60_000, ge=0, description="a turn that takes longer is warned of")


class Stopwatch:
    """Is told of every turn when it is over."""

    def __init__(self, slow_ms: int) -> None:
        self._slow_ms = slow_ms

    async def turn_finished(self, summary: TurnSummary) -> None:
        if summary.elapsed_ms > self._slow_ms:
            log.warning("turn.lagged", turn_id=summary.turn_id, elapsed_ms=summary.elapsed_ms)


@hookimpl
def plugin_settings() -> list[tuple[str, type[BaseModel]]]:
    return [("stopwatch", StopwatchSettings)]


@hookimpl
def register_turn_observers(settings: Settings, services: Services) -> list[Observer]:
    return [Stopwatch(settings.of(StopwatchSettings).slow_ms)]
