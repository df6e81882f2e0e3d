"""Stage 4: conversation, sender, route and reply plan, or a turn that the channel has made ready itself."""

from __future__ import annotations

from openab_kernel.facts.admission import Admission, as_admission
from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput, PreflightFacts
from openab_kernel.interfaces.channel import (
    AssembledTurn,
    Channel,
    PreparedTurn,
    Resolved,
    RoutedPlan,
    TurnAdapter,
)
from openab_kernel.policies.session_key import session_key
from openab_kernel.stages.ingest import answer


async def resolve(
    adapter: TurnAdapter, found: NormalizedTurnInput, event_class: ChannelEventClass, facts: PreflightFacts
) -> Resolved | Admission:
    """The adapter's plan or ready turn, or an admission of kind drop or handled.

    Raises:
        TypeError: it gave something else.
        ValueError: it gave an admission of another kind, or more than one turn (broadcast groups are not built).
    """
    value = await answer(adapter.resolve_turn(found, event_class, facts))
    if isinstance(value, list):
        if len(value) != 1:
            raise ValueError(f"turn adapter, resolve_turn: gave {len(value)} turns; this version takes one")
        value = value[0]
    if isinstance(value, RoutedPlan | AssembledTurn | PreparedTurn):
        return value
    admission = as_admission(value)
    if admission is None:
        raise TypeError(
            f"turn adapter, resolve_turn: gave {type(value).__name__}; expected RoutedPlan, AssembledTurn, "
            "PreparedTurn or an admission"
        )
    if admission.kind not in ("drop", "handled"):
        raise ValueError(f"turn adapter, resolve_turn: gave a bare {admission.kind}; put it on the plan instead")
    return admission


def route(plan: RoutedPlan, channel: Channel) -> RoutedPlan:
    """Give the plan its session, by the scope that the operator chose, unless the channel named one."""
    if plan.route.session is not None:
        return plan
    scope = plan.route.dm_scope or channel.policy.dm_scope
    key = session_key(
        plan.conversation,
        agent_id=plan.route.agent_id,
        channel=channel.name,
        account_id=plan.route.account_id or channel.account_id,
        dm_scope=scope,
    )
    shown = plan.route.route_session_key or str(key)
    return plan.model_copy(
        update={
            "route": plan.route.model_copy(
                update={"session": key, "route_session_key": shown, "dm_scope": key.dm_scope}
            )
        }
    )
