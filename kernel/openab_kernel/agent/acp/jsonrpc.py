"""Lines and frames of JSON-RPC as agents write them (agent.md 2, 4). PURE.

Bytes go into a `LineBuffer` and come out as lines; `decode` makes a line an object, or noise; `classify` says what the
object is to us. Nothing here raises: an agent's fault is a value.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any, NamedTuple, NoReturn

import orjson

LINE_CEILING_BYTES = 16 * 1024 * 1024

METHOD_NOT_FOUND = -32601
AUTH_REQUIRED = -32000
ERROR_KINDS = {
    -32700: "parse_error",
    -32600: "invalid_request",
    METHOD_NOT_FOUND: "method_not_found",
    -32602: "invalid_params",
    -32603: "internal_error",
    -32800: "request_cancelled",
    AUTH_REQUIRED: "auth_required",
    -32002: "resource_not_found",
}

Object = dict[str, Any]


class LineBuffer:
    """Cuts bytes into lines, without their line feeds. Fed and drained; never reads.

    `has_overflowed` turns true when a line grew past the ceiling: the lines before it are given, nothing after it.
    """

    def __init__(self, ceiling_bytes: int = LINE_CEILING_BYTES) -> None:
        self._ceiling = ceiling_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self.has_overflowed = False

    def feed(self, data: bytes) -> list[bytes]:
        """Give the lines that `data` completes."""
        if self.has_overflowed:
            return []
        first, *others = data.split(b"\n")
        if self._size + len(data) > self._ceiling:
            return self._feed_carefully(first, others)
        self._keep(first)
        if not others:
            return []
        lines = [self._join(), *others[:-1]]
        self._keep(others[-1])
        return lines

    def drain(self) -> bytes:
        """Give what is left after the last line feed; an agent may end without one."""
        return b"" if self.has_overflowed else self._join()

    def _feed_carefully(self, first: bytes, others: list[bytes]) -> list[bytes]:
        """The same where the ceiling is near, so that every line must be measured."""
        lines: list[bytes] = []
        self._keep(first)
        for piece in others:
            if self.has_overflowed:
                break
            lines.append(self._join())
            self._keep(piece)
        return lines

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
        if self._size > self._ceiling:
            self.has_overflowed = True
            self._pieces.clear()

    def _join(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return line


def decode(line: bytes) -> Object | None:
    """Give the JSON object on a line; None: the line is noise.

    Invalid UTF-8 and halves of surrogate pairs (JavaScript cuts a string between them) become U+FFFD.
    """
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        if not line.lstrip().startswith(b"{"):
            return None
        found = _decode_leniently(line)
    return found if isinstance(found, dict) else None


def _decode_leniently(line: bytes) -> Any:
    try:
        found = json.loads(line.decode("utf-8", "replace"), parse_constant=_refuse_constant)
        text = json.dumps(found, ensure_ascii=False)
        return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class Request(NamedTuple):
    """The agent asks; it gets exactly one answer under `id`, which is whatever it sent."""

    id: Any
    method: str
    params: Object


class Notification(NamedTuple):
    """The agent tells."""

    method: str
    params: Object


class Result(NamedTuple):
    """The answer to our call `id`."""

    id: int
    value: Any


class Failure(NamedTuple):
    """Our call `id` failed. `message` is the agent's; `code` None: the answer broke the protocol, and it says how."""

    id: int
    code: int | None
    message: str


class Dropped(NamedTuple):
    """Nobody waits for this frame: `reason` is `unknown_id` or `no_method`."""

    reason: str


Frame = Request | Notification | Result | Failure | Dropped


def classify(frame: Object, pending: Container[int]) -> Frame:
    """Say what a frame is. `pending` holds the ids of our calls that wait for an answer.

    Ids are separate in the two directions: a frame with a method is never an answer, whatever its id.
    """
    if "method" in frame:
        method, params = frame["method"], frame.get("params")
        method = method if isinstance(method, str) else ""
        params = params if isinstance(params, dict) else {}
        return Request(frame["id"], method, params) if "id" in frame else Notification(method, params)
    if "id" not in frame:
        return Dropped("no_method")
    if type(frame["id"]) is not int or frame["id"] not in pending:
        return Dropped("unknown_id")
    return _answer(frame["id"], frame)


def _answer(call_id: int, frame: Object) -> Result | Failure:
    if ("result" in frame) == ("error" in frame):
        both = "result" in frame
        return Failure(call_id, None, f"the answer has {'both' if both else 'neither'} of result and error")
    if "result" in frame:
        return Result(call_id, frame["result"])
    error = frame["error"]
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return Failure(call_id, None, "the error of the answer has no code")
    message = error.get("message")
    return Failure(call_id, error["code"], message if isinstance(message, str) else "")


def error_kind(code: int | None) -> str:
    """A word for a JSON-RPC error code, for logs."""
    return "protocol_error" if code is None else ERROR_KINDS.get(code, "unknown")
