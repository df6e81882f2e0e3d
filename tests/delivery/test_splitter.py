"""delivery.md 7.2, outbound.md 8.3; acceptance rows delivery.md 12.31 and outbound.md 17.13; cases D-01, D-02."""

import re
from itertools import pairwise

import pytest
import regex  # type: ignore[import-untyped]  # it ships no types
from hypothesis import given, settings
from hypothesis import strategies as st

from openab_kernel.delivery.characters import is_blank
from openab_kernel.delivery.splitter import measure, split
from openab_kernel.facts.outbound import LengthUnit, TextLimit

UNITS: list[LengthUnit] = ["code_points", "utf16", "bytes"]
SIZES = [16, 200, 2000, 5000]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"

ROW = "row_{:03} = compute(1)"
D_01 = "Here it is:\n```py\n" + "\n".join(map(ROW.format, range(300))) + "\n```\nDone."


def chars(size: int) -> TextLimit:
    return TextLimit(size=size)


# --- a second reading of fences, not the splitter's own ---

LINE_END = re.compile(r"\r\n?|\n")
FENCE_LINE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def open_fence(text: str) -> str | None:
    """The opener line of the fence that is open at the end of `text`."""
    opener = mark = None
    for line in LINE_END.split(text):
        if not (found := FENCE_LINE.fullmatch(line)):
            continue
        if opener is None and (found[1][0] == "~" or "`" not in found[2]):
            opener, mark = line, found[1]
        elif mark and found[1].startswith(mark) and not found[2].strip(" \t"):
            opener = mark = None
    return opener


def find_bodies(text: str, chunks: list[str]) -> list[tuple[int, int]]:
    """Where the text of each chunk stands in `text`. Fails unless all that is left out is blank."""
    places, at, carried = [], 0, None
    for chunk in chunks:
        head = ""
        if carried is not None:
            head, _, _ = chunk.partition("\n")
            assert head in (carried, bare(carried))
            head += "\n"
        assert chunk.startswith(head)
        body = chunk[len(head) :]
        start = find(text, body, at)
        carried = None
        is_marked = FENCE_LINE.fullmatch(LINE_END.split(body)[-1])
        if start is None or (is_marked and text[start + len(body) :][:1] not in ("", "\r", "\n")):
            body, _, closer = body.rpartition("\n")
            carried = open_fence(head + body)
            assert carried is not None
            assert closer == bare(carried)
            start = find(text, body, at)
        assert start is not None, (chunk, text[at : at + 50])
        places.append((start, start + len(body)))
        at = start + len(body)
    assert is_blank(text[at:])
    return places


def bare(opener: str) -> str:
    found = FENCE_LINE.fullmatch(opener)
    assert found
    return opener[: found.end(1)]


def find(text: str, body: str, at: int) -> int | None:
    """Where `body` goes on from `at`: there, or after line ends, blank lines, or a message full of blanks."""
    while not text.startswith(body, at):
        if at == len(text) or not is_blank(text[at]):
            return None
        at += 1
    return at


def assert_sound(text: str, limit: TextLimit) -> list[str]:
    chunks = split(text, limit)
    assert all(measure(chunk, limit.unit) <= limit.size for chunk in chunks)
    assert not any(is_blank(chunk) for chunk in chunks)
    if len(chunks) > 1:
        assert [open_fence(chunk) for chunk in chunks] == [None] * len(chunks)
    find_bodies(text, chunks)
    return chunks


# --- examples ---


def test_text_that_fits_stays_as_it_is() -> None:
    text = "\n\n```py\nx\n\n"
    assert split(text, chars(16)) == [text]


@pytest.mark.parametrize("text", ["", " ", "\n \t\r\n", "\u200b\ufeff", "\n" * 5000, "\u200b" * 5000])
def test_blank_text_gives_no_chunks(text: str) -> None:
    assert split(text, chars(16)) == []


