"""Where what must survive the process is kept. `SqliteStore` implements `openab_kernel.interfaces.store.Store`."""

from openab_kernel.storage.settings import StoreSettings
from openab_kernel.storage.sqlite import SqliteStore

__all__ = ["SqliteStore", "StoreSettings"]
