"""The lock that keeps a second process off a store, and tells who holds it."""

from __future__ import annotations

import os
import socket
import sys
from datetime import datetime
from pathlib import Path

from openab_kernel.errors import StoreError, StoreLockedError

if sys.platform == "win32":
    import msvcrt

    FAR_OFF = 1 << 30  # a locked byte cannot be read by others, so it lies behind the holder's name

    def _try_lock(descriptor: int) -> None:
        os.lseek(descriptor, FAR_OFF, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class StoreLock:
    """Held from its making until `release` or the end of the process, however that comes.

    `<path>.lock` holds `pid host started_at`. Links are followed first, so that a store has one lock by whatever name.
    The operating system keeps the lock, not the file: what a dead process left in it holds nobody up, and it is never
    removed, since somebody may be about to lock it. A missing folder is made, for its owner alone.

    Raises:
        StoreLockedError: another process holds it; names it.
        StoreError: the file cannot be made.
    """

    def __init__(self, path: Path, started_at: datetime) -> None:
        real_path = path.resolve()
        lock_path = real_path.with_name(real_path.name + ".lock")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(
                f"store {path}: {lock_path} cannot be made ({error.strerror}); check the rights there"
            ) from error
        try:
            _try_lock(descriptor)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} {socket.gethostname()} {started_at.isoformat()}\n".encode())
        except BlockingIOError as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            raise StoreLockedError(str(path), holder) from error
        except OSError as error:
            os.close(descriptor)
            raise StoreError(
                f"store {path}: {lock_path} cannot be locked ({error.strerror}); use a local disk"
            ) from error
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


def _read_holder(descriptor: int) -> str:
    """Who wrote itself into the file. It may be about to, so it may be empty."""
    match os.read(descriptor, 1000).decode(errors="replace").split():
        case [pid, host, started_at]:
            return f"process {pid} on {host} since {started_at}"
        case _:
            return "another process"
