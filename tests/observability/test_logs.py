import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from openab_kernel.observability.logs import CHUNK_BYTES, LineWriter, configure
from openab_kernel.observability.settings import LogSettings
from openab_kernel.redact import MASK, Redactor

CANARY = "canary-5f1c"


@pytest.fixture(autouse=True)
def _keep_the_settings_of_others() -> Iterator[None]:
    """Loggers and hooks belong to the process."""
    root, handlers, level = logging.root, logging.root.handlers, logging.root.level
    hook, thread_hook, old = sys.excepthook, threading.excepthook, structlog.get_config()
    yield
    root.handlers, sys.excepthook, threading.excepthook = handlers, hook, thread_hook
    root.setLevel(level)
    structlog.configure(**old)
    structlog.contextvars.clear_contextvars()


class Logged:
    """What was written so far."""

    def __init__(self, *, is_tty: bool = False, **settings: str) -> None:
        self.stream = io.StringIO()
        configure(LogSettings.model_validate(settings), Redactor([CANARY]), stream=self.stream, is_tty=is_tty)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


def test_event_is_one_line_of_json_with_time_level_and_name_first():
    logged = Logged()
    structlog.get_logger().info("turn.finished", outcome="done", elapsed_ms=5, ok=True, cost=None, share=0.5)
    (event,) = logged.events
    assert list(event)[:3] == ["timestamp", "level", "event"]
    assert event.pop("timestamp").endswith("Z")
    rest = {"outcome": "done", "elapsed_ms": 5, "ok": True, "cost": None, "share": 0.5}
    assert event == {"level": "info", "event": "turn.finished", **rest}


def test_bound_values_are_in_every_line_that_follows():
    logged = Logged()
    structlog.contextvars.bind_contextvars(event_id="e1")
    structlog.get_logger("a").info("event.judged")
    structlog.get_logger("b").info("turn.started")
    assert [event["event_id"] for event in logged.events] == ["e1", "e1"]


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_lines_below_the_level_are_not_written(level, seen):
    logged = Logged(level=level)
    for name in ("debug", "info", "warning", "error"):
        getattr(structlog.get_logger(), name)("a.happened")
    assert [event["level"] for event in logged.events] == seen


@pytest.mark.parametrize(("format", "is_tty"), [("auto", True), ("console", False), ("console", True)])
def test_text_is_for_a_terminal(format, is_tty):
    logged = Logged(format=format, is_tty=is_tty)
    structlog.get_logger().info("turn.finished", outcome="done")
    assert "turn.finished" in logged.text
    assert ("\x1b[" in logged.text) == is_tty


@pytest.mark.parametrize(("format", "is_tty"), [("auto", False), ("json", True)])
def test_json_is_for_a_pipe(format, is_tty):
    logged = Logged(format=format, is_tty=is_tty)
    structlog.get_logger().info("turn.finished")
    assert logged.events[0]["event"] == "turn.finished"


class Peer:
    def __str__(self) -> str:
        return f"peer with {CANARY}"


class Broken:
    def __str__(self) -> str:
        raise RuntimeError(CANARY)


@pytest.mark.parametrize("format", ["json", "console"])
def test_secret_is_masked_wherever_it_stands(format):
    logged = Logged(level="debug", format=format)
    log = structlog.get_logger()
    log.debug(CANARY, value=CANARY, deep={"a": [CANARY, (CANARY,)], CANARY: {CANARY}}, raw=CANARY.encode(), peer=Peer())
    log.debug("a.happened", url=f"wss://u:{CANARY}@h/?token={CANARY}", path={"x": Broken()})
    log.warning("agent.stderr", line=json.dumps({"token": CANARY}))
    try:
        try:
            raise ConnectionError(f"GET /bot{CANARY}/send")
        except ConnectionError as error:
            raise ExceptionGroup("two", [ValueError(CANARY), error]) from error
    except ExceptionGroup as error:
        log.exception("channel.failed")
        log.error("plugin.failed", exc_info=error, error=error)
    logging.getLogger("httpx").warning("sent %s", CANARY)
    logging.getLogger("httpx").error("failed", exc_info=ValueError(CANARY))
    assert CANARY not in logged.text
    assert logged.text.count(MASK) >= 15


def test_library_lines_come_through_without_the_query_of_urls():
    logged = Logged()
    logging.getLogger("httpx").warning('HTTP Request: GET https://h/p?sig=1&x="y" "%s"', "200 OK")
    (event,) = logged.events
    assert (event["event"], event["level"], event["library"]) == ("library.logged", "warning", "httpx")
    assert event["message"] == f'HTTP Request: GET https://h/p?{MASK}"y" "200 OK"'


@pytest.mark.parametrize(("level", "seen"), [("debug", ["info"]), ("info", []), ("error", [])])
def test_libraries_say_no_more_than_warnings_and_never_their_debug_lines(level, seen):
    logged = Logged(level=level)
    logging.getLogger("httpcore").debug("headers and bodies")
    logging.getLogger("httpcore").info("request")
    assert [event["level"] for event in logged.events] == seen


