import pytest
from pydantic import ValidationError

from openab_kernel.facts.policy import AccessPolicy, BatchPolicy, ChannelPolicy
from openab_kernel.policies.admission import AdmissionFacts, decide
from openab_kernel.policies.channel_section import ChannelSection, admits_nobody


def access(**keys) -> AccessPolicy:
    return ChannelSection(**keys).policy().access


def is_admitted(policy: AccessPolicy, sender_id: str | None, *, kind="direct", is_bot=False) -> bool:
    facts = AdmissionFacts(kind=kind, channel_id="C1", sender_id=sender_id, is_bot=is_bot)
    return decide(facts, policy).admission.kind == "dispatch"


@pytest.mark.parametrize("kind", ["direct", "group", "channel"])
@pytest.mark.parametrize("keys", [{}, {"allowed_users": []}, {"allowed_users": [""]}, {"allowed_users": [" ", ""]}])
@pytest.mark.parametrize("allow_all", [{}, {"allow_all_users": False}])
def test_users_who_are_not_named_are_not_admitted(keys, allow_all, kind):
    policy = access(**keys, **allow_all)
    assert admits_nobody(policy)
    assert not any(is_admitted(policy, sender, kind=kind) for sender in ("U1", "", " ", None, "*"))


@pytest.mark.parametrize("kind", ["direct", "group", "channel"])
def test_allow_all_users_admits_everyone_but_the_empty_id(kind):
    policy = access(allow_all_users=True)
    assert is_admitted(policy, "U1", kind=kind)
    assert not any(is_admitted(policy, sender, kind=kind) for sender in ("", " ", None))
    assert not admits_nobody(policy)


@pytest.mark.parametrize("kind", ["direct", "group", "channel"])
def test_listed_user_is_admitted_by_the_exact_id_alone(kind):
    policy = access(allowed_users=["U1", ""])
    assert is_admitted(policy, "U1", kind=kind)
    assert not any(is_admitted(policy, sender, kind=kind) for sender in ("u1", "U1 ", "U", "", "Ann"))


def test_spaces_around_an_id_are_no_part_of_it():
    policy = access(allowed_users=[" U1\n"], allowed_channels=["C1 "], trusted_bot_ids=[" B1"])
    assert [*policy.allow_from, *(policy.allowed_channels or ()), *policy.trusted_bot_ids] == ["U1", "C1", "B1"]
    with pytest.raises(ValidationError, match="is no id"):
        access(allowed_users=[" * "])


def test_no_list_of_their_own_gives_groups_the_list_of_users():
    assert access(allowed_users=["U1"], group_allow_from=None).group_allow_from == {"U1"}


