"""JSON-RPC with an agent over its pipes (agent.md 2, 4): frames in, frames out, answers to our calls.

The reader takes every frame and never waits for a platform, only for a turn that has too much unread. While there is
something to send a writer owns stdin, so that a caller that is cancelled never leaves half a frame behind, and nothing
that is urgent waits for a lock. An idle connection is one task in a read, and little memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import anyio
import orjson
from anyio.abc import TaskGroup

from openab_kernel.agent.acp.jsonrpc import (
    LINE_CEILING_BYTES,
    Dropped,
    Failure,
    LineBuffer,
    Notification,
    Object,
    Request,
    Result,
    classify,
    decode,
)
from openab_kernel.agent.acp.process import AgentProcess, Redact, for_log
from openab_kernel.clock import Clock
from openab_kernel.errors import AgentError, AgentGone, AgentProtocolError, AgentTimeout

EXIT_GRACE_SECONDS = 1
UNSENT_LIMIT = 1024
NOISE_LIMIT_CHARS = 200
NOISE_LINES_A_SESSION = 50

Answer = Result | Failure | AgentError
"""What a call of ours ends with; the error, if the process is gone."""


class Receiver(Protocol):
    """What the connection hands frames to. Nothing of it may wait, but for `wait_room`."""

    def take_notification(self, method: str, params: Object) -> None: ...

    def answer(self, method: str, params: Object) -> Object:
        """Give `{"result": …}` or `{"error": …}` for a request of the agent."""
        ...

    def note_activity(self) -> None:
        """At least one valid frame came."""
        ...

    async def wait_room(self) -> None:
        """Called when `Connection.is_clogged` was set. Return when more may be taken in."""
        ...


class Connection:
    """One for each process. Ends once, with the error that every call then fails with; `tasks` must end after it."""

    def __init__(
        self, process: AgentProcess, receiver: Receiver, tasks: TaskGroup, clock: Clock, redact: Redact, log: Any
    ) -> None:
        self.process = process
        self.noise = Noise(log, redact)
        self.failure: AgentError | None = None
        self.is_clogged = False
        self._receiver = receiver
        self._tasks = tasks
        self._clock = clock
        self._log = log
        self._pending: dict[int, Callable[[Answer], None]] = {}
        self._last_id = 0
        self._unsent: list[bytes] = []
        self._is_writing = False
        self._flushed: anyio.Event | None = None
        self._open = anyio.CancelScope()
        tasks.start_soon(self._read)

    async def wait_ended(self) -> None:
        """Return when the connection has ended."""
        with self._open:
            if self.failure is None:
                await self.process.wait()
                await self.process.stop()  # a child that holds the pipes open would hide the end
                await anyio.sleep_forever()

    # Out

    async def call(self, method: str, params: Object, timeout_seconds: float) -> Result | Failure:
        """Send a request and wait for its answer.

        Raises:
            AgentTimeout: none came.
            AgentError: the connection has ended.
        """
        answers: list[Answer] = []
        answered = anyio.Event()

        def settle(answer: Answer) -> None:
            answers.append(answer)
            answered.set()

        call_id = self.request(method, params, settle)
        try:
            with self._clock.fail_after(timeout_seconds):
                await answered.wait()
        except TimeoutError:
            text = f"the agent did not answer {method} within {timeout_seconds:g} s"
            raise AgentTimeout(text, watchdog=method) from None
        finally:
            self._pending.pop(call_id, None)
        answer = answers[0]
        if isinstance(answer, AgentError):
            raise answer
        return answer

    def request(self, method: str, params: Object, settle: Callable[[Answer], None]) -> int:
        """Send a request; `settle` is called once with its answer. Ids count from 1."""
        self._last_id += 1
        if self.failure is not None:
            settle(self.failure)
        else:
            self._post({"id": self._last_id, "method": method, "params": params})
            self._pending[self._last_id] = settle
        return self._last_id

    def notify(self, method: str, params: Object) -> None:
        """Send a notification."""
        self._post({"method": method, "params": params})

    def _post(self, members: Object) -> None:
        self._unsent.append(orjson.dumps({"jsonrpc": "2.0", **members}, option=orjson.OPT_APPEND_NEWLINE))
        if len(self._unsent) >= UNSENT_LIMIT:
            self.is_clogged = True
        if not self._is_writing:
            self._is_writing = True
            self._tasks.start_soon(self._write)

    async def _write(self) -> None:
        """Send all there is. After a failure nothing is sent any more."""
        while self._unsent:
            if not await self.process.send(self._unsent.pop(0)):
                return await self._end_with_process()
        self._is_writing = False
        if self._flushed is not None:
            self._flushed.set()

    # In

    async def _read(self) -> None:
        buffer = LineBuffer()
        while data := await self.process.receive():
            noise_before = self.noise.lines
            lines = buffer.feed(data)
            for line in lines:
                self._take_in(line)
                if self.is_clogged:
                    await self._wait_until_clear()
            if self.noise.lines - noise_before < len(lines):
                self._receiver.note_activity()
            if buffer.has_overflowed:
                self._log.error("agent.line_too_long", ceiling_bytes=LINE_CEILING_BYTES)
                self.end(AgentProtocolError(f"a line of the agent is longer than {LINE_CEILING_BYTES} bytes"))
                return
        if rest := buffer.drain():
            self._take_in(rest)
        await self._end_with_process()

    async def _wait_until_clear(self) -> None:
        """Read no further while a turn has too much unread, or while the agent asks and does not read our answers."""
        self.is_clogged = False
        await self._receiver.wait_room()
        if len(self._unsent) >= UNSENT_LIMIT:
            self._flushed = anyio.Event()
            await self._flushed.wait()

    def _take_in(self, line: bytes) -> None:
        members = decode(line)
        if members is None:
            self.noise.note(line)
            return
        frame = classify(members, self._pending)
        if isinstance(frame, Notification):  # nearly always; a match statement would take twice the time
            self._receiver.take_notification(frame.method, frame.params)
        elif isinstance(frame, Request):
            self._post({"id": frame.id, **self._receiver.answer(frame.method, frame.params)})
        elif isinstance(frame, Dropped):
            self._log.debug("frame.dropped", reason=frame.reason)
        else:
            self._pending.pop(frame.id)(frame)

    # The end

    def end(self, failure: AgentError) -> None:
        """Let every call fail with this error. The first one counts; whoever owns the process then stops it."""
        if self.failure is not None:
            return
        self.failure = failure
        for settle in list(self._pending.values()):
            settle(failure)
        self._pending.clear()
        self._open.cancel()

    def end_if_dead(self) -> None:
        """For a process whose end did not show on its pipes, because somebody else holds them open."""
        if self.process.exit_status is not None:
            self.end(self._gone())

    async def _end_with_process(self) -> None:
        """A pipe was closed: the process has ended, or must. Its status is worth a moment's waiting."""
        with anyio.move_on_after(EXIT_GRACE_SECONDS):
            await self.process.wait()
        self.end(self._gone())

    def _gone(self) -> AgentGone:
        status = self.process.exit_status
        text = "the agent closed its pipes" if status is None else f"the agent ended with status {status}"
        return AgentGone(text, exit_status=status)


class Noise:
    """Lines on stdout that are no frames: each text is logged once, so many in a session, and the rest counted."""

    def __init__(self, log: Any, redact: Redact) -> None:
        self._log = log
        self._redact = redact
        self._logged: set[int] = set()
        self.lines = 0

    def note(self, line: bytes) -> None:
        self.lines += 1
        text = for_log(line, NOISE_LIMIT_CHARS, self._redact)
        if len(self._logged) < NOISE_LINES_A_SESSION and hash(text) not in self._logged:
            self._logged.add(hash(text))
            self._log.warning("agent.noise", text=text)

    def report(self) -> None:
        """Log how many lines were not shown."""
        if self.lines > len(self._logged):
            self._log.warning("agent.noise_skipped", lines=self.lines - len(self._logged))
