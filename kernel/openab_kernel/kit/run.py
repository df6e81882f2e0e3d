"""Plays a scenario: the gateway here, `openab-kernel serve` as a child, and the agent as a child of that."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
from anyio.abc import Process, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from openab_kernel.clock import Clock, SystemClock
from openab_kernel.kit import KitFailed
from openab_kernel.kit.gateway import PERSON, PLATFORM, Delivered, Gateway
from openab_kernel.kit.scenarios import QUESTION, Scenario

START_SECONDS = 30.0
TURN_SECONDS = 60.0
STOP_SECONDS = 15.0
LOG_LINES_SHOWN = 12
MAX_LINE_BYTES = 1 << 20

OPENAB_KERNEL = (sys.executable, "-I", "-m", "openab_kernel")


@dataclass(frozen=True, slots=True)
class Played:
    """What a person saw, and how the kernel says that the turn ended."""

    texts: tuple[str, ...]
    outcome: str

    def is_as_written(self, scenario: Scenario) -> bool:
        return (self.texts, self.outcome) == (scenario.texts, scenario.outcome)


async def play(scenario: Scenario, tell: Callable[[Delivered], None], clock: Clock | None = None) -> Played:
    """Let the kernel answer one message, and stop it again.

    Args:
        scenario: What the agent does.
        tell: Called with each message when it has arrived.
        clock: For the gaps and the time-outs.

    Raises:
        KitFailed: alone or in a group, when the kernel does not do its part in time.
    """
    clock = clock or SystemClock()
    texts: list[str] = []

    def deliver(message: Delivered) -> None:
        texts.append(message.text)
        tell(message)

    gateway = Gateway(clock, QUESTION, on_delivery=deliver)
    with tempfile.TemporaryDirectory(prefix="openab-kit-") as folder:
        path = anyio.Path(folder, "config.toml")
        async with anyio.create_task_group() as group:
            url = await group.start(gateway.run)
            await path.write_text(child_configuration(scenario, url, folder), encoding="utf-8")
            async with serving(Path(path), clock) as kernel:
                await kernel.wait_for("connection.opened", START_SECONDS)
                finished = await kernel.wait_for("turn.finished", TURN_SECONDS)
            group.cancel_scope.cancel()
    # Only now: the kernel has said goodbye to the gateway, so whatever it had sent was read.
    return Played(tuple(texts), finished["outcome"])


def child_configuration(scenario: Scenario, url: str, folder: str) -> str:
    agent = [*OPENAB_KERNEL, "kit", "agent", scenario.name]
    own = {"log": {"format": "json"}}
    return to_toml(configuration(scenario, url, agent, working_dir=folder, store_url="sqlite:///state.db") | own)


def configuration(
    scenario: Scenario, url: str, agent: Sequence[str], *, store_url: str, working_dir: str | None = None
) -> dict[str, Mapping[str, Any]]:
    """The sections of a configuration file with which the kernel plays its part. `agent` is a command line."""
    command, *arguments = agent
    place = {} if working_dir is None else {"working_dir": working_dir}
    return {
        "delivery": scenario.delivery,
        "gateway": {"url": url, "platform": PLATFORM, "allowed_users": [PERSON]},
        "agent": {"command": command, "args": arguments, **place},
        "store": {"url": store_url},
    }


def to_toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Strings, numbers and lists of them are written in TOML as they are in JSON."""
    lines: list[str] = []
    for name, section in sections.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
    return "\n".join(lines)


class Kernel:
    """A child that runs `serve`. Its log is read by one task, which waits for lines."""

    def __init__(self, process: Process, clock: Clock) -> None:
        assert process.stderr is not None
        self._process = process
        self._clock = clock
        self._stderr = BufferedByteReceiveStream(process.stderr)
        self._last_lines: deque[str] = deque(maxlen=LOG_LINES_SHOWN)

    async def wait_for(self, event: str, seconds: float) -> dict[str, Any]:
        """The next log line of this event.

        Raises:
            KitFailed: it does not come in time, or the kernel has ended.
        """
        try:
            with self._clock.fail_after(seconds):
                while True:
                    line = await self._read_line()
                    if line.get("event") == event:
                        return line
        except TimeoutError as error:
            message = f"the kernel did not log {event} within {seconds:g} s"
            raise KitFailed(message, self._last_lines) from error
        except anyio.IncompleteRead as error:
            status = await self._process.wait()
            message = f"the kernel ended with status {status} before it logged {event}"
            raise KitFailed(message, self._last_lines) from error

    async def stop(self, *, at_once: bool) -> None:
        """Ask it to end, and see that it has; one that does not is killed, and its agent sees its input end.

        `at_once`: without waiting for a turn. That takes a second signal; two of one kind might count as one.
        """
        with suppress(ProcessLookupError):
            self._process.terminate()
            if at_once:
                self._process.send_signal(signal.SIGINT)
        with self._clock.move_on_after(STOP_SECONDS) as patience:
            with suppress(anyio.IncompleteRead):
                while True:
                    await self._read_line()
            await self._process.wait()
        if patience.cancelled_caught:
            self._process.kill()
            await self._process.wait()

    async def _read_line(self) -> dict[str, Any]:
        """A line of the log; empty if it is none."""
        text = (await self._stderr.receive_until(b"\n", MAX_LINE_BYTES)).decode("utf-8", "replace")
        self._last_lines.append(text.rstrip("\r"))
        line = json.loads(text) if text.startswith("{") else {}
        return line if isinstance(line, dict) else {}


@asynccontextmanager
async def serving(config: Path, clock: Clock) -> AsyncIterator[Kernel]:
    """Run the service on this configuration until the block ends.

    It has a session of its own, so that Ctrl-C in a terminal does not reach it: we end it, in order.
    """
    command = [*OPENAB_KERNEL, "serve", "-c", str(config)]
    process = await anyio.open_process(command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True)
    async with process:
        kernel = Kernel(process, clock)
        is_done = False
        try:
            yield kernel
            is_done = True
        finally:
            with anyio.CancelScope(shield=True):
                await kernel.stop(at_once=not is_done)


async def until_signalled(work: Callable[[], Awaitable[None]]) -> int | None:
    """Do the work. None: it is done; else the number of the signal that cut it off."""
    caught: list[int] = []

    async def listen(everything: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                caught.append(number)
                everything.cancel()

    async with anyio.create_task_group() as group:
        await group.start(listen, group.cancel_scope)
        await work()
        group.cancel_scope.cancel()
    return caught[0] if caught else None