@pytest.mark.parametrize(
    ("keys", "channels"),
    [
        ({}, None),
        ({"allowed_channels": []}, None),
        ({"allow_all_channels": True, "allowed_channels": ["C1"]}, None),
        ({"allowed_channels": ["C1", ""]}, {"C1"}),
        ({"allow_all_channels": False, "allowed_channels": ["C1"]}, {"C1"}),
        ({"allow_all_channels": False}, set()),
        ({"allowed_channels": [""]}, set()),
    ],
)
def test_channels_are_every_one_unless_some_are_written(keys, channels):
    assert access(**keys).allowed_channels == channels


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"allowed_users": ["U"]}, ("allowlist", {"U"}, "allowlist", {"U"})),
        ({"allow_all_users": True, "allowed_users": ["U"]}, ("open", {"U", "*"}, "open", {"U"})),
        ({"allowed_users": ["U"], "group_allow_from": []}, ("allowlist", {"U"}, "allowlist", set())),
        ({"allowed_users": ["U"], "group_allow_from": ["V", ""]}, ("allowlist", {"U"}, "allowlist", {"V"})),
        ({"dm_policy": "open", "allowed_users": ["*", "U"]}, ("open", {"U", "*"}, "allowlist", {"U"})),
        ({"dm_policy": "open"}, ("open", set(), "allowlist", set())),
        ({"dm_policy": "pairing", "allow_all_users": False}, ("pairing", set(), "allowlist", set())),
        ({"dm_policy": "disabled", "group_policy": "open"}, ("disabled", set(), "open", set())),
        ({"dm_policy": "open", "group_policy": "open", "allow_all_users": True}, ("open", {"*"}, "open", set())),
    ],
)
def test_users_and_policies_fill_both_sender_lists(keys, expected):
    found = access(**keys)
    assert (found.dm_policy, found.allow_from, found.group_policy, found.group_allow_from) == expected


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"allow_all_users": True, "dm_policy": "allowlist"}, "dm_policy"),
        ({"allow_all_users": True, "dm_policy": "disabled"}, "dm_policy"),
        ({"allow_all_users": True, "dm_policy": "pairing"}, "dm_policy"),
        ({"allow_all_users": False, "dm_policy": "open"}, "dm_policy"),
        ({"allow_all_users": True, "group_policy": "allowlist"}, "group_policy"),
        ({"allow_all_users": False, "group_policy": "open"}, "group_policy"),
        ({"allow_all_channels": True, "group_policy": "disabled"}, "group_policy"),
        ({"allow_all_users": True, "group_allow_from": ["U"]}, "group_allow_from"),
        ({"group_policy": "open", "group_allow_from": ["U"]}, "group_allow_from"),
        ({"allowed_users": ["*"]}, "allowed_users"),
        ({"allowed_users": ["*"], "dm_policy": "allowlist"}, "allowed_users"),
        ({"group_allow_from": ["*"]}, "group_allow_from"),
        ({"allowed_channels": ["*"]}, "allowed_channels"),
        ({"trusted_bot_ids": ["*"]}, "trusted_bot_ids"),
        ({"allowed_users": [5]}, "allowed_users"),
        ({"api_base_url": "ftp://x"}, "api_base_url"),
        ({"gateway_url": "https://x"}, "gateway_url"),
        ({"message_processing_mode": "batched"}, "message_processing_mode"),
        ({"message_processing_mode": 5}, "message_processing_mode"),
        ({"allow_bot_messages": "some"}, "allow_bot_messages"),
        ({"allow_bot_messages": 1}, "allow_bot_messages"),
        ({"allowd_users": ["U"]}, "allowd_users"),
    ],
)
def test_key_that_contradicts_another_or_cannot_be_read_is_named(keys, place):
    with pytest.raises(ValidationError) as caught:
        ChannelSection(**keys)
    assert [error["loc"][0] for error in caught.value.errors()] == [place]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("off", "off"),
        ("None", "off"),
        ("false", "off"),
        (False, "off"),
        ("Mentions", "mentions"),
        ("ALL", "all"),
        ("true", "all"),
        (True, "all"),
    ],
)
def test_every_spelling_for_bots_is_read(written, meant):
    assert access(allow_bot_messages=written).allow_bots == meant


def test_bots_are_refused_unless_written_and_then_only_the_trusted():
    assert not is_admitted(access(allow_all_users=True), "B1", is_bot=True)
    assert is_admitted(access(allow_bot_messages="all"), "B1", is_bot=True)
    assert not is_admitted(access(allow_bot_messages="all", trusted_bot_ids=["B2"]), "B1", is_bot=True)


def test_list_of_blank_bots_trusts_none():
    assert not is_admitted(access(allow_bot_messages="all", trusted_bot_ids=[""]), "B1", is_bot=True)


@pytest.mark.parametrize("written", ["per-thread", "Per_Thread", "PER-THREAD"])
def test_mode_is_read_whatever_its_case_and_dashes(written):
    section = ChannelSection(message_processing_mode=written, max_buffered_messages=3, max_batch_tokens=99)
    expected = BatchPolicy(mode="per-thread", max_buffered_messages=3, max_batch_tokens=99)
    assert section.policy().batch == expected


def test_section_that_says_nothing_gives_the_closed_defaults():
    assert ChannelSection().policy() == ChannelPolicy()


def test_other_keys_reach_the_policy():
    section = ChannelSection(
        debounce_ms=5,
        history_limit=7,
        dm_scope="main",
        require_mention=False,
        api_base_url="http://127.0.0.1:1/",
        gateway_url="ws://127.0.0.1:1/",
    )
    policy = section.policy("other")
    assert (policy.agent_id, policy.debounce_ms, policy.history_limit) == ("other", 5, 7)
    assert (policy.dm_scope, policy.access.require_mention) == ("main", False)


def test_lists_with_a_blank_id_are_told():
    section = ChannelSection(allowed_users=("U", ""), trusted_bot_ids=(" ",), group_allow_from=("G",))
    assert section.blank_ids() == ("allowed_users", "trusted_bot_ids")


@pytest.mark.parametrize(
    ("keys", "nobody"),
    [
        ({"dm_policy": "disabled", "allowed_users": ["U"]}, False),
        ({"dm_policy": "disabled", "allowed_users": ["U"], "allow_all_channels": False}, True),
        ({"dm_policy": "disabled", "group_policy": "disabled", "allowed_users": ["U"]}, True),
        ({"dm_policy": "pairing"}, False),
        ({"group_policy": "open"}, False),
        ({"allow_bot_messages": "all"}, True),
    ],
)
def test_closed_door_is_found(keys, nobody):
    assert admits_nobody(access(**keys)) is nobody
