"""delivery.md 7.4; case E-03."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.delivery.tool_lines import MAX_CALLS, ToolDisplay, ToolRuns

Seen = tuple[str, str | None, str | None]


def runs(*seen: Seen) -> ToolRuns:
    calls = ToolRuns()
    for call in seen:
        calls.see(*call)
    return calls


BUSY: list[Seen] = [
    ("1", "read", "completed"),
    ("2", "read", "completed"),
    ("3", "read", "failed"),
    ("4", "test", "in_progress"),
    ("5", "read", "completed"),
]


@pytest.mark.parametrize(
    ("seen", "full", "compact"),
    [
        pytest.param([], None, None, id="no call"),
        pytest.param([("1", "read", "pending")], "🔧 read", "🔧 1", id="one call"),
        pytest.param(
            BUSY,
            "✅ read (\N{MULTIPLICATION SIGN}2)\n❌ read\n🔧 test\n✅ read",
            "✅ 3 · ❌ 1 · 🔧 1",
            id="runs of equals",
        ),
        pytest.param(
            [("1", "read", None), ("2", "test", None), ("1", None, "completed"), ("2", "tests", None)],
            "✅ read\n🔧 tests",
            "✅ 1 · 🔧 1",
            id="updates change what they name",
        ),
        pytest.param(
            [("1", None, None), ("2", "\n\u200b", "failed")], "🔧 tool\n❌ tool", "❌ 1 · 🔧 1", id="no title"
        ),
        pytest.param([("1", "a", "completed"), ("1", "", "new")], "🔧 a", "🔧 1", id="unknown status, blank title"),
    ],
)
def test_calls_are_shown_by_title_and_state(seen: list[Seen], full: str | None, compact: str | None) -> None:
    calls = runs(*seen)
    assert calls.render("full") == full
    assert calls.render("compact") == compact
    assert calls.render("none") is None


def test_more_than_three_lines_become_counts_while_streaming() -> None:
    assert runs(*BUSY[:4]).render("full", streaming=True) == "✅ read (\N{MULTIPLICATION SIGN}2)\n❌ read\n🔧 test"
    assert runs(*BUSY).render("full", streaming=True) == "✅ 3 · ❌ 1 · 🔧 1"


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("a\r\n b\tc", "a b c"),
        ("\x1b[31mred\x07\u202e", "[31mred"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        (" \x00 \x00x", "x"),
        ("half\ud800", "half\ufffd"),
    ],
)
def test_title_is_one_short_line(title: str, shown: str) -> None:
    assert runs(("1", title, None)).render("full") == f"🔧 {shown}"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=200), st.sampled_from(["completed", "x"]))))
def test_no_title_makes_a_line_of_its_own(seen: list[Seen]) -> None:
    rendered = runs(*seen).render("full") or "🔧"
    assert all(line[0] in "✅❌🔧" and len(line) <= 90 for line in rendered.splitlines())


@pytest.mark.parametrize("display", ["full", "compact"])
def test_a_flood_of_calls_is_bounded(display: ToolDisplay) -> None:
    calls = runs(*((str(number), "x", "completed") for number in range(MAX_CALLS + 5)))
    calls.see("0", None, "failed")
    assert (
        calls.render(display)
        == {
            "full": f"❌ x\n✅ x (\N{MULTIPLICATION SIGN}{MAX_CALLS - 1})",
            "compact": f"✅ {MAX_CALLS - 1} · ❌ 1",
        }[display]
    )
