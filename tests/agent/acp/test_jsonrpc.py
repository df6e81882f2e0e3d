"""Lines and frames (agent.md 2, 4)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.agent.acp.jsonrpc import (
    Dropped,
    Failure,
    LineBuffer,
    Notification,
    Request,
    Result,
    classify,
    decode,
    error_kind,
)


def feed_all(buffer, pieces):
    return [line for piece in pieces for line in buffer.feed(piece)]


@pytest.mark.parametrize(
    ("pieces", "lines", "rest"),
    [
        ([], [], b""),
        ([b"a\n"], [b"a"], b""),
        ([b"a\nb\n\nc"], [b"a", b"b", b""], b"c"),
        ([b"a", b"b", b"\n", b"c\nd"], [b"ab", b"c"], b"d"),
        ([b"", b"\n"], [b""], b""),
        ([b"a\r\n"], [b"a\r"], b""),
    ],
)
def test_bytes_are_cut_into_lines(pieces, lines, rest):
    buffer = LineBuffer()
    assert feed_all(buffer, pieces) == lines
    assert buffer.drain() == rest


@given(st.lists(st.binary(max_size=6).map(lambda data: data.replace(b"\n", b"-")), max_size=6), st.data())
def test_lines_do_not_depend_on_where_the_pieces_end(lines, data):
    whole = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    buffer = LineBuffer()
    found = feed_all(buffer, pieces)
    assert [*found, buffer.drain()] == (lines or [b""])


@pytest.mark.parametrize(
    ("pieces", "lines", "has_overflowed"),
    [
        ([b"12345\n"], [b"12345"], False),
        ([b"123456\n"], [], True),
        ([b"123", b"456"], [], True),
        ([b"12345", b"\n1"], [b"12345"], False),
        ([b"a\nb\n123456\nc\n"], [b"a", b"b"], True),
        ([b"a\nb\n123456"], [b"a", b"b"], True),
        ([b"1234\n1234\n12"], [b"1234", b"1234"], False),
        ([b"123456", b"\na\n"], [], True),
    ],
)
def test_line_past_the_ceiling_is_the_last(pieces, lines, has_overflowed):
    buffer = LineBuffer(5)
    assert feed_all(buffer, pieces) == lines
    assert buffer.has_overflowed is has_overflowed
    if has_overflowed:
        assert buffer.drain() == b""
        assert buffer.feed(b"more\n") == []


def test_seventeen_mebibytes_in_small_pieces_overflow_without_being_copied_again_and_again():
    class Counting(LineBuffer):
        joins = 0

        def _join(self) -> bytes:
            self.joins += 1
            return super()._join()

    buffer = Counting()
    for _ in range(17 * 1024):
        assert buffer.feed(b"x" * 1024) == []
    assert buffer.has_overflowed
    assert buffer.joins == 0


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b' {"a":1}\r', {"a": 1}),
        (b"{}", {}),
        (b"[1]", None),
        (b"5", None),
        (b'"text"', None),
        (b"null", None),
        (b"", None),
        (b"Welcome!", None),
        (b"\x1b[2J", None),
        (b"{broken", None),
        (b'{"a": NaN}', None),
        (b'{"a": 1e999}', None),
        (b'{"a": ' + b"[" * 100_000, None),
        (b'{"a": ' + b"[" * 1200 + b"]" * 1200 + b"}", None),
        (b'{"a": "\xff"}', {"a": "\ufffd"}),
        (b'{"a": "x\\ud83d"}', {"a": "x\ufffd"}),
        (b'{"a": "\\ud83d\\ude00", "b": "\\ude00"}', {"a": "😀", "b": "\ufffd"}),
        (b"\xff", None),
    ],
)
def test_line_is_an_object_or_noise(line, found):
    assert decode(line) == found


@given(st.binary(max_size=60))
def test_no_line_makes_decoding_fail(line):
    assert decode(line) is None or isinstance(decode(line), dict)


MISSING = object()


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        ({"method": "m", "params": {"a": 1}}, Notification("m", {"a": 1})),
        ({"method": "m"}, Notification("m", {})),
        ({"method": "m", "params": [1]}, Notification("m", {})),
        ({"method": 5}, Notification("", {})),
        ({"method": "m", "id": "x", "params": {}}, Request("x", "m", {})),
        ({"method": "m", "id": None}, Request(None, "m", {})),
        ({"method": "m", "id": 1}, Request(1, "m", {})),
        ({"method": "m", "id": 1, "result": {}}, Request(1, "m", {})),
        ({"id": 1, "result": {"a": 1}}, Result(1, {"a": 1})),
        ({"id": 1, "result": None}, Result(1, None)),
        ({"id": 1, "error": {"code": -1, "message": "no"}}, Failure(1, -1, "no")),
        ({"id": 1, "error": {"code": -1, "message": 5}}, Failure(1, -1, "")),
        ({"id": 1, "error": {"code": -1}}, Failure(1, -1, "")),
        ({"id": 1, "error": {"code": "x"}}, Failure(1, None, "the error of the answer has no code")),
        ({"id": 1, "error": {"code": True}}, Failure(1, None, "the error of the answer has no code")),
        ({"id": 1, "error": None}, Failure(1, None, "the error of the answer has no code")),
        ({"id": 1}, Failure(1, None, "the answer has neither of result and error")),
        ({"id": 1, "result": 1, "error": {}}, Failure(1, None, "the answer has both of result and error")),
        ({"id": "1", "result": {}}, Dropped("unknown_id")),
        ({"id": True, "result": {}}, Dropped("unknown_id")),
        ({"id": 1.0, "result": {}}, Dropped("unknown_id")),
        ({"id": 2, "result": {}}, Dropped("unknown_id")),
        ({"id": None, "error": {"code": -32700}}, Dropped("unknown_id")),
        ({"id": [1], "result": {}}, Dropped("unknown_id")),
        ({"result": {}}, Dropped("no_method")),
        ({}, Dropped("no_method")),
    ],
)
def test_frame_is_classified(frame, found):
    for version in ({}, {"jsonrpc": "2.0"}, {"jsonrpc": "1.0"}):
        assert classify({**version, **frame}, {1: "pending"}) == found
        assert type(classify({**version, **frame}, {1: "pending"})) is type(found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("method", "id", "params", "result", "error"), JSON)))
def test_every_frame_is_classified_and_only_a_pending_number_is_an_answer(frame):
    found = classify(frame, {1, 2})
    if isinstance(found, Result | Failure):
        assert type(frame["id"]) is int
        assert frame["id"] in (1, 2)
        assert "method" not in frame
    if isinstance(found, Request):
        assert json.dumps(found.id) == json.dumps(frame["id"])


@pytest.mark.parametrize(
    ("code", "kind"),
    [(-32601, "method_not_found"), (-32000, "auth_required"), (7, "unknown"), (None, "protocol_error")],
)
def test_error_code_has_a_word(code, kind):
    assert error_kind(code) == kind
