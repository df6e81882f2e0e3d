"""The sessions of one agent: opened, kept, suspended and resumed (agent.md 6).

A *live* session has a process, and one task that owns it from taking a slot to the end of the process group. To stop a
session, for whatever reason, is to cancel that task. A session without a process is suspended: all that is left of it
is its row in the store, and the next turn resumes it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from openab_kernel.agent.acp.client import AcpClient, ClientOptions, acp_client
from openab_kernel.agent.acp.process import AdoptedChildren, agent_process, find_obstacle
from openab_kernel.agent.models import models_text
from openab_kernel.agent.session import Live, Session, SessionTurn
from openab_kernel.agent.settings import SLOT_WAIT_SECONDS, Permission, PoolSettings
from openab_kernel.clock import Clock
from openab_kernel.errors import AgentBusy, AgentGone, AgentProtocolError, AgentRefused
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.interfaces.store import AgentSessionRow, Store

SWEEP_SECONDS = 60

log = structlog.get_logger("openab_kernel.agent")


class AcpAgent:
    """Implements `interfaces.agent.Agent` with one process for each session.

    Args:
        name: What the agent is called in logs, and to people until it has told its own name.
        command: Program and arguments.
        cwd: The directory of every session, absolute.
        environment: The whole environment of the processes.
        redact: Masks the secrets in a text of an agent before it is logged.
        meta: `clientCapabilities._meta` of `initialize`.
        client_version: Our own.
        is_bubble_mode: Decides what the inactivity watchdog is by default.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        *,
        pool: PoolSettings,
        permission: Permission,
        store: Store,
        clock: Clock,
        client_version: str,
        redact: Callable[[str], str] = str,
        meta: dict[str, Any] | None = None,
        is_bubble_mode: bool = False,
    ) -> None:
        self.name = name
        self._command = list(command)
        self._cwd = cwd
        self._environment = environment
        self._pool = pool
        self._store = store
        self._clock = clock
        self._options = ClientOptions(
            clock=clock,
            redact=redact,
            permission=permission,
            client_version=client_version,
            meta=meta or {},
            liveness_seconds=pool.liveness_check_secs,
            hard_limit_seconds=pool.prompt_hard_timeout_secs,
            inactivity_seconds=pool.inactivity_seconds(is_bubble_mode=is_bubble_mode),
        )
        self._sessions: dict[SessionKey, Session] = {}
        self._slots = anyio.Semaphore(pool.max_sessions)
        self._group: TaskGroup | None = None
        self._told_name = ""

    # The interface

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """See the interface."""
        obstacle = find_obstacle(self._command[0], self._cwd, self._environment)
        if obstacle is not None:
            log.warning("agent.unavailable", agent=self.name, reason=obstacle)
        if self._pool.liveness_check_secs >= self._pool.prompt_hard_timeout_secs:
            log.warning(
                "liveness_check.outlasted",
                liveness_check_secs=self._pool.liveness_check_secs,
                prompt_hard_timeout_secs=self._pool.prompt_hard_timeout_secs,
            )
        async with anyio.create_task_group() as self._group:
            task_status.started()
            try:
                await self._sweep()
            finally:
                self._group = None

    @asynccontextmanager
    async def turn(self, key: SessionKey) -> AsyncIterator[SessionTurn]:
        """See the interface."""
        async with self._wanted(key) as session, session.gate:
            turn = session.turn = SessionTurn(self._clock, lambda: self._start(self._limit_hold, session, turn))
            try:
                with turn.preparing:
                    await self._make_ready(session, turn)
                yield turn
            finally:
                turn.release()
                session.turn = None
                if session.client is not None and not session.client.is_settled:
                    self._start(self._settle_after_fence, session, session.client)

    async def cancel(self, key: SessionKey) -> bool:
        """See the interface."""
        session = self._sessions.get(key)
        return session is not None and session.turn is not None and session.turn.cancel()

    async def reset(self, key: SessionKey) -> bool:
        """See the interface. A turn that runs, or is being made ready, ends as cancelled."""
        async with self._wanted(key) as session:
            if session.turn is not None:
                session.turn.cancel()
            was_live = session.live is not None
            session.suspend("reset")
            async with session.making:
                if session.live is not None:
                    await session.live.task.wait()
                return await self._store.forget_agent_session(key) or was_live

    async def models(self, key: SessionKey) -> str:
        """See the interface."""
        session = self._sessions.get(key)
        if session is None or session.client is None:
            return "No session is open here; send a message first."
        return models_text(session.client.models)

    async def describe(self, key: SessionKey) -> str:
        """See the interface."""
        return self._told_name or f"{self.name} (not started yet)"

    # Who wants a session

    @asynccontextmanager
    async def _wanted(self, key: SessionKey) -> AsyncIterator[Session]:
        """Keep a session in memory, and its process from being taken for idle."""
        session = self._sessions.setdefault(key, Session(key))
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            self._settle(session)

    def _settle(self, session: Session) -> None:
        """A session was left, its fence or its process has ended: it may be idle now, or nobody's."""
        session.idle_since = self._clock.monotonic()
        if session.users == 0 and session.live is None:
            self._sessions.pop(session.key, None)
        self._make_room()

    async def _settle_after_fence(self, session: Session, client: AcpClient) -> None:
        """A prompt was given up, and the agent is still at it."""
        await client.wait_settled()
        self._settle(session)

    async def _limit_hold(self, session: Session, turn: SessionTurn) -> None:
        """A turn that holds its session long past the hard limit hangs: the process goes."""
        limit_seconds = self._pool.prompt_hard_timeout_secs + self._pool.hung_grace_secs
        with self._clock.move_on_after(limit_seconds):
            await turn.released.wait()
            return
        log.warning("turn.hung", session_key=str(session.key), limit_seconds=limit_seconds)
        session.suspend("hung")

    def _start(self, work: Callable[..., Any], *args: Any) -> None:
        """Start a task beside the sessions; while the agent stops there is nothing left for it to do."""
        if self._group is not None:
            self._group.start_soon(work, *args)

    async def _sweep(self) -> None:
        """Every minute suspend what was idle for too long; as PID 1, wait for orphans."""
        adopted = AdoptedChildren()
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            idle_before = self._clock.monotonic() - self._pool.session_ttl_hours * 3600
            for session in list(self._sessions.values()):
                if session.is_idle and session.idle_since <= idle_before:
                    session.suspend("ttl")
            if os.getpid() == 1:
                adopted.reap()

    # Slots

    async def _take_slot(self) -> None:
        """Get a place for a process. Idle sessions have to make room."""
        try:
            self._slots.acquire_nowait()
            return
        except anyio.WouldBlock:
            self._make_room(newcomers=1)
        try:
            with self._clock.fail_after(SLOT_WAIT_SECONDS):
                await self._slots.acquire()
        except TimeoutError:
            raise AgentBusy(f"no session was free within {SLOT_WAIT_SECONDS} s") from None

    def _make_room(self, *, newcomers: int = 0) -> None:
        """Suspend idle sessions, the longest idle first, until as many slots come free as turns wait for one."""
        waiting = self._slots.statistics().tasks_waiting + newcomers
        if not waiting:
            return
        lives = [session.live for session in self._sessions.values() if session.live is not None]
        missing = max(0, waiting - sum(live.has_slot and live.is_ending for live in lives))
        idle = [session for session in self._sessions.values() if session.is_idle]
        for session in sorted(idle, key=lambda session: session.idle_since)[:missing]:
            session.suspend("slot")

    # Making a session ready

    async def _make_ready(self, session: Session, turn: SessionTurn) -> None:
        """Give the turn a client it may prompt: wait for a fence, then take, resume or open what is there."""
        async with session.making:
            if session.client is not None:
                await session.client.wait_settled()
            if session.client is None:
                if session.live is not None:
                    await session.live.task.wait()
                turn.started_afresh = await self._open(session)
            turn.client = session.client

    async def _open(self, session: Session) -> bool:
        """Start the task of a session and wait until it is ready. Gives whether an earlier conversation was lost."""
        if self._group is None:
            raise AgentGone(f"agent {self.name} does not run")
        live = session.live = Live()
        live.task = self._group.start_soon(self._live, session, live)
        try:
            await live.ready.wait()
        finally:
            if not live.ready.is_set():
                live.task.cancel()
        if live.failure is not None:
            raise live.failure
        return live.started_afresh

    async def _live(self, session: Session, live: Live) -> None:
        """Own the process of a session. What goes wrong before it is ready is told to the turn that waits for it."""
        structlog.contextvars.clear_contextvars()
        live.failure = AgentGone(f"agent {self.name} was stopped")
        try:
            await self._serve(session, live)
        except Exception as error:
            live.failure = error
            if live.ready.is_set():
                log.exception("session.crashed", session_key=str(session.key))
        finally:
            session.live = None
            live.ready.set()
            self._settle(session)

    async def _serve(self, session: Session, live: Live) -> None:
        bound = log.bind(agent=self.name, session_key=str(session.key))
        await self._take_slot()
        live.has_slot = True
        try:
            async with (
                agent_process(self._command, self._cwd, self._environment, bound) as process,
                acp_client(process, self._options, bound) as client,
            ):
                live.started_afresh = await self._establish(session.key, client)
                live.client, live.failure = client, None
                live.ready.set()
                await client.connection.wait_ended()
        finally:
            live.has_slot = False
            self._slots.release()

    async def _establish(self, key: SessionKey, client: AcpClient) -> bool:
        """Resume the stored conversation, or begin a new one. Gives whether a stored one was lost."""
        await client.initialize()
        self._told_name = f"{client.name or self.name} {client.version}".rstrip()
        row = await self._store.agent_session(key)
        if row is not None and await self._is_resumed(row, client):
            return False
        await self._begin(key, client)
        return row is not None

    async def _is_resumed(self, row: AgentSessionRow, client: AcpClient) -> bool:
        """False: it cannot be resumed, for good. What may go better the next time is raised, and the row stays."""
        if row.agent_command != shlex.join(self._command) or not client.can_load:
            return False
        try:
            await client.load_session(row.agent_session_id, self._cwd)
        except AgentProtocolError:
            return False
        return True

    async def _begin(self, key: SessionKey, client: AcpClient) -> None:
        session_id = await client.new_session(self._cwd)
        row = AgentSessionRow(
            session=key, agent_session_id=session_id, agent_command=shlex.join(self._command), cwd=self._cwd
        )
        await self._store.save_agent_session(row)
        for option, value in self._pool.default_config_options.items():
            if not await client.set_option(option, value):
                await self._ask_for_option(client, option, value)

    async def _ask_for_option(self, client: AcpClient, option: str, value: str | bool) -> None:
        """Older agents take an option as a command in a prompt. What they say to it is nobody's."""
        text = f"/{option} {str(value).lower() if isinstance(value, bool) else value}"
        try:
            async for _ in client.prompt([{"type": "text", "text": text}]):
                pass
        except (AgentProtocolError, AgentRefused):
            log.warning("config_option.refused", option=option)
