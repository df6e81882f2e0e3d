"""delivery.md 7.3; acceptance row 32."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.delivery.directives import Header, take_header


@pytest.mark.parametrize(
    ("text", "reply_to", "delivery", "unknown", "content"),
    [
        pytest.param("hi", None, None, 0, "hi", id="no header"),
        pytest.param("[[reply_to:55]]\nhi", "55", None, 0, "hi", id="reply_to"),
        pytest.param("[[delivery:openab.turn.v1]]\nhi", None, "openab.turn.v1", 0, "hi", id="delivery"),
        pytest.param("[[reply_to:1]]\n[[delivery:x]]\r\n[[mood:good]]\nhi", "1", "x", 1, "hi", id="lines of a header"),
        pytest.param("[[reply_to:1]]\n[[reply_to:2]]\nhi", "2", None, 0, "hi", id="the last wins"),
        pytest.param("[[reply_to:1]]\n[[reply_to:a b]]\nhi", "1", None, 0, "hi", id="the last valid wins"),
        pytest.param("[[reply_to:]]\nhi", None, None, 0, "hi", id="empty value"),
        pytest.param("[[reply_to:" + "a" * 64 + "]]\nhi", "a" * 64, None, 0, "hi", id="64 characters"),
        pytest.param("[[reply_to:" + "a" * 65 + "]]\nhi", None, None, 0, "hi", id="65 characters"),
        pytest.param("[[reply_to:\N{FULLWIDTH DIGIT ONE}]]\nhi", None, None, 0, "hi", id="not ASCII"),
        pytest.param("[[reply_to:A.b-c_9]]\nhi", "A.b-c_9", None, 0, "hi", id="all kinds of characters"),
        pytest.param("[[ reply_to : 5 ]]\nhi", "5", None, 0, "hi", id="spaces inside"),
        pytest.param("[[reply_to:1]] hi\n[[reply_to:2]]\n", "1", None, 0, "hi\n[[reply_to:2]]\n", id="text after it"),
        pytest.param("[[reply_to:1]] [[x:y]] hi", "1", None, 0, "[[x:y]] hi", id="a directive after it is text"),
        pytest.param("[[reply_to:1]]  \nhi", "1", None, 0, "hi", id="spaces after it"),
        pytest.param("[[reply_to:1]]\n    hi", "1", None, 0, "    hi", id="indentation of the content stays"),
        pytest.param("[[reply_to:1]]\n\n[[x:y]]\n", "1", None, 0, "\n[[x:y]]\n", id="a blank line ends it"),
        pytest.param("[[reply_to]]\nhi", None, None, 0, "[[reply_to]]\nhi", id="no colon"),
        pytest.param("[[reply_to:1\n]]hi", None, None, 0, "[[reply_to:1\n]]hi", id="no end on the line"),
        pytest.param("[[page]] see: [[x:y]]", None, None, 0, "[[page]] see: [[x:y]]", id="colon elsewhere"),
        pytest.param("[reply_to:1]\nhi", None, None, 0, "[reply_to:1]\nhi", id="one bracket"),
        pytest.param("hi\n[[reply_to:1]]", None, None, 0, "hi\n[[reply_to:1]]", id="not at the head"),
        pytest.param("\n \n\ufeff [[reply_to:1]]\nhi", "1", None, 0, "hi", id="after what does not show"),
        pytest.param("\n\nhi", None, None, 0, "\n\nhi", id="blank lines without a header stay"),
        pytest.param("    [[x:y]]", None, None, 0, "    [[x:y]]", id="code"),
        pytest.param("[[x:a]b:c]]\nhi", None, None, 1, "hi", id="bracket in a value"),
        pytest.param("[[reply_to:1]]", "1", None, 0, "", id="nothing but a header"),
        pytest.param("", None, None, 0, "", id="nothing"),
    ],
)
def test_header_is_read_and_cut(
    text: str, reply_to: str | None, delivery: str | None, unknown: int, content: str
) -> None:
    assert take_header(text, text) == Header(reply_to, delivery, unknown, content, content)


@pytest.mark.parametrize(
    ("narration", "answer", "reply_to", "buffer_left", "answer_left"),
    [
        pytest.param("[[reply_to:1]]\nlook\n", "hi", "1", "look\nhi", "hi", id="above the narration"),
        pytest.param("look\n", "[[reply_to:2]]\nhi", "2", "look\nhi", "hi", id="above the answer"),
        pytest.param(
            "[[reply_to:1]]\nlook\n", "[[reply_to:2]]\nhi", "1", "look\nhi", "hi", id="above both: the first speaks"
        ),
        pytest.param("[[x:1]]\nlook\n", "[[reply_to:2]]\nhi", None, "look\nhi", "hi", id="the first is unknown"),
        pytest.param("[[reply_to:1]]\n", "[[reply_to:2]]\nhi", "2", "hi", "hi", id="one header in two pieces"),
        pytest.param("[[reply", "_to:1]]\nhi", "1", "hi", "hi", id="a directive in two pieces"),
        pytest.param("[[reply_to:1]]", "\nhi", "1", "hi", "hi", id="the line end with the answer"),
        pytest.param("[[reply_to:1]]\n", "", "1", "", "", id="no answer"),
        pytest.param("\n", "[[reply_to:2]]\nhi", "2", "hi", "hi", id="blank narration"),
    ],
)
def test_header_stands_above_the_turn_or_above_the_answer(
    narration: str, answer: str, reply_to: str | None, buffer_left: str, answer_left: str
) -> None:
    header = take_header(narration + answer, answer)
    assert (header.reply_to, header.buffer, header.answer) == (reply_to, buffer_left, answer_left)


PIECES = ["[[reply_to:1]]", "[[x:y]]", "[[", "]]", ":", "\n", "\r\n", " ", "hi", "\ufeff", "a\u0301"]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.integers(0, 12))
def test_what_is_left_is_the_end_of_what_came(pieces: list[str], mark: int) -> None:
    buffer, answer = "".join(pieces), "".join(pieces[mark:])
    header = take_header(buffer, answer)
    assert answer.endswith(header.answer)
    assert header.buffer.endswith(header.answer)
    if not re.search(r"\]\]\s*\[\[", buffer.replace("\n", "|")):  # what follows a directive on its line is content
        assert not header.answer.startswith("[[reply_to:1]]\n")
