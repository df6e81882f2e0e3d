"""delivery.md 7.2, `[markdown] tables`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.delivery.tables import MAX_PARSED_CHARS, TableStyle, convert_tables

TABLE = "| Name | n |\n|:--|--:|\n| `a|b` | 1 |\n| 漢字x | |\n"


def lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(
            "| Name | n |\n|:--|--:|\n| `ab` | 1 |\n| 漢字x | |\n",
            lines(
                "```",
                "| Name  | n   |",
                "| ----- | --- |",
                "| ab    | 1   |",
                "| 漢字x |     |",
                "```",
            ),
            id="padded by display width, at least 3, without backticks",
        ),
        pytest.param("a|b\n-|-", "```\n| a   | b   |\n| --- | --- |\n```", id="header alone, no line end"),
        pytest.param(
            "x\r\na|b\r\n-|-\r\nc\r\n\r\ny",
            "x\r\n```\n| a   | b   |\n| --- | --- |\n| c   |     |\n```\r\n\r\ny",
            id="CRLF; missing cell",
        ),
        pytest.param(
            "|a\\|b|\n|-|\n|\U0001f468\u200d\U0001f469\u200d\U0001f467|",
            "```\n| a|b |\n| --- |\n| \U0001f468\u200d\U0001f469\u200d\U0001f467  |\n```",
            id="escaped bar; ZWJ sequence",
        ),
        pytest.param("|a\x1b|\n|-|", "```\n| a\x1b   |\n| --- |\n```", id="control character"),
        pytest.param(
            "- x\n\n  | a |\n  |---|\n  | b |\n- y",
            "- x\n\n  ```\n  | a   |\n  | --- |\n  | b   |\n  ```\n- y",
            id="in a list item",
        ),
        pytest.param(
            "1. | a |\n   |---|\n\ny",
            "1. ```\n   | a   |\n   | --- |\n   ```\n\ny",
            id="at the head of a list item",
        ),
        pytest.param("> | a |\n> |---|\n> | b |\n", "> ```\n> | a   |\n> | --- |\n> | b   |\n> ```\n", id="in a quote"),
        pytest.param(
            "|a|\n|-|\n\nmid | dle\n\n|b|\n|-|",
            "```\n| a   |\n| --- |\n```\n\nmid | dle\n\n```\n| b   |\n| --- |\n```",
            id="two",
        ),
    ],
)
def test_table_becomes_a_block_of_code(text: str, code: str) -> None:
    assert convert_tables(text, "code") == code


@pytest.mark.parametrize(
    ("text", "bullets"),
    [
        pytest.param(
            "x\n\n| Name | n |\n|--|--|\n| `a` | 1 |\n| b | 2 |\n\ny",
            "x\n\n• Name: `a`\n• n: 1\n\n• Name: b\n• n: 2\n\ny",
            id="a line a cell, a blank line between rows",
        ),
        pytest.param("| | n |\n|--|--|\n| a | |\n| | |\n| b |\n", "• a\n\n• b\n", id="empty cells and headers"),
        pytest.param("| a | b |\n|--|--|\n", "• a\n• b\n", id="header alone"),
        pytest.param("> | a |\n> |---|\n> | b |\n> | c |\n", "> • a: b\n> \n> • a: c\n", id="in a quote"),
    ],
)
def test_table_becomes_bullets(text: str, bullets: str) -> None:
    assert convert_tables(text, "bullets") == bullets


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("no bar, --- no table", id="no bar"),
        pytest.param("```\n|a|\n|-|\n|b|\n```\n", id="in a fence"),
        pytest.param("~~~~md\n|a|\n|-|\n~~~\n|b|\n", id="in an unclosed fence"),
        pytest.param("    |a|\n    |-|\n", id="in indented code"),
        pytest.param("|a|b|\n|-|\n", id="delimiters of another number"),
        pytest.param("a | b\n\n---|---\n", id="apart"),
        pytest.param("`a | b`\n- | -\n", id="a list"),
    ],
)
@pytest.mark.parametrize("style", ["code", "bullets"])
def test_what_the_parser_calls_no_table_stays(text: str, style: TableStyle) -> None:
    assert convert_tables(text, style) == text


def test_off_leaves_tables_as_they_are() -> None:
    assert convert_tables(TABLE, "off") == TABLE


def test_text_that_would_take_long_to_parse_is_left_alone() -> None:
    text = TABLE + "x" * MAX_PARSED_CHARS
    assert convert_tables(text, "code") == text


@given(
    before=st.text("ab \n\r`~>-*#", max_size=40),
    after=st.text("ab \n\r`~>-*#|", max_size=40),
)
def test_what_is_around_a_table_stays_byte_for_byte(before: str, after: str) -> None:
    text = f"{before}\n\n[x]: y\n\n| a |\n|---|\n| b |\n\n{after}"
    converted = convert_tables(text, "bullets")
    assert converted == text or converted.startswith(f"{before}\n\n[x]: y\n\n")
    assert converted.endswith(after) or "|" in after


@given(text=st.text("ab|-: \n\r`>~*1.\\\u200b\x00\ud800漢\t", max_size=80), style=st.sampled_from(["code", "bullets"]))
def test_any_text_is_taken(text: str, style: TableStyle) -> None:
    converted = convert_tables(text, style)
    assert converted == text or "|" in text
