"""What is done at start, in this order, before any channel opens (turn-kernel.md 3.4).

1. settle sends that were in flight (the durable outbox brings this);
2. close the turns that the end of the last process cut off, with one short notice each;
3. refill the lanes with what no turn has taken.
"""

from __future__ import annotations

from secrets import token_hex

import structlog

from openab_kernel.delivery.lines import FAILURE_LINES
from openab_kernel.facts.outbound import Intent
from openab_kernel.facts.turn import InterruptedTurn
from openab_kernel.interfaces.store import Store
from openab_kernel.lanes import Lanes
from openab_kernel.outbound.outbox import Outbox

log = structlog.get_logger("openab_kernel.restart")


async def take_up(store: Store, outbox: Outbox, lanes: Lanes) -> None:
    """Take up where the last process stopped."""
    interrupted = await store.interrupt_started_turns()
    for turn in interrupted:
        log.warning("turn.interrupted", turn_id=turn.turn.turn_id, session_key=turn.message.session_key)
    await outbox.enqueue([_notice(turn) for turn in interrupted if _is_owed_a_line(turn)])
    await lanes.refill()


def _is_owed_a_line(turn: InterruptedTurn) -> bool:
    return turn.message.from_person and turn.message.admission.kind == "dispatch"


def _notice(turn: InterruptedTurn) -> Intent:
    return Intent(
        id=token_hex(16),
        destination=turn.message.destination,
        kind="notice",
        parts=(FAILURE_LINES["restart"],),
        turn_id=turn.turn.turn_id,
        session_key=turn.message.session_key,
    )
