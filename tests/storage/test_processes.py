"""The store among real processes: one that holds it, and one that is killed in the middle of its work."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

import openab_kernel
from openab_kernel.errors import StoreLockedError
from openab_kernel.storage import SqliteStore
from openab_kernel.testing.clock import ManualClock
from tests.storage.cases import look, record, running

ROOT = Path(__file__).parents[2]
SOURCE = Path(openab_kernel.__file__).parents[1]


@contextmanager
def process_on(path: Path, tasks: int = 0) -> Iterator[subprocess.Popen[str]]:
    """`holder.py` at work on the store; killed at the end, if it still lives."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.holder", str(path), str(tasks)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


async def test_second_process_is_refused_and_told_who_holds_the_store(path: Path, clock: ManualClock) -> None:
    with process_on(path) as holder:
        with pytest.raises(StoreLockedError) as refusal:
            await SqliteStore(path, clock).run()
        assert refusal.value.holder.startswith(f"process {holder.pid} on {os.uname().nodename} since 20")
        assert str(path) in str(refusal.value)


async def test_a_link_to_the_store_is_the_same_store(path: Path, clock: ManualClock, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    async with running(SqliteStore(path, clock)):
        with pytest.raises(StoreLockedError):
            await SqliteStore(link, clock).run()


async def test_lock_of_a_dead_process_holds_nobody_up(path: Path, clock: ManualClock) -> None:
    with process_on(path) as holder:
        holder.kill()
        holder.wait()
    assert path.with_name("state.db.lock").read_text().startswith(f"{holder.pid} ")
    async with running(SqliteStore(path, clock)) as store:
        await record(store)
        assert path.with_name("state.db.lock").read_text().split() == [
            str(os.getpid()),
            os.uname().nodename,
            "2026-07-01T12:00:00+00:00",
        ]


async def test_holder_that_has_not_written_its_name_yet_is_another_process(path: Path, clock: ManualClock) -> None:
    async with running(SqliteStore(path, clock)):
        path.with_name("state.db.lock").write_text("")
        with pytest.raises(StoreLockedError, match="held by another process"):
            await SqliteStore(path, clock).run()


async def test_second_store_waits_for_the_first_if_it_may(path: Path, clock: ManualClock) -> None:
    async def use_second() -> None:
        async with running(SqliteStore(path, clock, lock_wait_seconds=60.0)) as second:
            await record(second, "second")

    async with anyio.create_task_group() as group:
        async with running(SqliteStore(path, clock)) as first:
            group.start_soon(use_second)
            await clock.until_waiting()
            await record(first, "first")
        await clock.advance(1.0)
    assert look(path, "SELECT message_id FROM inbound ORDER BY seq") == [("first",), ("second",)]


async def test_second_store_waits_no_longer_than_it_may(path: Path, clock: ManualClock) -> None:
    refused = anyio.Event()

    async def use_second() -> None:
        with pytest.raises(StoreLockedError):
            await SqliteStore(path, clock, lock_wait_seconds=1.0).run()
        refused.set()

    async with running(SqliteStore(path, clock)), anyio.create_task_group() as group:
        group.start_soon(use_second)
        await clock.until_waiting()
        await clock.advance(0.8)
        assert not refused.is_set()
        await clock.advance(0.4)
        assert refused.is_set()


@pytest.mark.parametrize("acknowledged", [1, 40, 400])
def test_killed_process_loses_nothing_that_it_acknowledged(path: Path, acknowledged: int) -> None:
    with process_on(path, tasks=20) as process:
        assert process.stdout is not None
        seqs = {int(process.stdout.readline()) for _ in range(acknowledged)}
        process.kill()
        seqs |= {int(line) for line in process.stdout.read().split("\n")[:-1]}
    assert seqs <= {seq for (seq,) in look(path, "SELECT seq FROM inbound")}
    assert look(path, "PRAGMA integrity_check") == [("ok",)]


async def test_store_goes_on_where_a_killed_process_stopped(path: Path, clock: ManualClock) -> None:
    with process_on(path, tasks=20) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.wait()
    async with running(SqliteStore(path, clock)) as store:
        (highest,) = look(path, "SELECT max(seq) FROM inbound")[0]
        assert await record(store, "next") > highest
        (head,) = await store.waiting_sessions(after_seq=0, limit=9)
        assert head.seq == 1


async def test_other_programs_may_read_while_the_store_runs(path: Path, clock: ManualClock) -> None:
    async with running(SqliteStore(path, clock)) as store:
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM inbound").fetchone() == (0,)
        await record(store)
        assert reader.execute("SELECT count(*) FROM inbound").fetchone() == (0,)
        reader.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM inbound").fetchone() == (1,)
        reader.close()
