"""What SQLite's errors mean for the operator."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from openab_kernel.errors import StoreError

MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room",
    sqlite3.SQLITE_BUSY: "locked by another program; close it",
    sqlite3.SQLITE_CORRUPT: "damaged; move it aside or put a backup in its place",
    sqlite3.SQLITE_NOTADB: "not an SQLite database; move it aside or set another [store] url",
    sqlite3.SQLITE_READONLY: "cannot be written; check the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that it is a file, and the rights of its folder",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write; check the disk and the room left on it",
}


def store_error(path: Path, error: Exception) -> StoreError:
    """Say which file, what happened and the way out. Raise it `from error`."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the bits above only tell the kind of the kind
    meaning = MEANINGS.get(code)
    return StoreError(f"store {path}: {f'{meaning} ({error})' if meaning else error}")
