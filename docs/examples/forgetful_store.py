"""A store for a machine where things are tried out: nothing outlives the process.

`MemoryStore` is the kit's. A store of your own keeps the promises of `interfaces/store.py`.
"""

from __future__ import annotations

from pathlib import Path

from openab_kernel import Clock, Services, Settings, hookimpl
from openab_kernel.interfaces.store import Store
from openab_kernel.plugin_host.hookspecs import StoreFactory
from openab_kernel.testing.memory_store import MemoryStore


@hookimpl
def register_stores(settings: Settings, services: Services) -> list[tuple[str, StoreFactory]]:
    return [("sqlite", forget)]


def forget(url: str, folder: Path, clock: Clock) -> Store:
    return MemoryStore(clock)
