"""The parts of pages that docs/generate.py writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from tests.docs.pages import DOCS, ROOT, generator

PAGE = "<!-- generated: source parrot_agent.py -->\n<!-- end -->\n"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of its own for the generator; examples and project are ours."""
    (tmp_path / "examples").symlink_to(DOCS / "examples")
    monkeypatch.setattr(generator(), "DOCS", tmp_path)
    monkeypatch.setattr(generator(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    return page


def test_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generator().main(["--check"]) == 0, capsys.readouterr().out


def test_stale_page_is_named_and_left_alone_by_the_check(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generator().main(["--check"]) == 1
    assert capsys.readouterr().out.startswith("page.md: stale")
    assert page.read_text() == PAGE


def test_page_is_written_once_and_then_fresh(page: Path) -> None:
    assert generator().main([]) == 0
    assert "class Parrot" in page.read_text()
    assert generator().main(["--check"]) == 0


class Described(BaseModel):
    speed: int = Field(default=1, ge=0, le=9, description="how fast")


class Bare(BaseModel):
    speed: int | None = None


@pytest.mark.parametrize(
    ("model", "noted", "found"),
    [
        (Described, {}, "| `speed` | whole number, 0 to 9 | `1` | How fast. |"),
        (Bare, {"speed": "how fast"}, "| `speed` | whole number | unset | How fast. |"),
        (Described, {"speed": "how fast"}, "described in its class too"),
        (Bare, {}, "not described"),
    ],
)
def test_key_is_described_in_one_place(
    model: type[BaseModel], noted: dict[str, str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: dict[str, Any] = {"meaning": {"made_up": noted}, "limits": {}}
    monkeypatch.setattr(generator(), "_notes", lambda: notes)
    monkeypatch.setattr(generator(), "sections", lambda: {"made_up": model})
    try:
        text = generator().settings_table("made_up")
    except SystemExit as refusal:
        text = str(refusal)
    assert found in text


def test_notes_are_about_keys_that_exist() -> None:
    generate = generator()
    known = {"channel": generate.ChannelSection, **generate.sections()}
    for notes in generate._notes().values():
        for section, keys in notes.items():
            assert keys.keys() <= {"*", *generate._properties(known[section])}, section


@pytest.mark.parametrize(
    ("event", "levels", "keys"),
    [
        ("kernel.ready", {"info"}, ["channels"]),
        ("plugin.failed", {"error"}, ["plugin", "distribution", "cause"]),
        ("send.retried", {"warning"}, ["intent_id", "turn_id", "platform", "part", "of", "code", "wait_ms"]),
        ("turn.finished", {"info"}, ["…"]),
        ("connection.lost", {"warning"}, ["channel", "address", "reason", "retry_in_seconds"]),
        ("config.ignored", {"warning"}, ["section", "key"]),
    ],
)
def test_log_event_is_found_with_its_level_and_keys(event: str, levels: set[str], keys: list[str]) -> None:
    found = generator().find_events()[event]
    assert (found.levels, list(found.keys)) == (levels, keys)


def test_check_of_the_project_runs_the_generator() -> None:
    assert "docs/generate.py" in (ROOT / "dev.py").read_text("utf-8")
