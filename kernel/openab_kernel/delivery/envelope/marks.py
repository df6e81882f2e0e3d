"""Quotation marks and white space as agents write them; each constant stands inside [] in a pattern too."""

from __future__ import annotations

DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f"
SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
QUOTES = f"\"'{DOUBLE_QUOTES}{SINGLE_QUOTES}"

# Marks that no reader knows, but that show what was meant: backtick, acute accent, full width.
STRAY_QUOTES = "`\u00b4\uff02\uff07"
HTML_QUOTE = "&(?:quot|apos|#34|#39|#x22|#x27);"

# White space, and what shows as little: what is stripped around a cut.
SPACE = " \t\r\n\v\f\xa0\u2028\u2029\u3000\u200b\ufeff"

# White space between tokens, and what stands before each line of a quote in Markdown.
GAP = r"[\s\ufeff\u200b>]*+"


def lstrip(text: str) -> str:
    """`text` without white space at its start. The general method goes first: it is the fast one."""
    return text.lstrip().lstrip(SPACE)


def rstrip(text: str) -> str:
    """`text` without white space at its end."""
    return text.rstrip().rstrip(SPACE)
