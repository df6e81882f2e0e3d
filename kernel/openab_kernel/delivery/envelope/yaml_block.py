"""Finds envelopes that were written as YAML (delivery.md 3.3, step 6). They are never read, only cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_KEYS = "schema|messages|next|id|text|type|name|arguments"
_LINE = rf"""[ \t\r]*+(?=\n|\Z)|[ \t][^\n]*+|-(?:[ \t][^\n]*+)?|---[ \t\r]*+|["']?(?:{_KEYS})["']?[ \t]*+:[^\n]*+"""
_RUN = re.compile(rf"(?:^(?!\Z)(?:{_LINE})(?:\n|\Z))++", re.MULTILINE)
_INDENT = r"^[ \t]*+(?:-[ \t]++)?"
_SCHEMA = re.compile(rf"""{_INDENT}["']?schema["']?[ \t]*+:[ \t]*+["']?openab\.turn\.""", re.MULTILINE | re.IGNORECASE)
_MESSAGES = re.compile(rf"""{_INDENT}["']?messages["']?[ \t]*+:""", re.MULTILINE | re.IGNORECASE)
_SILENT = re.compile(
    rf"""{_INDENT}["']?next["']?[ \t]*+:(?:\s*+\{{?\s*+["']?type["']?[ \t]*+:)?[ \t]*+["']?silent\b""", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class YamlBlock:
    """An envelope from index `start` up to `end`. `bubbles` is 0 or more: nobody counted them."""

    start: int
    end: int
    is_silent: bool


def find_blocks(text: str, start: int, end: int) -> Iterator[YamlBlock]:
    """The blocks in `text` between two indexes, in order."""
    for run in _RUN.finditer(text, start, end):
        if _MESSAGES.search(text, *run.span()) and _SCHEMA.search(text, *run.span()):
            yield YamlBlock(*_trim(text, *run.span()), bool(_SILENT.search(text, *run.span())))


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    run = text[start:end]
    return end - len(run.lstrip()), start + len(run.rstrip())