def test_limit_that_holds_no_fence_is_refused() -> None:
    with pytest.raises(ValueError, match="text limit: 9 utf16; use 10 or more"):
        split("x", TextLimit(size=9, unit="utf16"))


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        pytest.param("aaaa\n\nbbbb\ncccc\ndddd", ["aaaa", "bbbb\ncccc\ndddd"], id="blank line before line end"),
        pytest.param("aaaa\n \t\n\nbbbbbbbbbbbb", ["aaaa", "bbbbbbbbbbbb"], id="blank lines at a cut go"),
        pytest.param("aaaa\n\nb\n\ncccccccc", ["aaaa\n\nb", "cccccccc"], id="the last blank line that fits"),
        pytest.param("x" * 16 + "\n\n" + "y" * 16, ["x" * 16, "y" * 16], id="full to the brim"),
        pytest.param("aaaaaa\n  bbbbbb\ncc", ["aaaaaa\n  bbbbbb", "cc"], id="line end"),
        pytest.param("aaaaaaaaaa\n    bbbb", ["aaaaaaaaaa", "    bbbb"], id="indentation stays"),
        pytest.param("aaaaaa\r\nbbbbbb\r\ncc", ["aaaaaa\r\nbbbbbb", "cc"], id="CRLF"),
        pytest.param("aaaaaaaa\rbbbbbbbb", ["aaaaaaaa", "bbbbbbbb"], id="lone CR"),
        pytest.param("one two three four", ["one two three ", "four"], id="white space in a long line"),
        pytest.param("one\xa0two\xa0three four five", ["one\xa0two\xa0three ", "four five"], id="no-break space"),
        pytest.param("a" * 20 + " b", ["a" * 16, "aaaa b"], id="long word"),
        pytest.param("a" * 16 + " b c", ["a" * 16, " b c"], id="space that does not fit"),
        pytest.param("\n\naaaaaaaa\nbbbbbbbb\n\n", ["aaaaaaaa", "bbbbbbbb"], id="outer blank lines"),
        pytest.param("aaaa" + " " * 40 + "b", ["aaaa" + " " * 12, " " * 12 + "b"], id="no message of spaces"),
        pytest.param("aaaa bbbb ```cccc``` d", ["aaaa ", "bbbb ```cccc``` ", "d"], id="no fence made at a cut"),
        pytest.param("e\u0301" * 9, ["e\u0301" * 8, "e\u0301"], id="combining marks"),
        pytest.param("aaaaaaaa \u0301bbbbbbbb", ["aaaaaaaa \u0301bbbbbb", "bb"], id="mark on a space"),
        pytest.param("x" + "\u0301" * 20, ["x" + "\u0301" * 15, "\u0301" * 5], id="grapheme over the limit"),
        pytest.param("a" * 14 + FAMILY, ["a" * 14, FAMILY], id="ZWJ sequence"),
        pytest.param("aaaaaaaaaaaaaaa\ud800\ud800", ["aaaaaaaaaaaaaaa\ud800", "\ud800"], id="lone surrogates"),
    ],
)
def test_cut_falls_where_it_hurts_least(text: str, chunks: list[str]) -> None:
    assert split(text, chars(16)) == chunks


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        pytest.param(
            "```py\naaaa\nbbbb\ncccc\n```",
            ["```py\naaaa\nbbbb\n```", "```py\ncccc\n```"],
            id="closed and opened again",
        ),
        pytest.param(
            "hello world\n```py\naaaa\n```",
            ["hello world", "```py\naaaa\n```"],
            id="opener goes with the line after it",
        ),
        pytest.param(
            "```\naaaa\n\nbbbb\ncccc\ndddd\n```",
            ["```\naaaa\n\n```", "```\nbbbb\ncccc\n```", "```\ndddd\n```"],
            id="blank line in a fence, kept",
        ),
        pytest.param(
            "aaaaaa\n\n```\nbbb\n\nccc\n```\nd",
            ["aaaaaa", "```\nbbb\n\nccc\n```\nd"],
            id="blank line before one in a fence",
        ),
        pytest.param(
            "```\n" + "\n" * 30 + "x\n```",
            ["```" + "\n" * 14 + "```", "```\n\n\n\n\nx\n```"],
            id="no message of blank code but the first",
        ),
        pytest.param(
            "~~~~ js\naaaaaa\n```\nbbb\n~~~\nc\n~~~~",
            ["~~~~ js\naaaaaa\n~~~~", "~~~~ js\n```\nbbb\n~~~~", "~~~~ js\n~~~\nc\n~~~~"],
            id="only a run as long of the same kind closes",
        ),
        pytest.param(
            "  ```py\n  aaaa\n  bb\n  ```",
            ["  ```py\n  aaaa\n  ```", "  ```py\n  bb\n  ```"],
            id="indented",
        ),
        pytest.param(
            "- ```\n  aaa\n  bbb\n  ```\nc",
            ["- ```\n  aaa\n  ```", "  ```\n  bbb\n  ```\nc"],
            id="in a list, without a second bullet",
        ),
        pytest.param(
            "> ```\n> aa\n```\n> bb\n> ```",
            ["> ```\n> aa\n```\n> ```", "> ```\n> bb\n> ```"],
            id="in a quote, closed in the quote alone",
        ),
        pytest.param(
            "```\na\n    ```\nbbbb\n```",
            ["```\na\n    ```\n```", "```\nbbbb\n```"],
            id="a run far to the right closes nothing",
        ),
        pytest.param("```a`b\n" + "word " * 4, ["```a`b", "word word word word "], id="a backtick in the info string"),
        pytest.param("```\n" + "a b " * 5, ["```\na b a b a b \n```", "```\na b a b \n```"], id="unclosed"),
        pytest.param(
            "```js\n" + "ab c" * 3 + "\n```", ["```js\nab cab cab\n```", "```js\n c\n```"], id="no white space"
        ),
        pytest.param(
            "aaaa\nbbbb\ncccc\ndddd\n```", ["aaaa\nbbbb\ncccc\ndddd", "```\n```"], id="stray opener at the end"
        ),
        pytest.param(
            "```\n" + "a" * 12 + "\n```   \nb",
            ["```\naaaaaaaaaaaa\n```", "```\n```   \nb"],
            id="an end longer than ours",
        ),
    ],
)
def test_fence_that_is_cut_is_whole_in_every_chunk(text: str, chunks: list[str]) -> None:
    assert split(text, chars(20)) == chunks


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        pytest.param(
            "```a-long-name\nxx\nyyyyyyy\n```",
            ["```a-long-na\n```", "```\nme\nxx\n```", "```\nyyyyyyy\n```"],
            id="an info string too long to repeat",
        ),
        pytest.param("`" * 9 + "\nx\n" + "`" * 9, ["`" * 9 + "\nx", "`" * 9], id="marks too long to repeat"),
    ],
)
def test_fence_marks_that_leave_no_room_are_not_repeated(text: str, chunks: list[str]) -> None:
    assert split(text, chars(16)) == chunks


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        pytest.param(
            "| a |\n|---|\n| 1 |\n| 2 |\n| 3 |",
            ["| a |\n|---|\n| 1 |\n| 2 |", "| a |\n|---|\n| 3 |"],
            id="header repeated",
        ),
        pytest.param(
            "some text\n\n| a |\n|---|\n| 1 |",
            ["some text", "| a |\n|---|\n| 1 |"],
            id="header, delimiter and first row go together",
        ),
        pytest.param(
            "| a |\n|---|\n| 1 |\n| 2 |\nthe end\nor not",
            ["| a |\n|---|\n| 1 |\n| 2 |", "the end\nor not"],
            id="a line without a bar ends it",
        ),
        pytest.param(
            "| a |\n|---|\n| 1 |\n| 2 |\n\n| x |",
            ["| a |\n|---|\n| 1 |\n| 2 |", "| x |"],
            id="a blank line ends it",
        ),
        pytest.param(
            "| a |\n|---|\n| 1 |\n| 22222222222222222 |\n| 3 |",
            ["| a |\n|---|\n| 1 |", "| 22222222222222222 |", "| a |\n|---|\n| 3 |"],
            id="row too long for the header",
        ),
        pytest.param(
            "| a |\n|---|\n| 11111111111111111 2222 |\n| 3 |",
            ["| a |\n|---|", "| 11111111111111111 ", "2222 |\n| 3 |"],
            id="row too long for a message",
        ),
        pytest.param(
            "| aaaaaaaa |\n|---|\n| 1 |\n| 2 |\n| 3 |",
            ["| aaaaaaaa |\n|---|\n| 1 |", "| 2 |\n| 3 |"],
            id="header too long to repeat",
        ),
        pytest.param(
            "a | b\\|c\n--|:-:\n1 | 2\n3 | 4\n5 | 6",
            ["a | b\\|c\n--|:-:\n1 | 2", "a | b\\|c\n--|:-:\n3 | 4", "a | b\\|c\n--|:-:\n5 | 6"],
            id="without outer bars",
        ),
        pytest.param(
            "a | b\n---\n1 | 2\n3 | 4\n5 | 6\n7 | 8",
            ["a | b\n---\n1 | 2\n3 | 4", "5 | 6\n7 | 8"],
            id="a heading is no table",
        ),
        pytest.param(
            "---\nab\n---\nb | c\nd | e\nf | g\nh",
            ["---\nab\n---\nb | c\nd | e", "f | g\nh"],
            id="a rule is no table",
        ),
        pytest.param(
            "```\n| a |\n|---|\n| 1 |\n| 2 |\n```",
            ["```\n| a |\n|---|\n| 1 |\n```", "```\n| a |\n|---|\n| 2 |\n```"],
            id="a converted table",
        ),
        pytest.param(
            "```\n| a |\n|---|\n| 1 |\nb\n| 2 |\n```",
            ["```\n| a |\n|---|\n| 1 |\nb\n```", "```\n| 2 |\n```"],
            id="code after a table in a fence",
        ),
        pytest.param(
            "```md\n| a |\n|---|\n| 1 |\n| 2 |\n```",
            ["```md\n| a |\n|---|\n| 1 |\n```", "```md\n| 2 |\n```"],
            id="code of a table",
        ),
        pytest.param(
            "```\nx\n| a |\n|---|\n| 1 |\n| 2 |\n```",
            ["```\nx\n| a |\n|---|\n| 1 |\n```", "```\n| 2 |\n```"],
            id="code that holds a table",
        ),
    ],
)
def test_table_is_cut_between_rows_and_repeats_its_header(text: str, chunks: list[str]) -> None:
    limit = 27 if "```" in text else 24
    assert split(text, chars(limit)) == chunks


