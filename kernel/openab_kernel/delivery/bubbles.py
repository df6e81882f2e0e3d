"""The plan of a turn in the bubble modes: which bubbles are sent, or what in their place (delivery.md 3.5, 5, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from openab_kernel.delivery.characters import is_blank, trim
from openab_kernel.delivery.envelope import Bubble, Envelope, Findings, Fix, Rejection, leaks
from openab_kernel.delivery.settings import DeliverySettings
from openab_kernel.facts.turn import NextStep

# Why text of the agent is not shown: bubbles stand in its place; the turn failed before they were complete; the policy
# of `on_parse_error`.
DroppedReason = Literal["bubbles", "failure", "policy"]


@dataclass(frozen=True, slots=True)
class BubblePlan:
    """What is sent, and what the log and the record of the turn are told. At most one of the first three is set.

    `text` is one ordinary message. `joined` counts valid envelopes, repeats left out. `is_unstructured`: no envelope
    was found where one was owed, and the policy had its way. `dropped_chars` counts the code points of text not
    shown; `is_guarded`: the last guard held it back.
    """

    bubbles: tuple[Bubble, ...] = ()
    text: str = ""
    has_apology: bool = False
    is_silent: bool = False
    silenced_bubbles: int = 0
    joined: int = 0
    steps: tuple[NextStep, ...] = ()
    fixes: tuple[Fix, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    is_unstructured: bool = False
    is_guarded: bool = False
    dropped_chars: int = 0
    dropped_reason: DroppedReason | None = None


def bubble_text(text: str) -> str | None:
    """What is delivered of a deliberate message. None: it is blank, and nothing is."""
    return None if is_blank(text) else trim(text)


def plan_bubbles(
    findings: Findings,
    told: Sequence[Bubble],
    settings: DeliverySettings,
    *,
    is_fall_through: bool = False,
    has_failed: bool = False,
) -> BubblePlan:
    """Plan the end of a turn.

    Args:
        told: bubbles that came by another road, in order, at most `max_bubbles`. They come first.
        is_fall_through: sequential mode, and no bubble was sent: plain text is an ordinary message (6).
        has_failed: the turn did not end well: only what is complete and valid is sent (5.4).
    """
    if findings.is_silent:
        return BubblePlan(is_silent=True, silenced_bubbles=findings.silenced_bubbles + len(told))
    envelopes = _without_repeats(findings.envelopes, told)
    rejections = findings.rejections
    total = len(told) + sum(len(envelope.bubbles) for envelope in envelopes)
    if total > settings.max_bubbles and envelopes:
        rejections += (Rejection("too_many_bubbles", number=total),)
        envelopes = []
    found = BubblePlan(
        joined=len(envelopes),
        steps=tuple(envelope.next for envelope in envelopes),
        fixes=tuple(dict.fromkeys(fix for envelope in envelopes for fix in envelope.fixes)),
        rejections=rejections,
    )
    rest = "" if is_blank(findings.rest) else trim(findings.rest)
    bubbles = (*told, *(bubble for envelope in envelopes for bubble in envelope.bubbles))
    if bubbles:
        return _dropping(replace(found, bubbles=bubbles), rest, "bubbles")
    if not findings.is_structured and is_fall_through:
        return _with_text(found, rest, settings, or_apology=False)
    if has_failed:
        return _dropping(found, rest, "failure")
    return _by_policy(replace(found, is_unstructured=not findings.is_structured), rest, settings)


def _by_policy(found: BubblePlan, rest: str, settings: DeliverySettings) -> BubblePlan:
    """No envelope is valid and no bubble came by another road (5.2)."""
    match settings.on_parse_error:
        case "fallback_text":
            return _with_text(replace(found, is_unstructured=found.is_unstructured and not rest), rest, settings)
        case "error_message":
            return _dropping(replace(found, has_apology=True), rest, "policy")
        case _:
            return _dropping(found, rest, "policy")


def _with_text(found: BubblePlan, text: str, settings: DeliverySettings, *, or_apology: bool = True) -> BubblePlan:
    """Prose as one message, unless machine text is left in it."""
    if leaks(text):
        return replace(found, has_apology=True, is_guarded=True, dropped_chars=len(text), dropped_reason="policy")
    return replace(found, text=text, has_apology=or_apology and not text)


def _dropping(found: BubblePlan, text: str, reason: DroppedReason) -> BubblePlan:
    return replace(found, dropped_chars=len(text), dropped_reason=reason) if text else found


def _without_repeats(envelopes: Sequence[Envelope], told: Sequence[Bubble]) -> list[Envelope]:
    """The same delivered texts and kind of next step count once; ids do not matter (3.5). What came by another road
    has no next step: there the texts decide, of one message or of all."""
    told_texts = {(bubble.text,) for bubble in told} | {tuple(bubble.text for bubble in told)}
    seen: set[tuple[tuple[str, ...], str]] = set()
    kept: list[Envelope] = []
    for envelope in envelopes:
        texts = tuple(bubble.text for bubble in envelope.bubbles)
        key = (texts, envelope.next.type)
        if texts in told_texts or key in seen:
            continue
        seen.add(key)
        kept.append(envelope)
    return kept
