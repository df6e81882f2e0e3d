"""May this message start a turn? Gates in a fixed order; the first that blocks decides (turn-kernel.md 10).

This is the closed default with the allow lists and the bot rule. Pairing, access groups, route overrides and
implicit mentions join as further gates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from openab_kernel.facts.access import AccessFacts
from openab_kernel.facts.admission import Admission, Dispatch, Drop, ObserveOnly
from openab_kernel.facts.conversation import ChatKind
from openab_kernel.facts.policy import AccessPolicy

NO_ACCESS_FACTS = AccessFacts()

GateName = Literal["self", "bot", "route", "sender", "command", "activation"]


@dataclass(slots=True, kw_only=True)
class AdmissionFacts:
    """What the gates look at. `channel_id` is what `allowed_channels` lists: the platform's own id."""

    kind: ChatKind
    channel_id: str
    thread_id: str | None = None
    sender_id: str | None
    is_bot: bool = False
    is_self: bool = False
    proactive: bool = False
    has_control_command: bool = False
    access: AccessFacts = NO_ACCESS_FACTS


class GateResult(NamedTuple):
    """One gate's word. `blocks` False: the next gate is asked."""

    gate: GateName
    blocks: bool
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a message, which gate said so, and what every gate that ran had to say."""

    admission: Admission
    reason_code: str
    decisive_gate: GateName | None = None
    gates: tuple[GateResult, ...] = ()
    command_authorized: bool = False


def decide(facts: AdmissionFacts, policy: AccessPolicy) -> Decision:
    """Say what becomes of a message, and which gate said so. The first gate that blocks decides."""
    passed: list[GateResult] = []
    for gate in GATES:
        result = gate(facts, policy)
        passed.append(result)
        if result.blocks:
            return Decision(
                admission=Drop(reason=result.code, record_history=result.code == "missing_mention"),
                reason_code=result.code,
                decisive_gate=result.gate,
                gates=tuple(passed),
            )
    admission = ObserveOnly(reason="observe_only") if policy.observe_only else _DISPATCH
    return Decision(
        admission=admission,
        reason_code="allowed",
        gates=tuple(passed),
        command_authorized=_is_command_authorized(facts),
    )


def _self_gate(facts: AdmissionFacts, policy: AccessPolicy) -> GateResult:
    return _SELF_BLOCKED if facts.is_self else _SELF_PASSED


def _bot_gate(facts: AdmissionFacts, policy: AccessPolicy) -> GateResult:
    """A bot passes where bots are let in, is on the trusted list if there is one, and has a stable id."""
    if not facts.is_bot:
        return _NO_BOT
    mentions = facts.access.mentions
    wanted = policy.allow_bots == "all" or (
        policy.allow_bots == "mentions" and mentions is not None and bool(mentions.explicitly_mentioned_bot)
    )
    trusted = not policy.trusted_bot_ids or facts.sender_id in policy.trusted_bot_ids
    allowed = wanted and trusted and _has_stable_id(facts)
    return GateResult(gate="bot", blocks=not allowed, code="bot_allowed" if allowed else "bot_not_allowed")


def _route_gate(facts: AdmissionFacts, policy: AccessPolicy) -> GateResult:
    listed = policy.allowed_channels
    if facts.kind == "direct" or listed is None or facts.channel_id in listed or facts.thread_id in listed:
        return _ROUTE_PASSED
    return _ROUTE_BLOCKED


def _sender_gate(facts: AdmissionFacts, policy: AccessPolicy) -> GateResult:
    """A bot that passed its own gate is not asked for the list of persons."""
    if facts.is_bot:
        return GateResult(gate="sender", blocks=False, code="bot_allowed")
    if not _has_stable_id(facts):
        return GateResult(gate="sender", blocks=True, code="sender_id_missing")
    allowed, code = _direct_sender(facts, policy) if facts.kind == "direct" else _group_sender(facts, policy)
    return GateResult(gate="sender", blocks=not allowed, code=code)


def _direct_sender(facts: AdmissionFacts, policy: AccessPolicy) -> tuple[bool, str]:
    known = facts.access.dm
    if known is not None:
        fallback = "dm_policy_allowlisted" if known.decision == "allow" else "dm_policy_not_allowlisted"
        return known.decision == "allow", known.reason or fallback
    if policy.dm_policy == "disabled":
        return False, "dm_policy_disabled"
    if policy.dm_policy == "open" and "*" in policy.allow_from:
        return True, "dm_policy_open"
    if facts.sender_id in policy.allow_from:
        return True, "dm_policy_allowlisted"
    return False, "dm_policy_not_allowlisted"


def _group_sender(facts: AdmissionFacts, policy: AccessPolicy) -> tuple[bool, str]:
    known = facts.access.group
    if known is not None:
        allowed = known.policy != "disabled" and known.route_allowed and known.sender_allowed
        return allowed, "group_policy_allowed" if allowed else "group_policy_not_allowlisted"
    match policy.group_policy:
        case "disabled":
            return False, "group_policy_disabled"
        case "open":
            return True, "group_policy_open"
        case "allowlist" if not policy.group_allow_from:
            return False, "group_policy_empty_allowlist"
        case _:
            allowed = facts.sender_id in policy.group_allow_from
            return allowed, "group_policy_allowed" if allowed else "group_policy_not_allowlisted"


def _command_gate(facts: AdmissionFacts, policy: AccessPolicy) -> GateResult:
    """Whoever the sender gate admits as a person may run commands; a channel's own `authorized` is final."""
    if not facts.has_control_command or _is_command_authorized(facts):
        return _COMMAND_PASSED
    return GateResult(gate="command", blocks=True, code="control_command_unauthorized")


def _is_command_authorized(facts: AdmissionFacts) -> bool:
    if not facts.has_control_command or facts.is_bot or facts.proactive:
        return False
    commands = facts.access.commands
    return commands is None or commands.authorized is not False


def _activation_gate(facts: AdmissionFacts, policy: AccessPolicy) -> GateResult:
    mentions = facts.access.mentions
    if mentions is None or not mentions.can_detect_mention or mentions.was_mentioned or facts.kind == "direct":
        return _ACTIVATED
    required = mentions.require_mention if policy.require_mention is None else policy.require_mention
    authorized_command = _is_command_authorized(facts) and not mentions.has_any_mention
    if required is False or authorized_command:
        return _ACTIVATED
    return GateResult(gate="activation", blocks=True, code="missing_mention")


def _has_stable_id(facts: AdmissionFacts) -> bool:
    return bool(facts.sender_id and facts.sender_id.strip())


Gate = Callable[[AdmissionFacts, AccessPolicy], GateResult]

GATES: tuple[Gate, ...] = (_self_gate, _bot_gate, _route_gate, _sender_gate, _command_gate, _activation_gate)

_DISPATCH = Dispatch()
_SELF_BLOCKED = GateResult(gate="self", blocks=True, code="self-echo")
_SELF_PASSED = GateResult(gate="self", blocks=False, code="not_self")
_NO_BOT = GateResult(gate="bot", blocks=False, code="no_bot")
_ROUTE_PASSED = GateResult(gate="route", blocks=False, code="route_allowed")
_ROUTE_BLOCKED = GateResult(gate="route", blocks=True, code="route_blocked")
_COMMAND_PASSED = GateResult(gate="command", blocks=False, code="command_passed")
_ACTIVATED = GateResult(gate="activation", blocks=False, code="activation_allowed")
