"""Run as a script with the path of a store: holds it, and says `open`, until it is killed or its input ends.

With a number behind the path it records as fast as it can with so many tasks, and prints each `seq` that is on disk.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from anyio import to_thread

from openab_kernel.clock import SystemClock
from openab_kernel.storage import SqliteStore
from tests.storage.cases import record


async def main(path: Path, tasks: int) -> None:
    store = SqliteStore(path, SystemClock())
    async with anyio.create_task_group() as group:
        await group.start(lambda *, task_status: store.run(task_status=task_status))
        print("open", flush=True)
        for task in range(tasks):
            group.start_soon(record_on_and_on, store, task)
        await to_thread.run_sync(sys.stdin.read)
        group.cancel_scope.cancel()


async def record_on_and_on(store: SqliteStore, task: int) -> None:
    number = 0
    while True:
        seq = await record(store, f"{task}:{number}")
        print(seq, flush=True)
        number += 1


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
