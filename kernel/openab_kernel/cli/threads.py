"""The end of the process when a plugin's call is stuck in a thread: Python alone would wait for it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import structlog

log = structlog.get_logger("openab_kernel.cli")

LAST_SECONDS = 1.0


@contextmanager
def leave_stuck_threads() -> Iterator[None]:
    """Once the block is over, end the process with its status if threads of the block still run. Also a decorator.

    It must be the outermost block: nothing outside it is closed then.
    """
    earlier = set(threading.enumerate())
    status = 0
    try:
        yield
    except BaseException as error:
        if not _is_stuck(earlier):
            raise
        status = _status_of(error)
    else:
        if not _is_stuck(earlier):
            return
    log.warning("thread.abandoned", fix="a call of a plugin does not end")
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # None: it is closed
            stream.flush()
    os._exit(status)


def _is_stuck(earlier: Iterable[threading.Thread]) -> bool:
    """Whether one that Python would wait for is still at work a moment after everything was closed."""
    waited_for = [thread for thread in {*threading.enumerate()} - {*earlier} if not thread.daemon]
    end = time.monotonic() + LAST_SECONDS
    for thread in waited_for:
        thread.join(max(0.0, end - time.monotonic()))
    return any(thread.is_alive() for thread in waited_for)


def _status_of(error: BaseException) -> int:
    """What Python would make of it; a traceback is printed as Python would."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    sys.excepthook(type(error), error, error.__traceback__)
    return 1
