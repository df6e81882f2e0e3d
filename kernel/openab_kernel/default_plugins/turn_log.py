"""The turn log: one `turn.finished` line tells a whole turn (delivery.md 11)."""

from __future__ import annotations

import structlog

from openab_kernel.facts.turn import TurnSummary
from openab_kernel.interfaces.observer import Observer
from openab_kernel.plugin_host.hookspecs import Services, Settings, hookimpl

log = structlog.get_logger("openab_kernel.turns")


class TurnLog:
    """An observer of finished turns."""

    async def turn_finished(self, summary: TurnSummary) -> None:
        log.info("turn.finished", **summary.model_dump(exclude_none=True))


@hookimpl
def register_turn_observers(settings: Settings, services: Services) -> list[Observer]:
    return [TurnLog()]
