"""The stores that the tests are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from openab_kernel.storage import SqliteStore
from openab_kernel.testing.clock import ManualClock
from openab_kernel.testing.memory_store import MemoryStore
from tests.storage.cases import Opener


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(path: Path, clock: ManualClock) -> SqliteStore:
    return SqliteStore(path, clock)


@pytest.fixture(params=["sqlite", "memory"])
def reopen(request: pytest.FixtureRequest, path: Path, clock: ManualClock) -> Opener:
    """Gives a store that is not running, each time on the same state: calling it again plays a restart."""
    if request.param == "sqlite":
        return lambda: SqliteStore(path, clock)
    memory = MemoryStore(clock)
    return lambda: memory
