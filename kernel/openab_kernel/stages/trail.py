"""The trail of one message: which stage it is in, and the events that tell of it (turn-kernel.md 4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog

from openab_kernel.facts.admission import Admission
from openab_kernel.facts.turn import EventName, Stage, StageEvent
from openab_kernel.observability.observers import Observers

log = structlog.get_logger("openab_kernel.trail")

LogCallback = Callable[[StageEvent], Any]


class Trail:
    """Owned by the task that carries the message. Events are built only if somebody listens.

    Every `begin` is followed by exactly one of `done`, `end` and `fail` for that stage.
    """

    def __init__(
        self, observers: Observers, channel: str, account_id: str | None, callback: LogCallback | None = None
    ) -> None:
        self.channel = channel
        self.account_id = account_id
        self.message_id: str | None = None
        self.event_id: str | None = None
        self.session_key: str | None = None
        self.turn_id: str | None = None
        self.stage: Stage | None = None
        self._observers = observers
        self._callback = callback
        self._listening = callback is not None or observers.hears_stages
        self._since: dict[Stage, float] = {}
        self._is_callback_broken = False

    @property
    def ids(self) -> dict[str, str | None]:
        """Which message this is, for a line of the log."""
        return {
            "channel": self.channel,
            "account_id": self.account_id,
            "message_id": self.message_id,
            "event_id": self.event_id,
        }

    def begin(self, stage: Stage, *, owner: str | None = None) -> None:
        self.stage = stage
        if self._listening:
            self._since[stage] = time.perf_counter()
            self._tell(stage, "start", owner=owner)

    def done(self, stage: Stage, *, owner: str | None = None, counts: dict[str, int] | None = None) -> None:
        if self._listening:
            self._tell(stage, "done", owner=owner, counts=counts)

    def end(self, stage: Stage, admission: Admission) -> None:
        """The stage ended the message; drop and handled have an event each."""
        if self._listening:
            event: EventName = "handled" if admission.kind == "handled" else "drop"
            self._tell(stage, event, admission=admission.kind, reason=admission.reason)

    def fail(self, stage: Stage, error: BaseException) -> None:
        """It raised. The error is told by its class: its text may quote a person."""
        if self._listening:
            self._tell(stage, "error", error=type(error).__name__)

    def warn(self, stage: Stage, *, reason: str, error: BaseException | None = None) -> None:
        if self._listening:
            self._tell(stage, "warning", reason=reason, error=type(error).__name__ if error else None)

    def _tell(self, stage: Stage, event: EventName, **found: Any) -> None:
        since = self._since.get(stage)
        built = StageEvent(
            stage=stage,
            event=event,
            channel=self.channel,
            account_id=self.account_id,
            message_id=self.message_id,
            session_key=self.session_key,
            turn_id=self.turn_id,
            duration_ms=None if event == "start" or since is None else (time.perf_counter() - since) * 1000,
            **found,
        )
        self._observers.stage_event(built)
        if self._callback is not None:
            self._call_back(built)

    def _call_back(self, event: StageEvent) -> None:
        assert self._callback is not None
        try:
            self._callback(event)
        except Exception as error:
            if not self._is_callback_broken:
                log.error("log_callback.failed", channel=self.channel, exc_info=error)
            self._is_callback_broken = True
