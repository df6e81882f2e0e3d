"""turn-kernel.md 10, as far as it is built: closed by default, allow lists, bots, mentions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.facts.access import AccessFacts, CommandAccess, DmAccess, GroupAccess, MentionFacts
from openab_kernel.facts.admission import Drop
from openab_kernel.facts.policy import AccessPolicy
from openab_kernel.policies.admission import AdmissionFacts, decide

OPEN = AccessPolicy(dm_policy="open", allow_from=frozenset({"*"}), group_policy="open", require_mention=False)
LISTED = AccessPolicy(allow_from=frozenset({"U1"}), group_allow_from=frozenset({"U1"}))


def ask(policy: AccessPolicy, kind: Any = "direct", **facts: Any) -> str:
    values: dict[str, Any] = {"channel_id": "C1", "sender_id": "U1", **facts}
    return decide(AdmissionFacts(kind=kind, **values), policy).reason_code


@pytest.mark.parametrize(
    ("policy", "kind", "facts", "code"),
    [
        (AccessPolicy(), "direct", {}, "dm_policy_not_allowlisted"),
        (AccessPolicy(), "group", {}, "group_policy_empty_allowlist"),
        (AccessPolicy(), "channel", {}, "group_policy_empty_allowlist"),
        (LISTED, "direct", {}, "allowed"),
        (LISTED, "direct", {"sender_id": "u1"}, "dm_policy_not_allowlisted"),
        (LISTED, "group", {}, "allowed"),
        (LISTED, "group", {"sender_id": "U2"}, "group_policy_not_allowlisted"),
        (OPEN, "direct", {}, "allowed"),
        (OPEN, "direct", {"sender_id": ""}, "sender_id_missing"),
        (OPEN, "direct", {"sender_id": None}, "sender_id_missing"),
        (OPEN, "group", {"sender_id": "  "}, "sender_id_missing"),
        (AccessPolicy(dm_policy="open"), "direct", {}, "dm_policy_not_allowlisted"),
        (AccessPolicy(dm_policy="open", allow_from=frozenset({"U1"})), "direct", {}, "allowed"),
        (OPEN.model_copy(update={"dm_policy": "disabled"}), "direct", {}, "dm_policy_disabled"),
        (OPEN.model_copy(update={"group_policy": "disabled"}), "group", {}, "group_policy_disabled"),
        (OPEN, "group", {}, "allowed"),
        (OPEN, "direct", {"is_self": True}, "self-echo"),
    ],
)
def test_sender_gate(policy: AccessPolicy, kind: str, facts: dict[str, Any], code: str) -> None:
    assert ask(policy, kind, **facts) == code


@pytest.mark.parametrize(
    ("channels", "facts", "code"),
    [
        (None, {}, "allowed"),
        (frozenset({"C1"}), {}, "allowed"),
        (frozenset({"C2"}), {}, "route_blocked"),
        (frozenset({"T1"}), {"thread_id": "T1"}, "allowed"),
        (frozenset(), {}, "route_blocked"),
    ],
)
def test_route_gate_asks_for_the_channel_of_a_group(channels: Any, facts: dict[str, Any], code: str) -> None:
    assert ask(OPEN.model_copy(update={"allowed_channels": channels}), "group", **facts) == code


def test_route_gate_does_not_ask_direct_chats() -> None:
    assert ask(OPEN.model_copy(update={"allowed_channels": frozenset()})) == "allowed"


SPOKEN_TO = AccessFacts(
    mentions=MentionFacts(can_detect_mention=True, was_mentioned=True, explicitly_mentioned_bot=True)
)


@pytest.mark.parametrize(
    ("allow", "trusted", "access", "sender", "code"),
    [
        ("off", (), AccessFacts(), "B1", "bot_not_allowed"),
        ("mentions", (), AccessFacts(), "B1", "bot_not_allowed"),
        ("mentions", (), SPOKEN_TO, "B1", "allowed"),
        ("all", (), AccessFacts(), "B1", "allowed"),
        ("all", ("B2",), AccessFacts(), "B1", "bot_not_allowed"),
        ("all", ("B1",), AccessFacts(), "B1", "allowed"),
        ("all", (), AccessFacts(), "", "bot_not_allowed"),
    ],
)
def test_bot_gate_decides_alone_about_bots(
    allow: Any, trusted: Any, access: AccessFacts, sender: str, code: str
) -> None:
    policy = LISTED.model_copy(update={"allow_bots": allow, "trusted_bot_ids": frozenset(trusted)})
    assert ask(policy, "direct", sender_id=sender, is_bot=True, access=access) == code


@pytest.mark.parametrize(
    ("dm", "code"),
    [
        (DmAccess(decision="allow"), "allowed"),
        (DmAccess(decision="deny"), "dm_policy_not_allowlisted"),
        (DmAccess(decision="deny", reason="dm_policy_disabled"), "dm_policy_disabled"),
    ],
)
def test_what_the_channel_says_of_a_direct_chat_is_used(dm: DmAccess, code: str) -> None:
    assert ask(AccessPolicy(), access=AccessFacts(dm=dm)) == code


@pytest.mark.parametrize(
    ("policy", "route", "sender", "code"),
    [
        ("open", True, True, "allowed"),
        ("allowlist", True, False, "group_policy_not_allowlisted"),
        ("allowlist", False, True, "group_policy_not_allowlisted"),
        ("disabled", True, True, "group_policy_not_allowlisted"),
    ],
)
def test_what_the_channel_says_of_a_group_is_used(policy: Any, route: bool, sender: bool, code: str) -> None:
    group = GroupAccess(policy=policy, route_allowed=route, sender_allowed=sender, require_mention=False)
    assert ask(AccessPolicy(), "group", access=AccessFacts(group=group)) == code


@pytest.mark.parametrize(
    ("kind", "mentions", "required", "code"),
    [
        ("group", {"can_detect_mention": True, "was_mentioned": True}, None, "allowed"),
        ("group", {"can_detect_mention": True, "was_mentioned": False}, None, "missing_mention"),
        ("group", {"can_detect_mention": False, "was_mentioned": False}, None, "allowed"),
        ("group", {"can_detect_mention": True, "was_mentioned": False, "require_mention": False}, None, "allowed"),
        (
            "group",
            {"can_detect_mention": True, "was_mentioned": False, "require_mention": False},
            True,
            "missing_mention",
        ),
        ("group", {"can_detect_mention": True, "was_mentioned": False}, False, "allowed"),
        ("direct", {"can_detect_mention": True, "was_mentioned": False}, None, "allowed"),
    ],
)
def test_activation_gate(kind: str, mentions: dict[str, Any], required: bool | None, code: str) -> None:
    policy = OPEN.model_copy(update={"require_mention": required})
    access = AccessFacts(mentions=MentionFacts.model_validate(mentions))
    assert ask(policy, kind, access=access) == code


def test_a_missed_mention_may_be_noted_down() -> None:
    mentions = MentionFacts(can_detect_mention=True, was_mentioned=False)
    facts = AdmissionFacts(kind="group", channel_id="C1", sender_id="U1", access=AccessFacts(mentions=mentions))
    decision = decide(facts, OPEN.model_copy(update={"require_mention": None}))
    assert decision.admission == Drop(reason="missing_mention", record_history=True)
    assert decision.decisive_gate == "activation"
    assert [gate.gate for gate in decision.gates] == ["self", "bot", "route", "sender", "command", "activation"]


@pytest.mark.parametrize(
    ("facts", "authorized", "code"),
    [
        ({"has_control_command": True}, True, "allowed"),
        ({}, False, "allowed"),
        ({"has_control_command": True, "proactive": True}, False, "control_command_unauthorized"),
        (
            {"has_control_command": True, "access": AccessFacts(commands=CommandAccess(authorized=False))},
            False,
            "control_command_unauthorized",
        ),
        (
            {"has_control_command": True, "access": AccessFacts(commands=CommandAccess(authorized=True))},
            True,
            "allowed",
        ),
    ],
)
def test_command_gate(facts: dict[str, Any], authorized: bool, code: str) -> None:
    decision = decide(AdmissionFacts(kind="direct", channel_id="C1", sender_id="U1", **facts), OPEN)
    assert (decision.command_authorized, decision.reason_code) == (authorized, code)


@pytest.mark.parametrize(("somebody", "code"), [(None, "allowed"), (True, "missing_mention")])
def test_a_command_needs_no_mention_unless_somebody_else_was_spoken_to(somebody: bool | None, code: str) -> None:
    mentions = MentionFacts(can_detect_mention=True, was_mentioned=False, has_any_mention=somebody)
    policy = OPEN.model_copy(update={"require_mention": True})
    assert ask(policy, "group", has_control_command=True, access=AccessFacts(mentions=mentions)) == code


def test_observe_only_holds_where_every_gate_passes() -> None:
    facts = AdmissionFacts(kind="direct", channel_id="C1", sender_id="U1")
    assert decide(facts, OPEN.model_copy(update={"observe_only": True})).admission.kind == "observeOnly"


ids = st.none() | st.text(max_size=3)
facts = st.builds(
    AdmissionFacts,
    kind=st.sampled_from(["direct", "group", "channel"]),
    channel_id=st.text(max_size=3),
    thread_id=ids,
    sender_id=ids,
    is_bot=st.booleans(),
    is_self=st.booleans(),
    proactive=st.booleans(),
    has_control_command=st.booleans(),
    access=st.builds(
        AccessFacts,
        mentions=st.none() | st.builds(MentionFacts, can_detect_mention=st.booleans(), was_mentioned=st.booleans()),
    ),
)
lists = st.frozensets(st.text(max_size=3), max_size=3)


@given(facts, st.sampled_from(["allowlist", "open", "pairing", "disabled"]), st.sampled_from(["allowlist", "disabled"]))
def test_a_policy_that_names_nobody_admits_nobody(found: AdmissionFacts, dm: Any, group: Any) -> None:
    """agent 15.35"""
    assert decide(found, AccessPolicy(dm_policy=dm, group_policy=group)).admission.kind == "drop"


@given(facts, lists, lists, st.sampled_from(["off", "mentions", "all"]))
def test_a_decision_is_made_of_any_facts_and_an_empty_id_is_nobody(
    found: AdmissionFacts, people: frozenset[str], group: frozenset[str], bots: Any
) -> None:
    """agent 15.35"""
    policy = AccessPolicy(
        dm_policy="open", allow_from=people | {"*"}, group_policy="open", group_allow_from=group, allow_bots=bots
    )
    decision = decide(found, policy)
    assert decision.admission.kind in ("dispatch", "drop")
    if not (found.sender_id or "").strip():
        assert decision.admission.kind == "drop"