def test_a_long_code_block_is_balanced_and_complete() -> None:
    chunks = assert_sound(D_01, chars(2000))
    assert len(chunks) == 4
    assert all(chunk.startswith("```py\n") for chunk in chunks[1:])
    assert all(chunk.endswith("\n```") for chunk in chunks[:-1])
    bodies = [D_01[start:end] for start, end in find_bodies(D_01, chunks)]
    assert "\n".join(bodies) == D_01


def test_emoji_are_counted_in_the_unit_of_the_platform() -> None:
    chunks = split("\U0001f600" * 6000, TextLimit(size=5000, unit="utf16"))
    assert [len(chunk) for chunk in chunks] == [2500, 2500, 1000]
    assert "".join(chunks) == "\U0001f600" * 6000


@pytest.mark.parametrize(("unit", "chars_each"), [("code_points", 100), ("utf16", 50), ("bytes", 25)])
def test_every_unit_is_filled(unit: LengthUnit, chars_each: int) -> None:
    chunks = split("\U0001f600" * 200, TextLimit(size=100, unit=unit))
    assert [len(chunk) for chunk in chunks] == [chars_each] * (200 // chars_each)


# --- properties ---

WORDS = [
    "a",
    "word",
    "漢字",
    "e\u0301",
    FAMILY,
    "\U0001f1e9\U0001f1ea",
    "\ud800",
    "x" * 90,
    " ",
    "   ",
    "\t",
    "`b`",
    "|",
]
LINES = ["", "```", "```py", "~~~", "~~~~", " ```", "```a`b", "\u200b", "漢" * 30, "- ", "> "]
LINE_ENDS = ["\n", "\n", "\n\n", "\r\n", "\r", "\n \n"]

# No delimiter row: a repeated table header is not among what `find_bodies` takes out.
lines = st.one_of(st.sampled_from(LINES), st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
texts = st.lists(st.tuples(lines, st.sampled_from(LINE_ENDS)), max_size=40).map(
    lambda parts: "".join(line + end for line, end in parts)
)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("size", SIZES)
@settings(max_examples=25, deadline=None)
@given(text=texts, times=st.integers(1, 40))
def test_chunks_are_the_text(unit: LengthUnit, size: int, text: str, times: int) -> None:
    text *= times if size > 16 else 1
    assert_sound(text, TextLimit(size=size, unit=unit))


@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=100, deadline=None)
@given(text=texts, size=st.integers(10, 15))
def test_a_message_too_small_for_fences_still_takes_text_in_pieces_that_fit(
    unit: LengthUnit, size: int, text: str
) -> None:
    """delivery 12.4"""
    chunks = split(text, TextLimit(size=size, unit=unit))
    assert all(0 < measure(chunk, unit) <= size for chunk in chunks)
    assert not any(is_blank(chunk) for chunk in chunks)
    assert {char for char in text if not is_blank(char)} <= set("".join(chunks))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("size", [16, 200])
@settings(max_examples=100, deadline=None)
@given(text=st.text("ab \n\r\t`~|-:>*1.\\\u0301\u200d\U0001f600漢\ud800", max_size=400))
def test_any_text_fits_and_loses_nothing_that_shows(unit: LengthUnit, size: int, text: str) -> None:
    chunks = split(text, TextLimit(size=size, unit=unit))
    assert all(0 < measure(chunk, unit) <= size for chunk in chunks)
    assert not any(is_blank(chunk) for chunk in chunks)
    joined = iter("".join(chunks))
    assert all(char in joined for char in text if not is_blank(char))


@pytest.mark.parametrize("size", [16, 200])
@settings(max_examples=100, deadline=None)
@given(text=st.lists(st.sampled_from([*WORDS, "\u0301", "\u200d", "\U0001f3fd", "\r\n"]), max_size=200).map("".join))
def test_no_grapheme_is_cut_that_fits(size: int, text: str) -> None:
    graphemes = [match.span() for match in regex.finditer(r"\X", text)]
    cuts = {place for span in find_bodies(text, split(text, chars(size))) for place in span}
    assert not [(start, end) for start, end in graphemes if end - start <= size and cuts & {*range(start + 1, end)}]


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.text("abc 漢", max_size=30), min_size=1, max_size=40), fenced=st.booleans())
def test_every_chunk_of_a_table_is_a_table(rows: list[str], fenced: bool) -> None:
    header = "| head |\n| --- |\n"
    opener, closer = ("```\n", "\n```") if fenced else ("", "")
    table = [f"| {row} |" for row in rows]
    chunks = split(opener + header + "\n".join(table) + closer, chars(80))
    assert all(chunk.startswith(opener + header) and chunk.endswith(closer) for chunk in chunks)
    bodies = [chunk.removeprefix(opener + header).removesuffix(closer) for chunk in chunks]
    assert "\n".join(bodies).split("\n") == table


