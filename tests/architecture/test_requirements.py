"""No acceptance row goes unproved: `tests/requirements.toml` against what pytest really collects."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

ROW_COUNTS = {"turn-kernel": 32, "outbound": 30, "delivery": 35, "triage": 27, "agent": 36}
ROWS = {f"{spec}.{number}" for spec, count in ROW_COUNTS.items() for number in range(1, count + 1)}

NOW_NUMBERS = {
    "turn-kernel": [*range(1, 18), 29, 30, 32],
    "delivery": [*range(1, 36)],
    "agent": [*range(14, 37)],
}
NOW = {f"{spec}.{number}" for spec, numbers in NOW_NUMBERS.items() for number in numbers}
"""The rows that are built: each needs a test."""

LATER = {"conversation", "custody", "judgement", "reply-tool", "channels"}


def read_rows() -> dict[str, dict[str, Any]]:
    specs = tomllib.loads((ROOT / "tests/requirements.toml").read_text())
    return {f"{spec}.{number}": row for spec, rows in specs.items() for number, row in rows.items()}


def find_row_flaw(name: str, row: dict[str, Any]) -> str | None:
    """Say what is wrong with the row itself, whatever its tests do."""
    tests, later = row.get("tests", []), row.get("later")
    if unknown := row.keys() - {"title", "tests", "later", "later_part"}:
        return f"unknown keys {sorted(unknown)}"
    if not row.get("title"):
        return "no title"
    if not tests and (later is None or name in NOW):
        return "no test"
    if later is not None and later not in LATER:
        return f"later = {later!r}; known are {sorted(LATER)}"
    if ("later_part" in row) != bool(tests and later):
        return "later_part says what is still to come of a row that has tests, and only there"
    return None


def find_test_flaw(test: dict[str, Any] | None) -> str | None:
    """Say why a named test proves nothing. `test` is its entry from collect.py, None if it has none."""
    if test is None:
        return "is not collected by a run without options"
    if test["blocked"]:
        return f"is marked {', '.join(sorted(set(test['blocked'])))}"
    if test["is_async"] and set(test["backends"]) != {"asyncio", "trio"}:
        return "is async and does not run on both asyncio and trio"
    return None


@pytest.fixture(scope="module")
def collected() -> dict[str, dict[str, Any]]:
    script = Path(__file__).with_name("collect.py")
    run = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    tests: dict[str, dict[str, Any]] = json.loads(run.stdout)
    return tests


def test_requirements_list_each_acceptance_row() -> None:
    assert read_rows().keys() == ROWS


def test_each_row_has_a_test_or_says_what_work_brings_it() -> None:
    found = {name: find_row_flaw(name, row) for name, row in read_rows().items()}
    flaws = [f"{name}: {flaw}" for name, flaw in found.items() if flaw]
    assert not flaws, "\n".join(flaws)


def test_each_named_test_can_prove_its_row(collected: dict[str, dict[str, Any]]) -> None:
    named = [(name, test) for name, row in read_rows().items() for test in row.get("tests", [])]
    found = [(name, test, find_test_flaw(collected.get(test))) for name, test in named]
    flaws = [f"{name}: {test} {flaw}" for name, test, flaw in found if flaw]
    assert not flaws, "\n".join(flaws)


@pytest.mark.parametrize(
    ("name", "row", "flaw"),
    [
        ("agent.14", {"title": "x", "tests": ["a"]}, None),
        ("agent.14", {"title": "x", "tests": ["a"], "later": "custody", "later_part": "y"}, None),
        ("agent.1", {"title": "x", "later": "custody"}, None),
        ("agent.1", {"title": "x", "later": "someday"}, "later = 'someday'"),
        ("agent.14", {"title": "x", "later": "custody"}, "no test"),
        ("agent.1", {"title": "x", "tests": []}, "no test"),
        ("agent.1", {"tests": ["a"]}, "no title"),
        ("agent.14", {"title": "x", "tests": ["a"], "later": "custody"}, "later_part"),
        ("agent.1", {"title": "x", "later": "custody", "later_part": "y"}, "later_part"),
        ("agent.1", {"title": "x", "test": ["a"]}, "unknown keys ['test']"),
    ],
)
def test_flaw_of_a_row_is_found(name: str, row: dict[str, Any], flaw: str | None) -> None:
    assert (find_row_flaw(name, row) or "").startswith(flaw or "")
    assert (find_row_flaw(name, row) is None) == (flaw is None)


@pytest.mark.parametrize(
    ("blocked", "is_async", "backends", "flaw"),
    [
        ([], False, [], None),
        ([], True, ["asyncio", "trio"], None),
        ([], True, ["trio", "trio"], "is async and does not run on both asyncio and trio"),
        ([], True, [None], "is async and does not run on both asyncio and trio"),
        (["xfail", "skip", "skip"], False, [], "is marked skip, xfail"),
    ],
)
def test_flaw_of_a_named_test_is_found(
    blocked: list[str], is_async: bool, backends: list[str | None], flaw: str | None
) -> None:
    assert find_test_flaw({"blocked": blocked, "is_async": is_async, "backends": backends}) == flaw


def test_a_named_test_that_is_not_collected_is_a_flaw() -> None:
    assert find_test_flaw(None) == "is not collected by a run without options"
