"""Stage 2: what sort of event it is, and whether it may start a turn at all."""

from __future__ import annotations

from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput
from openab_kernel.interfaces.channel import TurnAdapter
from openab_kernel.stages.ingest import answer, expect

MESSAGE = ChannelEventClass()


async def classify(adapter: TurnAdapter, found: NormalizedTurnInput) -> ChannelEventClass:
    """The adapter's word, or a plain message where it has none."""
    method = getattr(adapter, "classify", None)
    if method is None:
        return MESSAGE
    return expect(await answer(method(found)), ChannelEventClass, "classify") or MESSAGE
