"""How many durable operations a second the SQLite store makes: `python benchmarks/store.py [FOLDER] [TURNS]`.

A turn is three operations: record, adopt, finish. The raw loop makes the same ones on a connection of its own, as many
to a commit as there are producers, without event loop and thread: what is lost against it is the price of handing them
over. The figures are those of the filesystem that FOLDER (default: the current one) is on.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from uuid import uuid4

import anyio

from openab_kernel.clock import SystemClock
from openab_kernel.facts.admission import Dispatch
from openab_kernel.facts.context import FINALIZED, CommandTurn, FinalizedMsgContext
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.outbound import Destination
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.interfaces.store import RecordRequest
from openab_kernel.storage import SqliteStore, operations
from openab_kernel.storage.migrations import migrate, set_journal

Run = Callable[[Path, list[list[RecordRequest]]], Awaitable[tuple[float, int]]]


def build_request(producer: int, number: int) -> RecordRequest:
    conversation = f"c{producer}"
    bodies = ("raw_body", "body", "body_for_agent", "command_body", "body_for_commands")
    places = ("to", "session_key", "chat_id", "conversation_label", "originating_to")
    platforms = ("provider", "surface", "originating_channel")
    context: dict[str, Any] = {
        **dict.fromkeys(bodies, "Could you look into why the nightly build is red again? The log is attached."),
        **dict.fromkeys(places, conversation),
        **dict.fromkeys(platforms, "discord"),
        "finalized": FINALIZED,
        "from": "u1",
        "agent_id": "main",
        "chat_type": "group",
        "command_authorized": False,
        "command_turn": CommandTurn(source="message", kind="normal", authorized=False),
    }
    message = InboundMessage(
        session=SessionKey("main", None, "discord", None, "group", conversation),
        session_key=conversation,
        channel="discord",
        conversation_id=conversation,
        message_id=f"{number:016}{producer:04}",  # as most platforms count them: by time
        received_at=1_782_907_200_000 + number,
        admission=Dispatch(),
        context=FinalizedMsgContext(**context),
        destination=Destination(channel="discord", conversation_id=conversation, to=conversation),
    )
    return RecordRequest(message=message, queue_name="discord", agent_id="main", persisted_session_key=conversation)


async def run_store(path: Path, producers: list[list[RecordRequest]]) -> tuple[float, int]:
    """Seconds and commits of all turns, each producer waiting for each of its operations."""
    store = SqliteStore(path, SystemClock())
    async with anyio.create_task_group() as group:
        await group.start(lambda *, task_status: store.run(task_status=task_status))
        begin = perf_counter()
        async with anyio.create_task_group() as all_producers:
            for requests in producers:
                all_producers.start_soon(produce, store, requests)
        seconds = perf_counter() - begin
        group.cancel_scope.cancel()
    return seconds, store.commits


async def produce(store: SqliteStore, requests: list[RecordRequest]) -> None:
    for request in requests:
        turn_id = uuid4().hex
        recorded = await store.record(request)
        assert recorded is not None
        assert await store.adopt(turn_id, request.message.session, [recorded.seq], request.message.received_at)
        await store.finish_turn(turn_id, "done", None)


async def run_raw(path: Path, producers: list[list[RecordRequest]]) -> tuple[float, int]:
    """The same with all producers in step, in one plain loop."""
    commits = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        set_journal(connection, path)
        migrate(connection, path)
        begin = perf_counter()
        for requests in zip(*producers, strict=True):
            for step in raw_steps(connection, requests):
                connection.execute("BEGIN IMMEDIATE")
                step()
                connection.execute("COMMIT")
                commits += 1
        return perf_counter() - begin, commits


def raw_steps(connection: sqlite3.Connection, requests: Sequence[RecordRequest]) -> Iterator[Callable[[], None]]:
    """The three steps of one turn of each producer."""
    turn_ids = [uuid4().hex for _ in requests]
    seqs: list[int] = []

    def record() -> None:
        for request in requests:
            seq = operations.record(connection, request, request.message.model_dump_json(exclude_none=True))
            assert seq is not None
            seqs.append(seq)

    def adopt() -> None:
        for turn_id, seq, request in zip(turn_ids, seqs, requests, strict=True):
            operations.adopt(connection, turn_id, request.message.session, [seq], request.message.received_at)

    def finish() -> None:
        for turn_id in turn_ids:
            operations.finish_turn(connection, turn_id, "done", None)

    yield from (record, adopt, finish)


def filesystem_of(folder: Path) -> str:
    """What the folder is on, where the system tells it."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    return max((len(place), kind) for place, kind in mounts if folder.resolve().is_relative_to(place))[1]


def measure(run: Run, name: str, folder: Path, producers: int, turns: int) -> float:
    """Print one line; give the operations a second."""
    requests = [
        [build_request(producer, number) for number in range(turns // producers)] for producer in range(producers)
    ]
    with TemporaryDirectory(dir=folder) as place:
        seconds, commits = anyio.run(run, Path(place) / "state.db", requests)
    made = 3 * producers * len(requests[0])
    print(
        f"{name:6} {producers:4} producers  {made / seconds:8,.0f} operations/s  {made / seconds / 3:7,.0f} turns/s"
        f"  {commits:6,} commits for {made:,} operations"
    )
    return made / seconds


def main(folder: str = ".", turns: str = "10000") -> None:
    print(f"SQLite {sqlite3.sqlite_version} on {filesystem_of(Path(folder))}, journal_mode=WAL, synchronous=FULL")
    for producers, count in ((1, int(turns) // 10), (100, int(turns))):
        raw = measure(run_raw, "raw", Path(folder), producers, count)
        ours = measure(run_store, "store", Path(folder), producers, count)
        print(f"{'':6} {producers:4} producers  store / raw = {ours / raw:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
