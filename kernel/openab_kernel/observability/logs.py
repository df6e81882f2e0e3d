"""Logs: one event a line on stderr, JSON or text, with every secret masked.

Everybody's lines come through here: the kernel's own by structlog, those of libraries by `logging`, and what
ends the process by its excepthook. A reader of stderr that is slow or gone costs lines, never the service.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Mapping
from io import UnsupportedOperation
from types import TracebackType
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from openab_kernel.observability.settings import LogSettings
from openab_kernel.redact import MASK, Redactor, printable

PATIENCE_MS = 100
CHUNK_BYTES = 4096
"""What a pipe takes at once, if `poll` says that it takes anything (PIPE_BUF)."""

LONGEST_VALUE_CHARS = 16_384
QUERY = re.compile(r"(?<=://)([^\s\"'<>?#]*)\?[^\s\"'<>]*")


def configure(
    settings: LogSettings, redactor: Redactor, *, stream: TextIO | None = None, is_tty: bool | None = None
) -> None:
    """Send all logs of this process to one stream. May be called again; the last call holds.

    Args:
        settings: The least level, and the form.
        redactor: Masks secrets in every string of a line, tracebacks included.
        stream: Where to; stderr if None.
        is_tty: Does a person look at it? The stream is asked if None.
    """
    stream = stream or sys.stderr
    is_tty = stream.isatty() if is_tty is None else is_tty
    as_text = settings.format == "console" or (settings.format == "auto" and is_tty)
    writer = LineWriter(stream)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            Masker(redactor),
            *(_text_steps(is_tty) if as_text else [render_json]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(settings.level),
        logger_factory=lambda *_: writer,
        cache_logger_on_first_use=False,
    )
    logging.root.handlers = [ForwardHandler()]
    # The debug lines of libraries hold headers and bodies.
    logging.root.setLevel(logging.INFO if settings.level == "debug" else logging.WARNING)
    sys.excepthook = _log_crash
    threading.excepthook = _log_thread_crash


class Masker:
    """A processor: masks secrets in every string of an event, however deep, and in what else becomes text."""

    def __init__(self, redactor: Callable[[str], str]) -> None:
        self._redact = redactor

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {key: self._mask(value) for key, value in event.items()}

    def _mask(self, value: Any) -> Any:
        match value:
            case None | bool() | int() | float():
                return value
            case Mapping():
                return {self._redact(str(key)): self._mask(inner) for key, inner in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self._mask(inner) for inner in value]
            case _:
                return self._redact(_read_text(value))


def _read_text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # somebody else's `__str__`: whoever logs must not fail by it
        return f"<{type(value).__name__}>"


def render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """A processor: the event as one line of JSON, time, level and name first."""
    ordered = {key: event.get(key) for key in ("timestamp", "level", "event")} | dict(event)
    try:
        return orjson.dumps(ordered).decode()
    except TypeError:  # half a surrogate pair, or a number of more than 64 bits
        return json.dumps(ordered)


def escape_controls(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A processor: nothing that a peer wrote reaches a terminal as a command to it."""
    for key, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if key == "exception" else [value]
            event[key] = "\n".join(printable(line, LONGEST_VALUE_CHARS) for line in lines)
    return event


def _text_steps(is_tty: bool) -> list[Processor]:
    # Given a formatted traceback, the renderer prints it; its own formatters would show local variables.
    plain = structlog.dev.plain_traceback
    return [escape_controls, structlog.dev.ConsoleRenderer(colors=is_tty, exception_formatter=plain)]


class LineWriter:
    """The last step of structlog: puts finished lines on a stream. Safe from any thread.

    A full pipe is waited for once, for `PATIENCE_MS`; until it takes something again, lines are dropped and
    counted, and their number follows the next line that gets through. A closed stream drops them all.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._dropped = 0
        self._is_torn = False
        try:
            self._fd: int | None = stream.fileno()
        except (UnsupportedOperation, AttributeError):
            self._fd = None

    def msg(self, line: str) -> None:
        """Write `line` and a line end, or drop it. Never raises."""
        with self._lock:
            if not self._write(line):
                self._dropped += 1
            elif self._dropped:
                notice = {"level": "warning", "event": "log.dropped", "lines": self._dropped}
                self._dropped = 0
                self._write(json.dumps(notice))

    debug = info = warning = error = critical = msg

    def _write(self, line: str) -> bool:
        text = line.encode("utf-8", "backslashreplace") + b"\n"
        try:
            return self._write_text(text) if self._fd is None else self._write_chunks(self._fd, text)
        except (OSError, ValueError):
            return False

    def _write_text(self, text: bytes) -> bool:
        self._stream.write(text.decode())
        self._stream.flush()
        return True

    def _write_chunks(self, fd: int, text: bytes) -> bool:
        """Write past Python's own buffer, which would try again at exit what a dead pipe refused."""
        rest = b"\n" + text if self._is_torn else text
        while rest:
            if not self._is_ready(fd):
                return False
            written = os.write(fd, rest[:CHUNK_BYTES])
            rest = rest[written:]
            self._is_torn = bool(rest)
        return True

    def _is_ready(self, fd: int) -> bool:
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        return bool(poll.poll(0 if self._dropped else PATIENCE_MS))


class ForwardHandler(logging.Handler):
    """Takes the lines of libraries into our own, as `library.logged`, and the query off every URL in them."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # the arguments are not ours: they may fail in any way
            message = str(record.msg)
        level = min(record.levelno // 10 * 10, logging.CRITICAL)
        structlog.get_logger().log(
            level,
            "library.logged",
            library=record.name,
            message=QUERY.sub(rf"\1?{MASK}", message),
            exc_info=record.exc_info,
        )


def _log_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    structlog.get_logger().critical("process.crashed", exc_info=(kind, error, trace))


def _log_thread_crash(args: threading.ExceptHookArgs) -> None:
    error = args.exc_value or args.exc_type()
    structlog.get_logger().error(
        "thread.crashed",
        thread=args.thread and args.thread.name,
        exc_info=(args.exc_type, error, args.exc_traceback),
    )
