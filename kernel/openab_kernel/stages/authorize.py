"""Stage 5: may this sender start a turn here? The policy decides; this stage gathers what it looks at."""

from __future__ import annotations

import structlog

from openab_kernel.facts.context import FinalizedMsgContext
from openab_kernel.facts.event import NormalizedTurnInput, PreflightFacts, SenderFacts
from openab_kernel.facts.policy import AccessPolicy
from openab_kernel.interfaces.channel import Resolved, RoutedPlan
from openab_kernel.policies.admission import NO_ACCESS_FACTS, AdmissionFacts, Decision, decide
from openab_kernel.policies.commands import ControlCommand, control_command
from openab_kernel.stages.trail import Trail

log = structlog.get_logger("openab_kernel.authorize")


def authorize(
    resolved: Resolved, found: NormalizedTurnInput, facts: PreflightFacts, policy: AccessPolicy, trail: Trail
) -> tuple[Decision, ControlCommand | None]:
    """The decision, and the control command that the message is, if it is one and its sender may give it."""
    command = None if found.proactive else control_command(found.text_for_commands or found.raw_text)
    if isinstance(resolved, RoutedPlan):
        question = _of_plan(resolved, found, facts)
    else:
        question = _of_context(resolved.ctx_payload, facts)
    question.has_control_command = command is not None
    decision = decide(question, policy)
    log.debug("event.judged", **trail.ids, admission=decision.admission.kind, reason=decision.reason_code)
    return decision, command if decision.command_authorized else None


def _of_plan(plan: RoutedPlan, found: NormalizedTurnInput, facts: PreflightFacts) -> AdmissionFacts:
    sender = _known_sender(plan.sender, facts.sender)
    return AdmissionFacts(
        kind=plan.conversation.kind,
        channel_id=plan.conversation.native_channel_id or plan.conversation.id,
        thread_id=plan.conversation.thread_id,
        sender_id=sender.id,
        is_bot=bool(sender.is_bot),
        is_self=sender.is_self,
        proactive=found.proactive,
        access=plan.access or facts.access or NO_ACCESS_FACTS,
    )


def _of_context(context: FinalizedMsgContext, facts: PreflightFacts) -> AdmissionFacts:
    return AdmissionFacts(
        kind=context.chat_type,
        channel_id=context.native_channel_id or context.chat_id,
        sender_id=context.sender_id,
        is_bot=bool(context.sender_is_bot),
        is_self=bool(context.sender_is_self),
        proactive=context.proactive,
        access=facts.access or NO_ACCESS_FACTS,
    )


def _known_sender(resolved: SenderFacts, early: SenderFacts | None) -> SenderFacts:
    """Resolve knows the sender better; only that it is ourselves may have been seen earlier."""
    return early if early is not None and early.is_self else resolved
