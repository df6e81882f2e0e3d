"""delivery.md 3.1 and 7; cases D-08 and E-03."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.delivery import text as text_mode
from openab_kernel.delivery.tables import TableStyle
from openab_kernel.delivery.text import TextPlan, TurnText, plan_text
from openab_kernel.facts.outbound import TextLimit

# A chunk of text, or None: a new tool call was announced.
Updates = list[str | None]


def turn(*updates: str | None) -> TurnText:
    text = TurnText()
    for update in updates:
        text.begin_answer() if update is None else text.feed(update)
    return text


def plan(
    *updates: str | None,
    narration: bool = False,
    tool_lines: str | None = None,
    size: int = 2000,
    tables: TableStyle = "code",
) -> TextPlan:
    limit = TextLimit(size=size)
    return plan_text(turn(*updates), narration=narration, tool_lines=tool_lines, limit=limit, tables=tables)


@pytest.mark.parametrize(
    ("updates", "buffer", "answer"),
    [
        pytest.param([], "", "", id="nothing"),
        pytest.param(["a", "b"], "ab", "ab", id="no tool call"),
        pytest.param(["a", None, "b", None, "c"], "abc", "c", id="after the last tool call"),
        pytest.param(["a", None], "a", "", id="nothing after it"),
        pytest.param(["x\ud83d", "\ude00y"], "x\U0001f600y", "x\U0001f600y", id="halves in two chunks"),
        pytest.param(["x\ud83d", None, "\ude00y"], "x\U0001f600y", "\U0001f600y", id="a tool call between halves"),
        pytest.param(["\ud83d", "", "\ude00"], "\U0001f600", "\U0001f600", id="an empty chunk between halves"),
        pytest.param(["\ud83d", "x\ud83d"], "\ufffdx\ufffd", "\ufffdx\ufffd", id="halves that stay alone"),
        pytest.param(["\ude00\ud83d", None], "\ufffd\ufffd", "\ufffd", id="a half at the end"),
    ],
)
def test_text_is_joined_and_the_answer_found(updates: Updates, buffer: str, answer: str) -> None:
    text = turn(*updates)
    assert (text.buffer, text.answer) == (buffer, answer)


def test_text_may_be_looked_at_while_it_grows() -> None:
    text = turn("a\ud83d")
    assert text.buffer == "a\ufffd"
    text.feed("\ude00b")
    assert text.buffer == text.answer == "a\U0001f600b"


@given(st.text("ab\U0001f600漢", max_size=20), st.data())
def test_chunks_may_end_anywhere_even_inside_a_character(whole: str, data: st.DataObject) -> None:
    halves = whole.encode("utf-16-le")
    units = [halves[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(halves), 2)]
    places = sorted(data.draw(st.lists(st.integers(0, len(units)), max_size=4)))
    chunks = ["".join(units[start:end]) for start, end in zip([0, *places], [*places, len(units)], strict=True)]
    assert turn(*chunks).buffer == whole


def test_a_flood_of_text_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_mode, "MAX_TEXT_BYTES", 10)
    text = turn("abc", "漢漢漢", "d", None, "e")
    assert (text.buffer, text.answer, text.dropped_chars) == ("abc漢漢", "", 3)


def test_five_mebibytes_are_kept() -> None:
    text = turn("x" * (5 * 2**20 - 1), "yz")
    assert len(text.buffer) == 5 * 2**20
    assert text.dropped_chars == 1


@pytest.mark.parametrize(
    ("updates", "narration", "parts"),
    [
        pytest.param(["let me look", None, "There are 4."], False, ("There are 4.",), id="narration left out"),
        pytest.param(["let me look. ", None, "4."], True, ("let me look. 4.",), id="narration kept"),
        pytest.param(["There are 4.", None], False, ("There are 4.",), id="no answer after the last call"),
        pytest.param(["There are 4.", None, " \n"], False, ("There are 4.",), id="blank answer"),
        pytest.param(["\n \n    if x:\n\ty  \n\n"], False, ("    if x:\n\ty",), id="outer white space"),
        pytest.param(["a\r\n\r\n\r\nb  \n*c*"], False, ("a\r\n\r\n\r\nb  \n*c*",), id="else byte for byte"),
        pytest.param(['{"schema":"openab.turn.v1"}'], False, ('{"schema":"openab.turn.v1"}',), id="never interpreted"),
    ],
)
def test_answer_is_delivered_as_written(updates: Updates, narration: bool, parts: tuple[str, ...]) -> None:
    assert plan(*updates, narration=narration).parts == parts


@pytest.mark.parametrize("updates", [[], ["\n \n"], ["\u200b\ufeff"], ["[[reply_to:1]]\n"], [None], [" ", None, "\n"]])
@pytest.mark.parametrize("tool_lines", [None, "✅ read"])
def test_nothing_to_say_gives_no_part(updates: Updates, tool_lines: str | None) -> None:
    planned = plan(*updates, tool_lines=tool_lines)
    assert (planned.parts, planned.is_empty, planned.chars) == ((), True, 0)


def test_table_without_a_word_gives_no_part() -> None:
    assert plan("| |\n|-|", tables="bullets").is_empty


@pytest.mark.parametrize(
    ("updates", "narration", "parts", "reply_to"),
    [
        (["[[reply_to:55]]\n", "prose"], False, ("prose",), "55"),
        (["[[reply_to:55]]\nlook", None, "prose"], False, ("prose",), "55"),
        (["look\n", None, "[[reply_to:55]]\nprose"], False, ("prose",), "55"),
        (["look\n", None, "[[reply_to:55]]\nprose"], True, ("look\nprose",), "55"),
        (["[[reply_to:5 5]] prose"], False, ("prose",), None),
        (["[[reply_to:55]]\nlook\n", None, "[[x:y]]\n"], False, ("look",), "55"),
    ],
)
def test_header_is_honoured_and_never_visible(
    updates: Updates, narration: bool, parts: tuple[str, ...], reply_to: str | None
) -> None:
    planned = plan(*updates, narration=narration)
    assert (planned.parts, planned.reply_to, planned.is_empty) == (parts, reply_to, False)


def test_what_the_header_asked_for_in_vain_is_told() -> None:
    planned = plan("[[delivery:openab.turn.v1]]\n[[mood:x]]\nhi")
    assert (planned.parts, planned.delivery, planned.unknown_directives) == (("hi",), "openab.turn.v1", 1)


def test_tool_lines_stand_above_the_answer() -> None:
    planned = plan("look", None, "There are 4 left.", tool_lines="✅ stock lookup")
    assert planned.parts == ("✅ stock lookup\n\nThere are 4 left.",)
    assert planned.chars == len("There are 4 left.")


def test_tables_are_converted_before_the_text_is_cut() -> None:
    planned = plan("| a |\n|---|\n| 1 |\n| 2 |\n", size=38)
    assert planned.parts == (
        "```\n| a   |\n| --- |\n| 1   |\n```",
        "```\n| a   |\n| --- |\n| 2   |\n```",
    )
    assert planned.chars == 23


def test_tool_lines_are_no_table() -> None:
    planned = plan("hi", tool_lines="🔧 a | b\n🔧 -|-")
    assert planned.parts == ("🔧 a | b\n🔧 -|-\n\nhi",)
