from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.facts.agent_update import (
    AgentUpdate,
    BubbleMessage,
    ConfigOptions,
    TextChunk,
    Thought,
    ToolActivity,
    UnknownUpdate,
)
from openab_kernel.policies.status import FinalMark, Look, Sign, StatusCourse, StatusTiming, sign_of

STAYING = StatusTiming(debounce_ms=700, stall_soft_ms=10_000, stall_hard_ms=30_000, hold_ms={})
REMOVED = StatusTiming(
    debounce_ms=700, stall_soft_ms=10_000, stall_hard_ms=30_000, hold_ms={"queued": 0, "done": 1500, "error": 2500}
)

Heard = Sequence[tuple[int, Sign | None]]


def course_of(heard: Heard, timing: StatusTiming = STAYING) -> StatusCourse:
    """The course of a message whose turn begins at 0 and whose agent was heard at these moments."""
    course = StatusCourse(timing)
    course.begin(0)
    for now_ms, sign in heard:
        course.hear(sign, now_ms)
    return course


def tool(kind: str | None, status: str | None = None, *, is_new: bool = True) -> ToolActivity:
    return ToolActivity("call_1", title=None, status=status, tool_kind=kind, is_new=is_new)


@pytest.mark.parametrize(
    ("update", "sign"),
    [
        (Thought(), "thinking"),
        (TextChunk("hello"), None),
        (BubbleMessage("b1", "hello"), None),
        (ConfigOptions(()), None),
        (UnknownUpdate("plan"), None),
        (tool("read"), "coding"),
        (tool("edit"), "coding"),
        (tool("delete"), "coding"),
        (tool("move"), "coding"),
        (tool("execute", "in_progress"), "coding"),
        (tool("search"), "web"),
        (tool("fetch"), "web"),
        (tool("think"), "thinking"),
        (tool("other"), "tool"),
        (tool("switch_mode"), "tool"),
        (tool(None, "pending"), "tool"),
        (tool(None, "in_progress", is_new=False), None),
        (tool("edit", "in_progress", is_new=False), "coding"),
        (tool("edit", "completed"), "thinking"),
        (tool(None, "completed", is_new=False), "thinking"),
        (tool(None, "failed", is_new=False), "thinking"),
    ],
)
def test_update_says_what_the_agent_does(update: AgentUpdate, sign: Sign | None) -> None:
    assert sign_of(update) == sign


def test_message_that_waits_is_queued_however_long() -> None:
    course = StatusCourse(STAYING)
    assert course.look(0) == course.look(10**9) == Look("queued", None)


@pytest.mark.parametrize(
    ("heard", "now_ms", "look"),
    [
        pytest.param([], 0, Look("queued", 700), id="the start is debounced"),
        pytest.param([], 699, Look("queued", 700), id="until just before"),
        pytest.param([], 700, Look("thinking", 10_000), id="then it thinks"),
        pytest.param([(1000, "coding")], 1699, Look("thinking", 1700), id="a tool is debounced"),
        pytest.param([(1000, "coding")], 1700, Look("coding", 11_000), id="then it shows"),
        pytest.param([(1000, "coding"), (1500, "web")], 1700, Look("thinking", 2200), id="replaced in time"),
        pytest.param([(1000, "coding"), (1500, "web")], 2200, Look("web", 11_500), id="only the last shows"),
        pytest.param([(1000, "coding"), (1600, "coding")], 1700, Look("coding", 11_600), id="a repeat delays nothing"),
        pytest.param([(1000, "coding"), (1600, None)], 1700, Look("coding", 11_600), id="nor does a chunk"),
        pytest.param([(1000, "web"), (1500, "thinking")], 1600, Look("thinking", 2200), id="there and back"),
        pytest.param([], 9999, Look("thinking", 10_000), id="quiet, but not for long"),
        pytest.param([], 10_000, Look("stalled", 30_000), id="quiet for 10 s"),
        pytest.param([], 30_000, Look("stuck", None), id="quiet for 30 s"),
        pytest.param([(9999, None)], 19_998, Look("thinking", 19_999), id="a chunk is a sign of life"),
        pytest.param([(12_000, None)], 12_699, Look("stalled", 12_700), id="back from a stall, debounced"),
        pytest.param([(12_000, None)], 12_700, Look("thinking", 22_000), id="back to what it did"),
        pytest.param([(40_000, "web")], 40_699, Look("stuck", 40_700), id="back from 30 s, debounced"),
        pytest.param([(40_000, "web")], 40_700, Look("web", 50_000), id="back with something new"),
    ],
)
def test_mark_follows_the_turn(heard: Heard, now_ms: int, look: Look) -> None:
    assert course_of(heard).look(now_ms) == look


