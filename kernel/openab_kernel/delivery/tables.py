"""Turns Markdown tables into what a chat can show (delivery.md 7.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from openab_kernel.delivery.blocks import MARGIN, continue_margin
from openab_kernel.delivery.characters import LINE

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

TableStyle = Literal["code", "bullets", "off"]

# Parsing a million characters may take seconds, too long to keep others waiting. No answer is that long.
MAX_PARSED_CHARS = 100_000

_MARGIN = re.compile(MARGIN)
_MIN_COLUMN_WIDTH = 3


class _Table(NamedTuple):
    """`first` and `end` are line numbers, from 0; `rows` begin with the header and are all as long as it."""

    first: int
    end: int
    rows: list[list[str]]
    is_nested: bool


def convert_tables(text: str, style: TableStyle) -> str:
    """Write the tables of `text` in `style`; all else stays as it is, byte for byte.

    A table is what a Markdown parser calls one. `code`: a fenced block, columns padded to one display width.
    `bullets`: a line for each cell that is not empty, a blank line between rows. A text of more than 100,000
    characters is left alone.
    """
    if style == "off" or "|" not in text or len(text) > MAX_PARSED_CHARS:
        return text
    render = _as_code if style == "code" else _as_bullets
    lines = [line.group() for line in LINE.finditer(text)]
    pieces: list[str] = []
    at = 0
    for table in _find_tables(text):
        pieces += lines[at : table.first]
        pieces.append(_replace(lines[table.first : table.end], table, render))
        at = table.end
    return "".join(pieces + lines[at:])


def _replace(source: list[str], table: _Table, render: Callable[[list[list[str]]], str]) -> str:
    """The lines of a table, written anew between the margin of the first and the line end of the last."""
    margin = ""
    if table.is_nested and (found := _MARGIN.match(source[0])):
        margin = found.group()
    written = render(table.rows).replace("\n", f"\n{continue_margin(margin)}")
    ending = source[-1][len(source[-1].rstrip("\r\n")) :]
    return margin + written + ending


def _find_tables(text: str) -> Iterator[_Table]:
    rows: list[list[str]] = []
    place: list[int] = []
    for token in _parser().parse(text):
        match token.type:
            case "table_open":
                rows, place = [], token.map or []
            case "tr_open":
                rows.append([])
            case "inline" if rows:
                rows[-1].append(token.content)
            case "table_close":
                yield _Table(place[0], place[1], rows, is_nested=token.level > 0)
                rows = []


@cache
def _parser() -> MarkdownIt:
    """Finds blocks and looks no further. Its library is loaded at the first text that may hold a table."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _as_code(rows: list[list[str]]) -> str:
    cells = [[cell.replace("`", "") for cell in row] for row in rows]
    widths = [max(_MIN_COLUMN_WIDTH, *map(_display_width, column)) for column in zip(*cells, strict=True)]
    header, *body = (_write_row(map(_pad, row, widths)) for row in cells)
    return "\n".join(["```", header, _write_row("-" * width for width in widths), *body, "```"])


def _write_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _pad(cell: str, width: int) -> str:
    return cell + " " * (width - _display_width(cell))


def _display_width(cell: str) -> int:
    """How many columns of a fixed-width font `cell` takes. A control character takes none."""
    from wcwidth import width

    return width(cell, control_codes="ignore")


def _as_bullets(rows: list[list[str]]) -> str:
    """Of a table that is all header, the header."""
    header, *body = rows
    groups = [[_bullet(name, cell) for name, cell in zip(header, row, strict=True) if cell] for row in body]
    groups = groups or [[_bullet("", name) for name in header if name]]
    return "\n\n".join("\n".join(group) for group in groups if group)


def _bullet(name: str, cell: str) -> str:
    return f"• {name}: {cell}" if name else f"• {cell}"
