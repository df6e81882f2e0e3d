"""Envelopes in the text of an agent: find, read, judge, cut, guard. Pure, bounded, linear (delivery.md 2.1, 3)."""

from __future__ import annotations

from openab_kernel.delivery.characters import is_blank
from openab_kernel.delivery.envelope.bounds import Budget
from openab_kernel.delivery.envelope.cut import cut
from openab_kernel.delivery.envelope.findings import (
    Bubble,
    Envelope,
    EnvelopeRules,
    Findings,
    Fix,
    NextStep,
    NextType,
    Rejection,
    RejectionKind,
)
from openab_kernel.delivery.envelope.guard import leaks
from openab_kernel.delivery.envelope.search import search
from openab_kernel.delivery.envelope.validate import Silence

__all__ = [
    "Bubble",
    "Envelope",
    "EnvelopeRules",
    "Findings",
    "Fix",
    "NextStep",
    "NextType",
    "Rejection",
    "RejectionKind",
    "find_envelopes",
    "leaks",
]


def find_envelopes(buffer: str, answer: str, rules: EnvelopeRules) -> Findings:
    """Find the envelopes in the text of a turn, and what prose there is beside them.

    Args:
        buffer: All text of the turn without the header of directives. No lone surrogates.
        answer: The part of `buffer`, at its end, that came after the last newly announced tool call. The search runs
            over `buffer`; prose is taken from here, or from `buffer` if this is blank.
        rules: What of `[delivery]` decides.
    """
    start = 0 if is_blank(answer) else len(buffer) - len(answer)
    pieces = search(buffer, rules, Budget())
    if not pieces:
        return Findings((), (), False, 0, buffer[start:])
    verdicts = [verdict for piece in pieces for verdict in piece.verdicts]
    envelopes = tuple(verdict for verdict in verdicts if isinstance(verdict, Envelope))
    rejections = tuple(verdict for verdict in verdicts if isinstance(verdict, Rejection))
    rest = cut(buffer, [(piece.start, piece.end) for piece in pieces], start)
    silences = [verdict.bubbles for verdict in verdicts if isinstance(verdict, Silence)]
    if not silences:
        return Findings(envelopes, rejections, False, 0, rest)
    return Findings((), (), True, sum(silences) + sum(len(envelope.bubbles) for envelope in envelopes), rest)
