"""What no source file may hold: silenced checks without a reason, gaps in pure code, tests that sleep."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ["benchmarks", "docs", "kernel", "plugins", "tests"]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PURE: list[str] = SETTINGS["tool"]["coverage"]["report"]["include"]

SILENCER = re.compile(r"type:\s*ignore|noqa|(ruff|mypy):", re.IGNORECASE)
SILENCER_WITH_REASON = re.compile(r"# (type: ignore\[[a-z, -]+\]|noqa: [A-Z0-9, ]+)  # \w")
COVERAGE_GAP = re.compile(r"pragma:\s*no\s*(cover|branch)", re.IGNORECASE)


def find_flaws(path: str, text: str) -> list[str]:
    """Give a line for each forbidden thing in `text`, the source of `path` (relative, with slashes)."""
    flaws = []
    for number, comment in read_comments(text):
        if SILENCER.search(comment) and not SILENCER_WITH_REASON.search(comment):
            flaws.append(f"{path}:{number}: name the code and the reason: # type: ignore[code]  # reason")
        if COVERAGE_GAP.search(comment) and any(fnmatch(path, pure) for pure in PURE):
            flaws.append(f"{path}:{number}: pure code is covered whole: test this line or remove it")
    if fnmatch(path, "tests/*/test_*.py"):
        flaws += [f"{path}:{number}: wait for the event, not for the time" for number in find_sleeps(text)]
    return flaws


def read_comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def find_sleeps(text: str) -> Iterator[int]:
    """Give the line of each call of a `sleep`; `sleep(0)`, which only lets others run, is none."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(args=[ast.Constant(value=0)]):
                continue
            case ast.Call(func=ast.Name(id="sleep") | ast.Attribute(attr="sleep")):
                yield node.lineno


def test_no_source_holds_a_forbidden_thing() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    sources = [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in [*paths, ROOT / "dev.py"]]
    flaws = [flaw for path, text in sources for flaw in find_flaws(path, text)]
    assert not flaws, "\n".join(flaws)


@pytest.mark.parametrize(
    ("path", "line", "found"),
    [
        ("kernel/openab_kernel/app.py", "x = 1  # type: ignore", 1),
        ("kernel/openab_kernel/app.py", "x = 1  # type: ignore[misc]", 1),
        ("kernel/openab_kernel/app.py", "x = 1  # type: ignore[misc]  # the stub is wrong", 0),
        ("kernel/openab_kernel/app.py", "x = 1  # noqa: F401", 1),
        ("kernel/openab_kernel/app.py", "x = 1  # noqa: F401  # re-exported", 0),
        ("kernel/openab_kernel/app.py", "# mypy: ignore-errors", 1),
        ("kernel/openab_kernel/app.py", "x = '# noqa'", 0),
        ("kernel/openab_kernel/facts/event.py", "x = 1  # pragma: no cover", 1),
        ("kernel/openab_kernel/delivery/envelope/find.py", "x = 1  # pragma: no branch", 1),
        ("kernel/openab_kernel/app.py", "x = 1  # pragma: no cover", 0),
        ("tests/stages/test_record.py", "anyio.sleep(0.1)", 1),
        ("tests/stages/test_record.py", "sleep(seconds)", 1),
        ("tests/stages/test_record.py", "anyio.sleep(0)", 0),
        ("kernel/openab_kernel/app.py", "anyio.sleep(1)", 0),
    ],
)
def test_forbidden_thing_is_found(path: str, line: str, found: int) -> None:
    assert len(find_flaws(path, line)) == found
