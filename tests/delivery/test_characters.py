"""delivery.md 2.1.1 and 3.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.delivery.characters import fit, is_blank, join_halves, measure, trim
from openab_kernel.facts.outbound import LengthUnit


@pytest.mark.parametrize("text", ["", " \t\r\n", "\u200b", "\ufeff", "\xa0\u3000\u2028", "\x00\x1b", "\u200b \u2060"])
def test_text_that_shows_nothing_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", [".", " \u200bx", "\u0301", "\ud800"])
def test_text_that_shows_something_is_not_blank(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(
    ("text", "delivered"),
    [
        ("\n \t\n\u200b\r\n    if x:\n\n  y \n\n", "    if x:\n\n  y"),
        ("x", "x"),
        ("  x\u200b", "  x\u200b"),
        ("\ufeff", ""),
        ("", ""),
    ],
)
def test_blank_lines_before_and_white_space_after_are_not_delivered(text: str, delivered: str) -> None:
    assert trim(text) == delivered


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("a\U0001f600漢", "a\U0001f600漢"),
        ("\ud83d\ude00", "\U0001f600"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00a", "\ufffda"),
        ("\ud83d\ud83d\ude00\ude00", "\ufffd\U0001f600\ufffd"),
        ("\ud83d😀", "\ufffd😀"),
    ],
)
def test_halves_that_meet_are_joined_and_lone_ones_replaced(text: str, joined: str) -> None:
    assert join_halves(text) == joined


@pytest.mark.parametrize(
    ("text", "code_points", "utf16", "bytes_"),
    [("abc", 3, 3, 3), ("é漢\U0001f600", 3, 4, 9), ("\ud800", 1, 1, 3), ("", 0, 0, 0)],
)
def test_each_unit_counts_in_its_own_way(text: str, code_points: int, utf16: int, bytes_: int) -> None:
    assert measure(text, "code_points") == code_points
    assert measure(text, "utf16") == utf16
    assert measure(text, "bytes") == bytes_


@given(
    text=st.text("aé漢\U0001f600\ud800", max_size=30),
    start=st.integers(0, 30),
    room=st.integers(0, 60),
    unit=st.sampled_from(["code_points", "utf16", "bytes"]),
)
def test_as_much_fits_as_the_room_allows(text: str, start: int, room: int, unit: LengthUnit) -> None:
    start = min(start, len(text))
    end = fit(text, start, room, unit)
    assert start <= end <= len(text)
    assert measure(text[start:end], unit) <= room
    assert end == len(text) or measure(text[start : end + 1], unit) > room
