"""The adversarial table, put to the search alone."""

import pytest

from openab_kernel.delivery.directives import take_header
from openab_kernel.delivery.envelope import EnvelopeRules, Findings, find_envelopes, leaks
from openab_kernel.delivery.text import TurnText
from tests.delivery.envelope.table import ROWS, Bubbles, Expectation, Nothing, Prose, Rest, Row, Update


def feed(chunks: tuple[str | Update, ...]) -> TurnText:
    text = TurnText()
    for chunk in chunks:
        if isinstance(chunk, str):
            text.feed(chunk)
        elif chunk is Update.TOOL_CALL:
            text.begin_answer()
    return text


def find(text: TurnText, *, repair: bool = False) -> Findings:
    header = take_header(text.buffer, text.answer)
    return find_envelopes(header.buffer, header.answer, EnvelopeRules(repair=repair))


def see(found: Findings) -> Expectation:
    """What a person sees of it; here, unlike in the kernel, no row has two envelopes that differ in `next` alone."""
    if found.is_silent:
        return Nothing()
    if found.envelopes:
        plans = dict.fromkeys(tuple(bubble.text for bubble in envelope.bubbles) for envelope in found.envelopes)
        return Bubbles(tuple(text for plan in plans for text in plan))
    return Rest(found.rest) if found.rejections else Prose(found.rest)


def kind(found: Findings) -> str | None:
    if found.rejections:
        return found.rejections[0].kind
    return None if found.is_structured else "not_structured"


rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)


@rows
@pytest.mark.parametrize("repair", [False, True], ids=["as-is", "repair"])
def test_each_row_gives_what_the_table_says(row: Row, repair: bool) -> None:
    """delivery 12.9"""
    header = f"{row.header}\n" if row.header else ""
    found = find(feed((header, *row.chunks)), repair=repair)
    assert see(found) == row.expected(repair=repair)
    assert kind(found) == row.expected_kind(repair=repair)
    assert not leaks(found.rest)


@rows
def test_no_row_depends_on_where_it_is_cut_into_chunks(row: Row) -> None:
    """delivery 12.9: A52, inside a character too."""
    units = row.body.encode("utf-16-le")
    step = len(units) // 40 if row.is_long else 2
    whole = feed((row.body,)).buffer
    for at in range(2, len(units), step - step % 2):
        halves = [part.decode("utf-16-le", "surrogatepass") for part in (units[:at], units[at:])]
        assert feed(tuple(halves)).buffer == whole