@pytest.mark.parametrize(
    ("sign", "now_ms", "is_news"),
    [
        (None, 9999, False),
        ("thinking", 9999, False),
        ("web", 100, True),
        (None, 10_000, True),
        ("thinking", 30_000, True),
    ],
)
def test_hearing_says_whether_to_look_again(sign: Sign | None, now_ms: int, is_news: bool) -> None:
    assert course_of([]).hear(sign, now_ms) == is_news


def test_soft_stall_after_the_hard_one_is_never_seen() -> None:
    course = StatusCourse(StatusTiming(debounce_ms=700, stall_soft_ms=9000, stall_hard_ms=2000, hold_ms={}))
    course.begin(0)
    assert course.look(1999) == Look("thinking", 2000)
    assert course.look(2000) == Look("stuck", None)


def test_debounce_longer_than_a_stall_shows_the_stall() -> None:
    course = StatusCourse(StatusTiming(debounce_ms=5000, stall_soft_ms=1000, stall_hard_ms=2000, hold_ms={}))
    course.begin(0)
    assert course.look(0) == Look("queued", 1000)
    assert course.look(1000) == Look("stalled", 2000)


@pytest.mark.parametrize("final", ["done", "error", "queued"])
@pytest.mark.parametrize("heard", [[], [(5000, "coding")], [(50_000, None)]])
def test_final_mark_is_at_once_and_stays(final: FinalMark, heard: Heard) -> None:
    course = course_of(heard)
    course.end(final, 50_100)
    assert course.is_ended
    assert course.look(50_100) == course.look(10**9) == Look(final, None)


@pytest.mark.parametrize(("final", "hold_ms"), [("done", 1500), ("error", 2500)])
def test_final_mark_is_held_and_then_removed(final: FinalMark, hold_ms: int) -> None:
    course = course_of([], REMOVED)
    course.end(final, 1000)
    assert course.look(999 + hold_ms) == Look(final, 1000 + hold_ms)
    assert course.look(1000 + hold_ms) == Look(None, None)


def test_queued_mark_of_a_message_that_went_along_is_removed_with_the_end() -> None:
    course = StatusCourse(REMOVED)
    course.end("queued", 1000)
    assert course.look(1000) == Look(None, None)


def test_update_after_the_end_changes_nothing() -> None:
    course = course_of([])
    course.end("done", 1000)
    assert not course.hear("web", 1100)
    assert course.look(2000) == Look("done", None)


def test_message_that_is_taken_by_another_turn_starts_again() -> None:
    course = course_of([], REMOVED)
    course.end("done", 1000)
    course.begin(1500)
    assert not course.is_ended
    assert course.look(1500) == Look("done", 2200)
    assert course.look(2200) == Look("thinking", 11_500)


SIGNS = st.sampled_from([None, "thinking", "coding", "web", "tool"])
STEPS = st.lists(st.tuples(st.integers(0, 15_000), SIGNS), max_size=12)


@given(steps=STEPS, timing=st.sampled_from([STAYING, REMOVED]), end_after_ms=st.none() | st.integers(0, 15_000))
def test_mark_never_changes_by_time_before_it_says_so(
    steps: list[tuple[int, Sign | None]], timing: StatusTiming, end_after_ms: int | None
) -> None:
    course = StatusCourse(timing)
    course.begin(0)
    now_ms = 0
    for wait_ms, sign in steps:
        now_ms += wait_ms
        course.hear(sign, now_ms)
    if end_after_ms is not None:
        now_ms += end_after_ms
        course.end("done", now_ms)
    for _ in range(6):
        look = course.look(now_ms)
        if look.until_ms is None:
            assert course.look(now_ms + 10**9) == look
            return
        assert look.until_ms > now_ms
        assert course.look(look.until_ms - 1) == look
        now_ms = look.until_ms
    pytest.fail("time alone never brings it to rest")
