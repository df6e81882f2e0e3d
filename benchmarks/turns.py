"""Turns a second and added latency of the whole kernel: real pipeline, lanes, outbox and SQLite; agent and channel are
stubs in this process. In the same run a bare loop does the same JSON and routing, and nothing else.

    python benchmarks/turns.py [--seconds 3] [--sessions 1 100]
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson

from openab_kernel.app import Kernel
from openab_kernel.clock import SystemClock
from openab_kernel.facts.agent_update import AgentUpdate, Stopped, TextChunk
from openab_kernel.facts.conversation import ConversationFacts, ReplyPlanFacts, RouteFacts, SessionKey
from openab_kernel.facts.event import NormalizedTurnInput, SenderFacts
from openab_kernel.facts.message import MessageFacts
from openab_kernel.facts.outbound import ChannelCapabilities, Destination, Receipt, TextSend
from openab_kernel.facts.policy import ChannelPolicy
from openab_kernel.interfaces.channel import RoutedPlan
from openab_kernel.observability.logs import configure
from openab_kernel.observability.settings import LogSettings
from openab_kernel.redact import Redactor
from openab_kernel.storage.sqlite import SqliteStore
from openab_kernel.testing.channel import EVERYONE
from openab_kernel.testing.harness import build_kernel

REPLY = [TextChunk("Here is "), TextChunk("the answer."), Stopped("end_turn")]
RECEIPT = Receipt(sent_at=0)
CAPABILITIES = ChannelCapabilities()


def raw_event(number: int, session: int) -> bytes:
    return orjson.dumps(
        {
            "id": f"evt_{number}",
            "conversation": f"c{session}",
            "sender": {"id": f"u{session}", "name": "Ann"},
            "text": "What is the weather like in Taipei today?",
        }
    )


class StubAgent:
    """Answers at once, without a process."""

    name = "main"

    async def run(self, *, task_status: Any) -> None:
        task_status.started()
        await anyio.sleep_forever()

    @asynccontextmanager
    async def turn(self, key: SessionKey) -> AsyncIterator[StubAgent]:
        yield self

    started_afresh = False

    async def prompt(self, blocks: list[dict[str, Any]]) -> AsyncIterator[AgentUpdate]:
        for update in REPLY:
            yield update

    async def cancel(self, key: SessionKey) -> bool:
        return False

    async def reset(self, key: SessionKey) -> bool:
        return False

    async def models(self, key: SessionKey) -> str:
        return ""

    async def describe(self, key: SessionKey) -> str:
        return ""


class StubChannel:
    """Decodes JSON events, encodes JSON replies, and tells a waiting session that its answer is there."""

    name = "bench"
    account_id = "a"
    policy = ChannelPolicy(access=EVERYONE)

    def __init__(self) -> None:
        self.turn_adapter = self.message_adapter = self
        self.answered: dict[str, anyio.Event] = {}
        self.sent = 0

    async def run(self, runtime: Any) -> None:
        await anyio.sleep_forever()

    def ingest(self, raw: bytes) -> NormalizedTurnInput:
        event = orjson.loads(raw)
        return NormalizedTurnInput(id=event["id"], event_id=event["id"], raw_text=event["text"], raw=event)

    def resolve_turn(self, found: NormalizedTurnInput, *_: Any) -> RoutedPlan:
        event = found.raw
        return RoutedPlan(
            conversation=ConversationFacts(kind="direct", id=event["conversation"]),
            sender=SenderFacts(id=event["sender"]["id"], name=event["sender"]["name"]),
            reply=ReplyPlanFacts(to=event["conversation"]),
            message=MessageFacts(raw_body=found.raw_text),
            route=RouteFacts(),
            platform_message_id=event["id"],
        )

    def capabilities(self, destination: Destination) -> ChannelCapabilities:
        return CAPABILITIES

    is_ready = True

    async def wait_until_ready(self) -> None: ...

    async def send_text(self, send: TextSend) -> Receipt:
        orjson.dumps({"to": send.destination.to, "text": send.text, "key": send.idempotency_key})
        self.sent += 1
        self.answered[send.destination.to].set()
        return RECEIPT


def bare_loop(seconds: float) -> float:
    """Turns a second of the same JSON and routing without kernel, disk or tasks."""
    routes: dict[tuple[str, str], int] = {}
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        event = orjson.loads(raw_event(done, done % 100))
        key = (event["conversation"], event["sender"]["id"])
        routes[key] = routes.get(key, 0) + 1
        orjson.dumps({"prompt": [{"type": "text", "text": event["text"]}], "session": key})
        answer = "".join(update.text for update in REPLY if isinstance(update, TextChunk))
        orjson.dumps({"to": event["conversation"], "text": answer, "key": event["id"]})
        done += 1
    return done / seconds


async def measure(
    kernel: Kernel, store: SqliteStore, channel: StubChannel, sessions: int, seconds: float
) -> dict[str, float]:
    """Closed loop: each session sends its next message when the answer to the last one is there."""
    latencies: list[float] = []
    commits, numbers = store.commits, iter(range(10**9))
    end = time.perf_counter() + seconds

    async def talk(session: int) -> None:
        while time.perf_counter() < end:
            channel.answered[f"c{session}"] = anyio.Event()
            began = time.perf_counter()
            await kernel.pipeline.receive(channel, raw_event(next(numbers) + int(began * 1e6) * 10**6, session))
            await channel.answered[f"c{session}"].wait()
            latencies.append(time.perf_counter() - began)

    cpu, began = time.process_time(), time.perf_counter()
    async with anyio.create_task_group() as group:
        for session in range(sessions):
            group.start_soon(talk, session)
    took = time.perf_counter() - began
    turns = len(latencies)
    return {
        "turns_per_s": turns / took,
        "p50_ms": statistics.median(latencies) * 1000,
        "p99_ms": sorted(latencies)[int(turns * 0.99)] * 1000,
        "fsyncs_per_turn": (store.commits - commits) / turns,
        "cpu_us_per_turn": (time.process_time() - cpu) / turns * 1e6,
    }


async def paced(kernel: Kernel, channel: StubChannel, rate: float, seconds: float) -> dict[str, float]:
    """Latency at a steady rate, from the event to the platform call."""
    latencies: list[float] = []

    async def one(number: int) -> None:
        channel.answered[f"p{number}"] = anyio.Event()
        began = time.perf_counter()
        event = orjson.loads(raw_event(int(began * 1e6) * 1000 + number, number))
        await kernel.pipeline.receive(channel, orjson.dumps(event | {"conversation": f"p{number}"}))
        await channel.answered[f"p{number}"].wait()
        latencies.append(time.perf_counter() - began)

    async with anyio.create_task_group() as group:
        for number in range(int(rate * seconds)):
            group.start_soon(one, number)
            await anyio.sleep(1 / rate)
    ordered = sorted(latencies)
    return {"p50_ms": statistics.median(ordered) * 1000, "p99_ms": ordered[int(len(ordered) * 0.99)] * 1000}


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def main(seconds: float, sessions: list[int]) -> None:
    configure(LogSettings(level="warning"), Redactor(()))
    bare = bare_loop(min(seconds, 2))
    print(f"bare loop, same JSON and routing: {bare:,.0f}/s")
    with tempfile.TemporaryDirectory() as folder:
        clock = SystemClock()
        store = SqliteStore(Path(folder, "state.db"), clock)
        channel = StubChannel()
        kernel = build_kernel(agents=[StubAgent()], channels=[channel], store=store, clock=clock)
        print(f"file system of {folder}: {file_system(folder)}, journal_mode=WAL, synchronous=FULL")
        async with anyio.create_task_group() as group:
            await group.start(kernel.run)
            print(f"idle memory: {resident_mib():.0f} MiB")
            for count in sessions:
                await measure(kernel, store, channel, count, 0.5)
                gc.collect()
                found = await measure(kernel, store, channel, count, seconds)
                rate = found["turns_per_s"]
                print(
                    f"{count:4} sessions: {rate:,.0f} durable turns/s (1:{bare / rate:.1f} of the bare loop),"
                    f" p50 {found['p50_ms']:.2f} ms, p99 {found['p99_ms']:.2f} ms,"
                    f" {found['fsyncs_per_turn']:.3f} fsyncs/turn, {found['cpu_us_per_turn']:.0f} us CPU/turn"
                )
            found = await paced(kernel, channel, 20, seconds)
            print(f"at 20 turns/s: p50 {found['p50_ms']:.2f} ms, p99 {found['p99_ms']:.2f} ms")
            gc.collect()
            before = resident_mib()
            for session in range(10_000, 11_000):
                channel.answered[f"c{session}"] = anyio.Event()
                await kernel.pipeline.receive(channel, raw_event(session, session))
                await channel.answered[f"c{session}"].wait()
            channel.answered.clear()
            gc.collect()
            print(f"1,000 idle sessions: {(resident_mib() - before) * 1024 / 1000:.1f} KiB each")
            group.cancel_scope.cancel()
    print(f"start to ready: {start_up():.2f} s (a whole process, agent not counted)")


def file_system(folder: str) -> str:
    return subprocess.run(
        ["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=False
    ).stdout.strip()


def start_up() -> float:
    """Seconds from the start of a process to its ready line, the median of five."""
    with tempfile.TemporaryDirectory() as folder:
        config = '[gateway]\nurl = "ws://127.0.0.1:9/ws"\nallowed_users = ["u"]\n[agent]\ncommand = "cat"\n'
        Path(folder, "config.toml").write_text(config + f'[store]\nurl = "sqlite:///{folder}/state.db"\n')
        command = [sys.executable, "-m", "openab_kernel", "serve", "-c", str(Path(folder, "config.toml"))]
        times = []
        for _ in range(5):
            began = time.perf_counter()
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            assert process.stderr is not None
            for line in process.stderr:
                if "kernel.ready" in line:
                    break
            times.append(time.perf_counter() - began)
            process.terminate()
            process.communicate()
    return statistics.median(times)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 100])
    arguments = parser.parse_args()
    anyio.run(main, arguments.seconds, arguments.sessions)
