"""Signs of work: marks on the messages that are worked on, and the typing sign (delivery.md 7.4, outbound.md 8.2).

They are a courtesy. Nobody waits for them, and their failures are noted at debug level alone. A task for each message
makes the platform show the mark that is right at the moment; marks that were right while it waited are passed over.
What should be shown when is decided in `policies/status.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal

import anyio
import structlog
from anyio import CancelScope
from anyio.abc import TaskGroup, TaskStatus

from openab_kernel.clock import Clock
from openab_kernel.errors import PlatformMessageNotDispatchedError, SendError, SendThrottled
from openab_kernel.facts.agent_update import AgentUpdate, BubbleMessage, TextChunk
from openab_kernel.facts.outbound import Destination
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.interfaces.message_adapter import MessageAdapter
from openab_kernel.outbound.channels import Channels
from openab_kernel.outbound.settings import ReactionsSettings
from openab_kernel.policies.status import FinalMark, StatusCourse, StatusTiming, sign_of

log = structlog.get_logger("openab_kernel.live")

STALLED_EMOJI = "🥱"
STUCK_EMOJI = "😨"
TYPING_SECONDS = 6.0
CALL_SECONDS = 30.0
RETRY_SECONDS = 5.0
MAX_FAILURES = 5
MAX_MARKS = 10_000

Task = Callable[[], Coroutine[Any, Any, None]]
MarkKey = tuple[str, str | None, str, str]


class Status:
    """The signs of work of one turn. This one has nothing to show: its channel can do neither."""

    def take(self, update: AgentUpdate) -> None:
        """Follow what the agent does. Never waits; called for every chunk."""

    def end(self, failed: bool) -> None:
        """Show how the turn ended, and that nobody types any more. Never waits."""


NOTHING = Status()


class Live:
    """The signs of work of all turns. Nothing is shown outside `run`. Owned by one event loop."""

    def __init__(self, channels: Channels, clock: Clock, settings: ReactionsSettings) -> None:
        self._channels = channels
        self._clock = clock
        self._is_marking = settings.enabled
        self._marks = _Marks(clock, settings, self._start)
        self._group: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Show until cancelled. What is shown then stays."""
        async with anyio.create_task_group() as self._group:
            try:
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._group = None

    def queued(self, message: InboundMessage) -> None:
        """Mark a message that is recorded and waits for its turn. Never waits."""
        mark = self._mark(message)
        if mark is not None:
            self._marks.wake(mark)

    def begin(self, messages: Sequence[InboundMessage]) -> Status:
        """A turn takes these messages: the last bears its progress. Never waits.

        Typing begins at once where the bot was spoken to, elsewhere with the first text.
        """
        marks = [self._mark(message) for message in messages]
        destination = messages[-1].destination
        adapter = self._adapter(destination, "typing")
        if adapter is None and not any(marks):
            return NOTHING
        typing = _Typing(adapter, destination, self._clock, self._start) if adapter else None
        status = _ShownStatus(self._marks, marks, typing)
        if any(map(_is_spoken_to, messages)):
            status.begin_typing()
        return status

    async def wait_idle(self) -> None:
        """Return once every message bears its last mark; a running turn has none. Only while `run` runs."""
        await self._marks.wait_idle()

    def _mark(self, message: InboundMessage) -> _Mark | None:
        """The mark on a message. None: there can be none."""
        destination = message.destination
        if not self._is_marking or destination.source_message_id is None:
            return None
        adapter = self._adapter(destination, "reactions")
        if adapter is None:
            return None
        return self._marks.on(destination, destination.source_message_id, adapter)

    def _adapter(self, destination: Destination, sign: Literal["reactions", "typing"]) -> MessageAdapter | None:
        """Who shows such a sign there. None: nobody."""
        channel = self._channels.get(destination.channel, destination.account_id)
        if channel is None or self._group is None:
            return None
        adapter = channel.message_adapter
        return adapter if getattr(adapter.capabilities(destination), sign) else None

    def _start(self, task: Task) -> None:
        if self._group is not None:
            self._group.start_soon(task)


