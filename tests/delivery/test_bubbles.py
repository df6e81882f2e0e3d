"""The plan of a bubble mode, on findings made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.delivery.bubbles import BubblePlan, bubble_text, plan_bubbles
from openab_kernel.delivery.envelope import Bubble, Envelope, Findings, NextStep, Rejection
from openab_kernel.delivery.settings import DeliverySettings

STOP = NextStep("stop")
LEAK = 'take {"schema":"openab.turn.v1"'


def envelope(*texts: str, next: NextStep = STOP, fixes: Any = ()) -> Envelope:
    return Envelope(tuple(Bubble(str(number), text) for number, text in enumerate(texts)), next, fixes)


def found(*envelopes: Envelope, rest: str = "", rejections: Any = (), silenced: int | None = None) -> Findings:
    return Findings(envelopes, tuple(rejections), silenced is not None, silenced or 0, rest)


def plan(findings: Findings, *told: str, policy: Any = "fallback_text", **options: bool) -> BubblePlan:
    bubbles = [Bubble("", text) for text in told]
    return plan_bubbles(findings, bubbles, DeliverySettings(on_parse_error=policy), **options)


def texts(plan: BubblePlan) -> list[str]:
    return [bubble.text for bubble in plan.bubbles]


@pytest.mark.parametrize(("text", "shown"), [("  a\n", "  a"), ("\n\n a", " a"), (" \u200b\ufeff", None), ("", None)])
def test_what_is_delivered_of_a_message(text: str, shown: str | None) -> None:
    assert bubble_text(text) == shown


def test_repeats_count_once_and_their_next_step_decides() -> None:
    wait = NextStep("wait")
    result = plan(found(envelope("a"), envelope("a"), envelope("a", next=wait), envelope("b")))
    assert texts(result) == ["a", "a", "b"]
    assert (result.joined, result.steps) == (3, (STOP, wait, STOP))


def test_envelopes_over_the_cap_are_none_and_the_number_is_told() -> None:
    result = plan(found(envelope("a", "b", "c"), envelope("d", "e"), rest="prose"))
    assert result == BubblePlan(text="prose", rejections=(Rejection("too_many_bubbles", number=5),))


@pytest.mark.parametrize("told", [["a", "b"], ["b", "a"]])
def test_an_envelope_that_repeats_what_was_told_is_left_out(told: list[str]) -> None:
    assert texts(plan(found(envelope("a"), envelope(*told)), *told)) == told


def test_prose_beside_bubbles_is_dropped_and_counted() -> None:
    result = plan(found(envelope("a"), rest=" around "))
    assert (result.dropped_chars, result.dropped_reason) == (7, "bubbles")


@pytest.mark.parametrize("is_fall_through", [False, True])
@pytest.mark.parametrize("has_failed", [False, True])
def test_silence_goes_before_all(is_fall_through: bool, has_failed: bool) -> None:
    result = plan(found(silenced=2, rest="prose"), "told", is_fall_through=is_fall_through, has_failed=has_failed)
    assert result == BubblePlan(is_silent=True, silenced_bubbles=3)


@pytest.mark.parametrize(
    ("policy", "rest", "rejections", "expected"),
    [
        ("fallback_text", "prose", [], BubblePlan(text="prose")),
        ("fallback_text", " \ufeff\n", [], BubblePlan(has_apology=True, is_unstructured=True)),
        ("fallback_text", "", [Rejection("truncated")], BubblePlan(has_apology=True)),
        ("fallback_text", "left", [Rejection("truncated")], BubblePlan(text="left")),
        ("error_message", "prose", [], BubblePlan(has_apology=True, is_unstructured=True)),
        ("error_message", "", [Rejection("malformed")], BubblePlan(has_apology=True)),
        ("silent", "prose", [], BubblePlan(is_unstructured=True)),
        ("silent", "", [Rejection("malformed")], BubblePlan()),
    ],
)
def test_the_policy_decides_where_there_is_no_bubble(
    policy: Any, rest: str, rejections: list[Rejection], expected: BubblePlan
) -> None:
    """delivery 12.11"""
    result = plan(found(rest=rest, rejections=rejections), policy=policy)
    seen = (result.text, result.has_apology, result.is_unstructured)
    assert seen == (expected.text, expected.has_apology, expected.is_unstructured)
    assert result.dropped_chars == (len(rest) if policy != "fallback_text" else 0)


def test_the_last_guard_puts_the_apology_in_place_of_machine_text() -> None:
    for options in ({}, {"is_fall_through": True}):
        result = plan(found(rest=LEAK), **options)
        assert result.is_guarded
        assert (result.text, result.has_apology, result.dropped_chars) == ("", True, len(LEAK))


def test_a_failed_turn_shows_no_prose_but_where_it_is_the_message() -> None:
    """delivery 12.24"""
    findings = found(rest="half a sen")
    assert plan(findings, has_failed=True).dropped_reason == "failure"
    assert plan(findings, has_failed=True).text == ""
    assert plan(findings, has_failed=True, is_fall_through=True).text == "half a sen"


names = st.sampled_from(["a", "b", "c", "d", "e"])
envelopes = st.lists(st.lists(names, min_size=1, max_size=4).map(lambda texts: envelope(*texts)), max_size=4)


@given(
    envelopes=envelopes,
    told=st.lists(names, max_size=4),
    rest=st.sampled_from(["", "prose", LEAK]),
    policy=st.sampled_from(["fallback_text", "error_message", "silent"]),
    is_fall_through=st.booleans(),
    has_failed=st.booleans(),
)
def test_a_plan_sends_one_kind_of_thing_within_the_cap_and_never_machine_text(
    envelopes: list[Envelope],
    told: list[str],
    rest: str,
    policy: Any,
    is_fall_through: bool,
    has_failed: bool,
) -> None:
    result = plan(
        found(*envelopes, rest=rest), *told, policy=policy, is_fall_through=is_fall_through, has_failed=has_failed
    )
    assert [bool(result.bubbles), bool(result.text), result.has_apology].count(True) <= 1
    assert len(result.bubbles) <= 4
    assert texts(result)[: len(told)] == told
    assert result.text in ("", "prose")