HOSTILE = {
    "backticks": "`",
    "tildes": "~",
    "fence lines": "```\n",
    "openers": "```py\n",
    "indents": " ",
    "quotes": ">",
    "bullets": "- ",
    "bars": "|",
    "delimiters": "|-",
    "delimiter rows": "|-\n",
    "dashes": "-",
    "colons": "|:-:",
    "digits": "1",
    "backslashes": "\\|",
    "marks": "\u0301",
    "joiners": "\u200d",
    "flags": "\U0001f1e9",
    "surrogates": "\ud800",
    "spaces before fences": "      ```",
    "spaces before marks": " \u0301",
    "lines": "a\n",
    "blank lines": "\n",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("around", ["{}", "x{}x", "```\n{}x\n```", "| a |\n|---|\n{}x"])
def test_hostile_text_is_cut(piece: str, around: str) -> None:
    text = around.format(piece * (20_000 // len(piece)))
    chunks = split(text, chars(200))
    assert all(0 < len(chunk) <= 200 for chunk in chunks)
    joined = iter("".join(chunks))
    assert all(char in joined for char in text if not is_blank(char))


class CountedText(str):
    """A text that counts how many characters of it were copied out."""

    __slots__ = ("copied",)
    copied: int

    def __getitem__(self, key: object) -> str:
        part = super().__getitem__(key)  # type: ignore[index]  # whatever `str` takes
        self.copied += len(part)
        return part


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_work_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    counts = []
    for size in (10_000, 40_000):
        text = CountedText("x" + piece * (size // len(piece)) + "x")
        text.copied = 0
        split(text, chars(200))
        counts.append(text.copied)
    assert all(larger <= 6 * smaller for smaller, larger in pairwise(counts))
