"""The splitter's quick reading of tables agrees with the parser that converts them (delivery.md 7.2)."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openab_kernel.delivery.blocks import scan
from openab_kernel.delivery.tables import convert_tables
from openab_kernel.facts.outbound import TextLimit


@settings(max_examples=500)
@given(header=st.text("ab|:\\ ", min_size=1, max_size=8), delimiters=st.text("|:- ", max_size=8))
def test_a_table_is_what_the_parser_calls_one(header: str, delimiters: str) -> None:
    # Further in than that it is code to the parser; here any indentation may be that of a list item.
    assume(header.strip() and not header.startswith(" " * 4) and not delimiters.startswith(" " * 4))
    text = f"{header}\n{delimiters}\n"
    found = any(line.frame.header for line in scan(text, TextLimit(size=2000)))
    assert found == (convert_tables(text, "code") != text)
