"""The pages as tests read them, and the code beside them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
ECHO = EXAMPLES / "echo_channel"
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted(DOCS.rglob("*.md"))


def read(page: str) -> str:
    return (DOCS / page).read_text("utf-8")


def parse(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8"))


def code_blocks(page: Path, language: str) -> list[str]:
    return [token.content for token in parse(page) if token.type == "fence" and token.info == language]


def headings(page: Path) -> list[str]:
    tokens = parse(page)
    return [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]


def links(page: Path) -> Iterator[str]:
    for token in parse(page):
        for child in token.children or ():
            if child.type in ("link_open", "image"):
                yield str(child.attrGet("href") or child.attrGet("src"))


def rows_below(page: str, heading: str) -> list[list[str]]:
    """The cells of the rows of the tables between this heading and the next, but for the first row of each."""
    section = re.split(r"^#+ ", read(page).partition(f"# {heading}\n")[2], flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if not line.startswith("|---")]


def in_code(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", text)


@cache
def load(path: Path) -> ModuleType:
    """A module by its file, wherever it lies."""
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generator() -> ModuleType:
    return load(DOCS / "generate.py")
