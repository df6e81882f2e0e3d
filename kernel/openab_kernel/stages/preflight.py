"""Stage 3: a cheap first look. Is it our own, have we seen it, what does the channel know? Writes nothing."""

from __future__ import annotations

from openab_kernel.facts.admission import Admission, Drop, as_admission
from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput, PreflightFacts
from openab_kernel.interfaces.channel import Channel, TurnAdapter
from openab_kernel.interfaces.store import Store
from openab_kernel.stages.ingest import answer, expect

NOTHING = PreflightFacts()
SELF_ECHO = Drop(reason="self-echo")
DUPLICATE = Drop(reason="dedupe")


async def preflight(adapter: TurnAdapter, found: NormalizedTurnInput, event_class: ChannelEventClass) -> PreflightFacts:
    """The adapter's facts. A bare admission means facts that hold nothing else."""
    method = getattr(adapter, "preflight", None)
    if method is None:
        return NOTHING
    value = await answer(method(found, event_class))
    admission = as_admission(value)
    if admission is not None:
        return PreflightFacts(admission=admission)
    return expect(value, PreflightFacts, "preflight") or NOTHING


async def look(store: Store, channel: Channel, found: NormalizedTurnInput, facts: PreflightFacts) -> Admission | None:
    """The kernel's own look: our own message, or one that is on disk already. None: neither.

    Proactive events are not looked up: triage alone decides what is a repeat.
    """
    if facts.sender is not None and facts.sender.is_self:
        return SELF_ECHO
    if not found.proactive and await store.has_message(channel.name, channel.account_id, found.id):
        return DUPLICATE
    return facts.admission
