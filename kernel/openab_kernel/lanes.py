"""Lanes: recorded messages wait here for their session and leave as turns.

One lane for each session. It holds messages in the order of arrival and runs one turn at a time; lanes run beside
each other. An idle lane has no task and no memory. What does not fit into a lane's queue stays in the store alone and
is read when there is room: `submit` never waits and nothing is dropped.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio
import structlog
from anyio.abc import TaskStatus

from openab_kernel.clock import Clock
from openab_kernel.errors import LaneReentryError, StoreError
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.policy import BatchPolicy
from openab_kernel.facts.turn import InboundMessage, RecordedMessage
from openab_kernel.interfaces.store import Store
from openab_kernel.policies.batch import Waiting, estimate_tokens, next_batch
from openab_kernel.serial import TaskPool
from openab_kernel.stages.inbound import Queued

log = structlog.get_logger("openab_kernel.lanes")

SCAN_SESSIONS = 100
START_LANES = 32
RELOAD_SECONDS = 5.0
ANY_SEQ = 2**63

RunTurn = Callable[[list[Queued]], Awaitable[None]]
_running_session: ContextVar[SessionKey | None] = ContextVar("running_session", default=None)


@contextmanager
def inside_turn(session: SessionKey) -> Iterator[None]:
    """Mark that the block runs inside a turn of this session, so that it cannot wait for itself."""
    token = _running_session.set(session)
    try:
        yield
    finally:
        _running_session.reset(token)


def refuse_reentry(session: SessionKey) -> None:
    """Raises LaneReentryError: the caller is inside a turn of this very session."""
    if _running_session.get() == session:
        raise LaneReentryError(f"session {session}: a turn of it cannot wait for another turn of it")


class Lanes:
    """All lanes of the process. Owned by the task that runs `run`; `submit` may be called from any task.

    `run_turn` takes a batch and must not raise; `restore` makes a queued message of one read from the store.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        run_turn: RunTurn,
        restore: Callable[[RecordedMessage], Queued],
        batch_policy: Callable[[InboundMessage], BatchPolicy],
    ) -> None:
        self._store = store
        self._clock = clock
        self._run_turn = run_turn
        self._restore = restore
        self._batch_policy = batch_policy
        self._lanes: dict[SessionKey, _Lane] = {}
        self._tasks = TaskPool()
        self._is_open = True
        self._idle = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run turns until cancelled."""
        await self._tasks.run(task_status=task_status)

    def submit(self, queued: Queued) -> None:
        """Put a recorded message behind those of its session."""
        if not self._is_open:
            return
        lane = self._lane(queued.message.session)
        policy = self._batch_policy(queued.message)
        if queued.seq <= lane.last_seq:
            lane.put_back(queued)
        elif lane.overflows or len(lane.waiting) >= policy.max_buffered_messages:
            lane.overflow(queued)
        else:
            lane.waiting.append(queued)

    def resume(self, session: SessionKey) -> None:
        """Start a lane for messages that are in the store alone."""
        if self._is_open:
            lane = self._lane(session)
            lane.overflows, lane.ceiling = True, ANY_SEQ

    def give_back(self, queued: Queued, delay_seconds: float) -> None:
        """Let a message step aside for a while; it returns to its place in the order when it is due."""
        self._tasks.start_soon(self._return_later, queued, delay_seconds)

    @property
    def active(self) -> int:
        """Lanes that have something to do."""
        return len(self._lanes)

    def close(self) -> None:
        """Begin no further turn. What waits stays recorded."""
        self._is_open = False

    async def wait_idle(self) -> None:
        """Return once no turn runs (after `close`: no other will begin)."""
        while self._lanes:
            await self._idle.wait()

    async def refill(self) -> None:
        """Start a lane for every session that has waiting messages in the store, oldest first."""
        after_seq = 0
        while heads := await self._store.waiting_sessions(after_seq=after_seq, limit=SCAN_SESSIONS):
            for head in heads[:START_LANES]:
                self.resume(head.message.session)
                after_seq = head.seq

    async def _return_later(self, queued: Queued, delay_seconds: float) -> None:
        await self._clock.sleep(delay_seconds)
        if self._is_open:
            self._lane(queued.message.session).put_back(queued)

    def _lane(self, session: SessionKey) -> _Lane:
        lane = self._lanes.get(session)
        if lane is None:
            lane = self._lanes[session] = _Lane(session)
            self._tasks.start_soon(self._work, lane)
        return lane

    async def _work(self, lane: _Lane) -> None:
        with inside_turn(lane.session):
            while self._is_open and (lane.waiting or await self._load(lane)):
                await self._run_turn(self._take(lane))
        del self._lanes[lane.session]
        if not self._lanes:
            self._idle.set()
            self._idle = anyio.Event()

    def _take(self, lane: _Lane) -> list[Queued]:
        if len(lane.waiting) == 1:
            return [lane.waiting.pop()]
        policy = self._batch_policy(lane.waiting[0].message)
        chosen = next_batch([_waiting(queued) for queued in lane.waiting], policy)
        batch = [lane.waiting[index] for index in chosen]
        for index in reversed(chosen):
            del lane.waiting[index]
        return batch

    async def _load(self, lane: _Lane) -> bool:
        """Read what is in the store alone. False: nothing is left there."""
        while lane.overflows:
            missed_before = lane.missed
            try:
                rows = await self._store.waiting(lane.session, after_seq=lane.last_seq, limit=SCAN_SESSIONS)
            except StoreError as error:
                log.error("lane.unreadable", session_key=str(lane.session), error=str(error))
                await self._clock.sleep(RELOAD_SECONDS)
                continue
            known = [row for row in rows if row.seq <= lane.ceiling]
            for row in known:
                lane.last_seq = row.seq
                lane.waiting.append(lane.live.pop(row.seq) if row.seq in lane.live else self._restore(row))
            if len(rows) < SCAN_SESSIONS and lane.missed == missed_before:
                lane.overflows, lane.ceiling = False, lane.last_seq
            if known:
                return True
        return False


class _Lane:
    """One session's queue.

    `overflows`: messages of it are in the store that are not in `waiting`. Rows above `ceiling` are left there: their
    `receive()` is about to bring them here itself, with what only it knows of them.
    """

    __slots__ = ("ceiling", "last_seq", "live", "missed", "overflows", "session", "waiting")

    def __init__(self, session: SessionKey) -> None:
        self.session = session
        self.waiting: list[Queued] = []
        self.overflows = False
        self.missed = 0
        self.last_seq = 0
        self.ceiling = 0
        self.live: dict[int, Queued] = {}

    def put_back(self, queued: Queued) -> None:
        """Insert a message by its place in the order, instead of what was read of it from the store."""
        self.waiting = [other for other in self.waiting if other.seq != queued.seq or not other.seq]
        insort(self.waiting, queued, key=lambda item: item.seq)

    def overflow(self, queued: Queued) -> None:
        """Leave a message to the store; only if somebody waits for it in this process it is remembered too."""
        if not self.overflows:
            self.last_seq = max(self.last_seq, self.waiting[-1].seq)
        self.overflows = True
        self.ceiling = max(self.ceiling, queued.seq)
        self.missed += 1
        if queued.ending is not None or queued.prepared is not None:
            self.live[queued.seq] = queued


def _waiting(queued: Queued) -> Waiting:
    message = queued.message
    images = sum(item.kind == "image" for item in message.context.media)
    return Waiting(
        sender_id=message.sender_id,
        place=(message.conversation_id, message.thread_id),
        proactive=message.proactive,
        tokens=estimate_tokens([message.context.body_for_agent], images),
        alone=queued.prepared is not None or queued.delivery is not None or message.admission.kind != "dispatch",
    )
