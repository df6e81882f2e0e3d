"""Which waiting messages the next turn takes (agent.md 7, turn-kernel.md 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from openab_kernel.facts.policy import BatchPolicy

IMAGE_TOKENS = 512


class Waiting(NamedTuple):
    """What matters of a waiting message: `place` is conversation and thread, `tokens` its estimated size."""

    sender_id: str | None
    place: tuple[str, str | None]
    proactive: bool
    tokens: int
    alone: bool = False


def estimate_tokens(texts: Sequence[str], images: int) -> int:
    """A rough size: characters / 4 + 1 for a text, 512 for an image."""
    return sum(len(text) // 4 + 1 for text in texts) + images * IMAGE_TOKENS


def next_batch(waiting: Sequence[Waiting], policy: BatchPolicy) -> list[int]:
    """Indexes into `waiting` (order of arrival, not empty) of the messages the next turn takes, in order.

    The first is always taken. Others join it up to the caps of the mode, as long as none is passed over that the mode
    would put in the same turn: a message of the other sort (proactive or typed), of another place, or one that must
    run `alone`, ends the batch.
    """
    head = waiting[0]
    if policy.mode == "per-message" or head.alone:
        return [0]
    taken, tokens = [0], head.tokens
    for index, item in enumerate(waiting[1:], start=1):
        if policy.mode == "per-lane" and item.sender_id != head.sender_id:
            continue
        tokens += item.tokens
        fits = len(taken) < policy.max_buffered_messages and tokens <= policy.max_batch_tokens
        if not fits or item.alone or (item.place, item.proactive) != (head.place, head.proactive):
            break
        taken.append(index)
    return taken
