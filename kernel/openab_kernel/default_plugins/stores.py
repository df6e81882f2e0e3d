"""The SQLite store."""

from __future__ import annotations

from pathlib import Path

from openab_kernel.clock import Clock
from openab_kernel.interfaces.store import Store
from openab_kernel.plugin_host.hookspecs import Services, Settings, StoreFactory, hookimpl
from openab_kernel.storage.settings import StoreSettings
from openab_kernel.storage.sqlite import SqliteStore


@hookimpl
def register_stores(settings: Settings, services: Services) -> list[tuple[str, StoreFactory]]:
    return [("sqlite", _sqlite)]


def _sqlite(url: str, base: Path, clock: Clock) -> Store:
    return SqliteStore(StoreSettings(url=url).path(base), clock)