class _ShownStatus(Status):
    """The status of a turn whose channel can show something. `on_messages`: the mark of each message, in order."""

    def __init__(self, marks: _Marks, on_messages: Sequence[_Mark | None], typing: _Typing | None) -> None:
        self._marks = marks
        self._leading = [mark for mark in on_messages[:-1] if mark is not None]
        self._anchor = on_messages[-1]
        self._typing = typing
        self._awaits_text = typing is not None
        for mark in self._leading:
            marks.wake(mark)
        if self._anchor is not None:
            marks.begin(self._anchor)

    def take(self, update: AgentUpdate) -> None:
        if self._anchor is not None:
            self._marks.hear(self._anchor, update)
        if self._awaits_text and isinstance(update, TextChunk | BubbleMessage):
            self.begin_typing()

    def end(self, failed: bool) -> None:
        if self._typing is not None:
            self._typing.end()
        for mark in self._leading:
            self._marks.end(mark, "queued")
        if self._anchor is not None:
            self._marks.end(self._anchor, "error" if failed else "done")

    def begin_typing(self) -> None:
        """Show that something is coming, from now to the end."""
        self._awaits_text = False
        if self._typing is not None:
            self._typing.begin()


class _Mark:
    """Our mark on one message. `shown` is what the platform has; `changed` wakes the task that keeps it right."""

    def __init__(self, key: MarkKey, adapter: MessageAdapter, destination: Destination, course: StatusCourse) -> None:
        self.key = key
        self.message_id = key[-1]
        self.adapter = adapter
        self.destination = destination
        self.course = course
        self.shown: str | None = None
        self.failures = 0
        self.is_given_up = False
        self.is_kept = False
        self.changed = anyio.Event()
        self.scope: CancelScope | None = None

    def give_up(self) -> None:
        """Leave it as it is on the platform, for good."""
        self.is_given_up = True
        if self.scope is not None:
            self.scope.cancel()


class _Marks:
    """The marks on messages that wait or are worked on: the newest 10,000, older ones are left as they are.

    A mark has a task while it is to be changed, now or when time has passed.
    """

    def __init__(self, clock: Clock, settings: ReactionsSettings, start: Callable[[Task], None]) -> None:
        self._clock = clock
        self._start = start
        self._timing = _timing(settings)
        self._emojis: dict[str, str] = {
            **settings.emojis.model_dump(),
            "stalled": STALLED_EMOJI,
            "stuck": STUCK_EMOJI,
        }
        self._marks: dict[MarkKey, _Mark] = {}
        self._kept = 0
        self._idle = anyio.Event()

    def on(self, destination: Destination, message_id: str, adapter: MessageAdapter) -> _Mark:
        """The mark on this message; a new one is not shown before it is woken."""
        key = (destination.channel, destination.account_id, destination.conversation_id, message_id)
        mark = self._marks.pop(key, None)
        if mark is None:
            mark = _Mark(key, adapter, destination, StatusCourse(self._timing))
        self._marks[key] = mark
        if len(self._marks) > MAX_MARKS:
            self._marks.pop(next(iter(self._marks))).give_up()
        return mark

    def begin(self, mark: _Mark) -> None:
        mark.course.begin(self._now_ms())
        self.wake(mark)

    def hear(self, mark: _Mark, update: AgentUpdate) -> None:
        if mark.course.hear(sign_of(update), self._now_ms()):
            self.wake(mark)

    def end(self, mark: _Mark, final: FinalMark) -> None:
        mark.course.end(final, self._now_ms())
        self.wake(mark)

    def wake(self, mark: _Mark) -> None:
        """Have the mark looked at now."""
        mark.changed.set()
        if not mark.is_kept:
            mark.is_kept = True
            self._kept += 1
            self._start(partial(self._keep, mark))

    async def wait_idle(self) -> None:
        while self._kept:
            await self._idle.wait()

    async def _keep(self, mark: _Mark) -> None:
        """Keep one mark right until there is nothing to wait for."""
        try:
            with CancelScope() as mark.scope:
                while not mark.is_given_up and await self._step(mark):
                    pass
        finally:
            self._release(mark)

    def _release(self, mark: _Mark) -> None:
        mark.is_kept = False
        if mark.course.is_ended and self._marks.get(mark.key) is mark:
            del self._marks[mark.key]
        self._kept -= 1
        if not self._kept:
            self._idle.set()
            self._idle = anyio.Event()

    async def _step(self, mark: _Mark) -> bool:
        """Make one platform call, or wait. False: the mark is right, and time alone will not change that."""
        try:
            await mark.adapter.wait_until_ready()
            now_ms = self._now_ms()
            look = mark.course.look(now_ms)
            wanted = (self._emojis[look.mark] or None) if look.mark else None
            if wanted != mark.shown:
                with self._clock.fail_after(CALL_SECONDS):
                    await _change(mark, wanted)
            elif look.until_ms is None:
                return False
            else:
                mark.changed = anyio.Event()
                with self._clock.move_on_after((look.until_ms - now_ms) / 1000):
                    await mark.changed.wait()
        except Exception as error:
            await self._fail(mark, error)
        return True

    async def _fail(self, mark: _Mark, error: Exception) -> None:
        """Pause, then go on with what is right by then; or give up."""
        mark.failures += 1
        if mark.failures == 1:
            _note("mark.failed", mark.destination, error)
        pause_seconds = _pause_seconds(error)
        if pause_seconds is None or mark.failures >= MAX_FAILURES:
            mark.is_given_up = True
        else:
            await self._clock.sleep(pause_seconds)

    def _now_ms(self) -> int:
        return round(self._clock.monotonic() * 1000)


