"""The process of an agent: started in a group of its own, and gone with the whole group (agent.md 1).

Gemini's and Codex's adapters are a wrapper around the real process: a signal to the wrapper alone leaves that one
behind. So every signal goes to the group, and the group is asked whether it is gone.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from anyio import CancelScope

from openab_kernel.clock import Clock
from openab_kernel.errors import AgentSpawnError
from openab_kernel.redact import printable

TERMINATE_GRACE_SECONDS = 1.5
GROUP_POLL_SECONDS = 0.02

STDERR_LIMIT_CHARS = 500
STDERR_LINES_A_SECOND = 50
LOG_SOURCE_BYTES = 65_536

Redact = Callable[[str], str]


class AgentProcess:
    """A running agent and its pipes. One task may receive, one may send, any may stop."""

    def __init__(self, process: anyio.abc.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("the process was opened without pipes")
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._stderr = process.stderr
        self._is_group_gone = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs, negative for a signal."""
        return self._process.returncode

    async def receive(self) -> bytes:
        """Give the next piece of stdout; empty at its end."""
        return await _receive(self._stdout)

    async def receive_stderr(self) -> bytes:
        """The same of stderr."""
        return await _receive(self._stderr)

    async def send(self, data: bytes) -> bool:
        """Write to stdin. False: nobody reads there any more. A cancelled write may have left half of `data`."""
        try:
            await self._stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return False
        return True

    async def wait(self) -> None:
        """Return when the process has ended; its group may go on."""
        await self._process.wait()

    async def stop(self) -> None:
        """End the whole group: SIGTERM, 1.5 s, SIGKILL. Returns when the process was waited for, cancelled or not.

        The time is the machine's, not the kernel's: what is waited for is the operating system.
        """
        with CancelScope(shield=True):
            if not self._is_group_gone and not await self._terminate():
                _signal_group(self.pid, signal.SIGKILL)
                await self._process.wait()
            self._is_group_gone = True

    async def _terminate(self) -> bool:
        """False: somebody in the group is still there when the time is up."""
        _signal_group(self.pid, signal.SIGTERM)
        with anyio.move_on_after(TERMINATE_GRACE_SECONDS):
            await self._process.wait()
            while _signal_group(self.pid, 0):  # noqa: ASYNC110  # the end of a group tells nobody
                await anyio.sleep(GROUP_POLL_SECONDS)
            return True
        return False

    async def aclose(self) -> None:
        """Stop it and give the pipes back."""
        await self.stop()
        with CancelScope(shield=True):
            await self._process.aclose()


async def _receive(stream: anyio.abc.ByteReceiveStream) -> bytes:
    try:
        return await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        return b""


def _signal_group(pid: int, number: int) -> bool:
    """Send a signal to the group `pid` leads. False: nobody is left in it."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@asynccontextmanager
async def agent_process(
    command: Sequence[str], cwd: str, environment: Mapping[str, str], log: Any
) -> AsyncIterator[AgentProcess]:
    """Start an agent without a shell, with exactly this environment; stop its group at the end.

    Raises:
        AgentSpawnError: there is no such program or directory, or it cannot be executed.
    """
    try:
        with CancelScope(shield=True):
            opened = await anyio.open_process(list(command), cwd=cwd, env=dict(environment), start_new_session=True)
    except OSError as error:
        raise AgentSpawnError(_why_not_started(command[0], cwd, error)) from error
    process = AgentProcess(opened)
    log.info("agent.spawned", agent_pid=process.pid)
    try:
        yield process
    finally:
        report = log.info if process.exit_status is None else log.warning
        await process.aclose()
        report("agent.exited", agent_pid=process.pid, exit_status=process.exit_status)


def find_obstacle(program: str, cwd: str, environment: Mapping[str, str]) -> str | None:
    """Why this program could not be started now, with the way out. None: nothing is known to be in its way.

    `environment` is the agent's: its PATH is searched.
    """
    if not Path(cwd).is_dir():
        return _why_not_started(program, cwd, FileNotFoundError())
    if os.path.dirname(program):
        found, where = shutil.which(os.path.join(cwd, program)), "there"
    else:
        found, where = shutil.which(program, path=environment.get("PATH", os.defpath)), "on the agent's PATH"
    return None if found else f"cannot start {program}: there is no such program {where}; set [agent] command"


def _why_not_started(program: str, cwd: str, error: OSError) -> str:
    if not Path(cwd).is_dir():
        return f"the agent's directory {cwd} does not exist; set [agent] working_dir"
    return f"cannot start {program}: {error.strerror}; set [agent] command"


def for_log(line: bytes | str, limit_chars: int, redact: Redact) -> str:
    """Text of an agent as a log may show it: secrets masked first, control characters escaped, then cut."""
    text = line[:LOG_SOURCE_BYTES].decode("utf-8", "replace") if isinstance(line, bytes) else line
    return printable(redact(text), limit_chars)


class LineAllowance:
    """So many lines a second may be logged; the others are counted."""

    def __init__(self, lines_a_second: int) -> None:
        self._allowed = lines_a_second
        self._window_began = float("-inf")
        self._lines = 0

    def take(self, now: float) -> tuple[bool, int]:
        """May a line be logged at `now`? Beside it, how many were not in the second that is over."""
        skipped = 0
        if now - self._window_began >= 1:
            skipped, self._window_began, self._lines = self.skipped, now, 0
        self._lines += 1
        return self._lines <= self._allowed, skipped

    @property
    def skipped(self) -> int:
        """Lines of this second that were not logged."""
        return max(0, self._lines - self._allowed)


async def log_stderr(process: AgentProcess, log: Any, redact: Redact, clock: Clock) -> None:
    """Log what the agent writes to stderr, until it closes it."""
    allowance = LineAllowance(STDERR_LINES_A_SECOND)
    rest = b""
    while data := await process.receive_stderr():
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[:LOG_SOURCE_BYTES]
        for line in lines:
            _log_line(line, allowance, log, redact, clock)
    if rest:
        _log_line(rest, allowance, log, redact, clock)
    if allowance.skipped:
        log.warning("agent.stderr_skipped", lines=allowance.skipped)


def _log_line(line: bytes, allowance: LineAllowance, log: Any, redact: Redact, clock: Clock) -> None:
    may_log, skipped = allowance.take(clock.monotonic())
    if skipped:
        log.warning("agent.stderr_skipped", lines=skipped)
    if may_log:
        log.warning("agent.stderr", text=for_log(line, STDERR_LIMIT_CHARS, redact))


def zombie_children(parent_pid: int, proc: Path = Path("/proc")) -> set[int]:
    """Children of a process that have ended and were not waited for. Empty where there is no /proc."""
    found = set()
    for stat in proc.glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it is gone
        if state == "Z" and int(parent) == parent_pid:
            found.add(int(stat.parent.name))
    return found


class AdoptedChildren:
    """As PID 1 we inherit the orphans of agents, and nobody else waits for them.

    One that is seen twice is nobody's: whoever starts a process here waits for it long before the next look.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def reap(self) -> int:
        """Wait for the orphans that were there at the last call. Gives how many."""
        zombies = zombie_children(os.getpid())
        orphans, self._seen = zombies & self._seen, zombies - self._seen
        for pid in orphans:
            os.waitpid(pid, os.WNOHANG)
        return len(orphans)