def test_library_line_that_cannot_be_put_together_is_written_as_it_is():
    logged = Logged()
    logging.getLogger("x").warning("%d things of %s", "no number", Broken())
    logging.getLogger("x").log(45, "between the levels")
    logging.getLogger("x").log(99, "above them all")
    assert [event["message"] for event in logged.events] == ["%d things of %s", "between the levels", "above them all"]
    assert [event["level"] for event in logged.events] == ["warning", "error", "critical"]


@pytest.mark.parametrize("value", ["half \udc80", 2**70, float("nan")])
def test_value_that_is_no_json_does_not_break_the_line(value):
    logged = Logged()
    structlog.get_logger().info("a.happened", value=value)
    assert logged.events[0]["event"] == "a.happened"


def test_control_characters_do_not_reach_a_terminal():
    logged = Logged(format="console")
    try:
        raise ValueError("\x1b]0;title\x07")
    except ValueError:
        structlog.get_logger().exception("a.happened", text="\x1b[2J\u202e", lines="a\nb")
    assert not set(logged.text) & {"\x1b", "\x07", "\u202e"}
    assert "\nValueError: " in logged.text


def test_crash_of_the_process_is_one_masked_line():
    code = f"""
import threading
from openab_kernel.observability.logs import configure
from openab_kernel.observability.settings import LogSettings
from openab_kernel.redact import Redactor
configure(LogSettings(), Redactor(["{CANARY}"]))
def fail(): raise ValueError("{CANARY}")
thread = threading.Thread(target=fail, name="worker")
thread.start()
thread.join()
fail()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    events = [json.loads(line) for line in run.stderr.splitlines()]
    assert [event["event"] for event in events] == ["thread.crashed", "process.crashed"]
    assert events[0]["thread"] == "worker"
    assert f"ValueError: {MASK}" in events[1]["exception"]
    assert CANARY not in run.stdout + run.stderr
    assert run.returncode == 1


class Pipe:
    """A pipe with nobody reading until the test does."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        self.stream = os.fdopen(writer, "w")

    def fill(self) -> None:
        os.set_blocking(self.stream.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.stream.fileno(), b"x" * CHUNK_BYTES)
        os.set_blocking(self.stream.fileno(), True)

    def drain(self) -> str:
        """Everything that is in the pipe now."""
        os.set_blocking(self.reader, False)
        parts = []
        while True:
            try:
                parts.append(os.read(self.reader, 1 << 20))
            except BlockingIOError:
                return b"".join(parts).decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self.reader)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def test_full_pipe_costs_lines_and_they_are_counted(pipe):
    writer = LineWriter(pipe.stream)
    pipe.fill()
    writer.msg("lost 1")
    writer.msg("lost 2")
    pipe.drain()
    writer.msg("seen")
    lines = pipe.drain().splitlines()
    assert lines[0] == "seen"
    assert json.loads(lines[1]) == {"level": "warning", "event": "log.dropped", "lines": 2}


def test_line_that_was_torn_by_a_full_pipe_leaves_the_next_one_whole(pipe):
    writer = LineWriter(pipe.stream)
    writer.msg("x" * 2_000_000)
    pipe.drain()
    writer.msg('{"event": "a.happened"}')
    torn, whole, counted = pipe.drain().splitlines()
    assert (torn, whole) == ("", '{"event": "a.happened"}')
    assert json.loads(counted)["lines"] == 1


def test_closed_stream_is_no_error():
    reader, fd = os.pipe()
    stream = os.fdopen(fd, "w")
    os.close(reader)
    writer = LineWriter(stream)
    writer.msg("nobody reads")
    stream.close()
    writer.msg("nothing to write to")
    text = io.StringIO()
    writer = LineWriter(text)
    text.close()
    writer.msg("closed as well")


def test_service_with_a_dead_stderr_ends_in_order():
    code = """
import structlog
from openab_kernel.observability.logs import configure
from openab_kernel.observability.settings import LogSettings
from openab_kernel.redact import Redactor
input()
configure(LogSettings(), Redactor())
for number in range(1000):
    structlog.get_logger().info("a.happened", number=number)
print("done")
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stderr is not None
        process.stderr.close()
        process.stderr = None
        output, _ = process.communicate(b"\n")
    assert (output.strip(), process.returncode) == (b"done", 0)


def test_lines_of_many_threads_stay_whole(pipe):
    writer = LineWriter(pipe.stream)

    def write(letter: str) -> None:
        for _ in range(20):
            writer.msg(letter * 50)

    threads = [threading.Thread(target=write, args=letter) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = pipe.drain().splitlines()
    assert len(lines) == 80
    assert all(len(set(line)) == 1 and len(line) == 50 for line in lines)