class _Typing:
    """The typing sign of one turn, refreshed from `begin` to `end`."""

    def __init__(
        self, adapter: MessageAdapter, destination: Destination, clock: Clock, start: Callable[[Task], None]
    ) -> None:
        self._adapter = adapter
        self._destination = destination
        self._clock = clock
        self._start = start
        self._has_failed = False
        self._scope = CancelScope()

    def begin(self) -> None:
        self._start(self._refresh)

    def end(self) -> None:
        """No call is made from here on; one under way is abandoned."""
        self._scope.cancel()

    async def _refresh(self) -> None:
        with self._scope:
            pause_seconds: float | None = 0.0
            while pause_seconds is not None:
                await self._clock.sleep(pause_seconds)
                pause_seconds = await self._show()

    async def _show(self) -> float | None:
        """Make one call. Seconds until the next; None: there is none."""
        try:
            await self._adapter.wait_until_ready()
            if self._scope.cancel_called:
                return None
            with self._clock.fail_after(CALL_SECONDS):
                await self._adapter.typing(self._destination)
        except Exception as error:
            if not self._has_failed:
                _note("typing.failed", self._destination, error)
            self._has_failed = True
            pause_seconds = _pause_seconds(error)
            return None if pause_seconds is None else max(pause_seconds, TYPING_SECONDS)
        return TYPING_SECONDS


async def _change(mark: _Mark, wanted: str | None) -> None:
    """Take the mark off that is shown; if none is, put the wanted one on."""
    if mark.shown is not None:
        await mark.adapter.remove_reaction(mark.destination, mark.message_id, mark.shown)
        mark.shown = None
    elif wanted is not None:
        await mark.adapter.add_reaction(mark.destination, mark.message_id, wanted)
        mark.shown = wanted


def _pause_seconds(error: Exception) -> float | None:
    """Seconds until a failed call may be made again: to do it twice does no harm. None: it has no chance."""
    match error:
        case SendThrottled():
            return error.retry_after_seconds
        case PlatformMessageNotDispatchedError(retryable=False):
            return None
        case SendError() | TimeoutError():
            return RETRY_SECONDS
        case _:
            return None


def _is_spoken_to(message: InboundMessage) -> bool:
    """A direct message, or one that mentions the bot, as far as the channel can tell."""
    return message.context.chat_type == "direct" or message.context.was_mentioned is not False


def _note(event: str, destination: Destination, error: Exception) -> None:
    code = getattr(error, "code", None)
    log.debug(event, channel=destination.channel, error=type(error).__name__, code=code)


def _timing(settings: ReactionsSettings) -> StatusTiming:
    timing = settings.timing
    hold_ms: dict[FinalMark, int] = {"queued": 0, "done": timing.done_hold_ms, "error": timing.error_hold_ms}
    return StatusTiming(
        debounce_ms=timing.debounce_ms,
        stall_soft_ms=timing.stall_soft_ms,
        stall_hard_ms=timing.stall_hard_ms,
        hold_ms=hold_ms if settings.remove_after_reply else {},
    )
