"""What the parts of ACP mean to us (agent.md 3.2, 4.1, 5.1)."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.agent.acp.mapping import (
    REMEMBERED_TOOL_CALLS,
    WANTED_OPTIONS,
    UpdateMapper,
    choose_option,
    login_hint,
    read_stop,
)
from openab_kernel.facts.agent_update import (
    BubbleIgnored,
    BubbleMessage,
    ConfigOptions,
    Stopped,
    TextChunk,
    Thought,
    ToolActivity,
    UnknownUpdate,
)

TEXT = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("update", "found"),
    [
        ({"sessionUpdate": "agent_message_chunk", "content": TEXT}, TextChunk("hi")),
        ({"sessionUpdate": "agent_message_chunk", "content": {"text": ""}, "messageId": 5}, TextChunk("")),
        ({"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}}, UnknownUpdate("agent_message_chunk")),
        (
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}},
            UnknownUpdate("agent_message_chunk"),
        ),
        ({"sessionUpdate": "agent_message_chunk", "content": [TEXT]}, UnknownUpdate("agent_message_chunk")),
        ({"sessionUpdate": "agent_message_chunk"}, UnknownUpdate("agent_message_chunk")),
        ({"sessionUpdate": "agent_thought_chunk", "content": TEXT}, Thought()),
        ({"sessionUpdate": "agent_thought_chunk"}, Thought()),
        (
            {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "status": "pending", "kind": "read"},
            ToolActivity("t", "look", "pending", "read", is_new=True),
        ),
        (
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": 5, "status": [], "rawOutput": "x"},
            ToolActivity("t", None, None, None, is_new=True),
        ),
        ({"sessionUpdate": "tool_call", "toolCallId": 5}, UnknownUpdate("tool_call")),
        ({"sessionUpdate": "openab_message", "id": "b", "content": {"text": "hi"}}, BubbleMessage("b", "hi")),
        ({"sessionUpdate": "openab_message", "id": 5, "content": TEXT}, BubbleMessage("", "hi")),
        ({"sessionUpdate": "openab_message", "content": {"type": "x", "text": ""}}, BubbleMessage("", "")),
        ({"sessionUpdate": "openab_message", "content": {"text": None}}, BubbleIgnored("no_text")),
        ({"sessionUpdate": "openab_message", "content": "hi"}, BubbleIgnored("no_text")),
        ({"sessionUpdate": "openab_message"}, BubbleIgnored("no_text")),
        ({"sessionUpdate": "config_option_update", "configOptions": [{"id": "a"}, 5]}, ConfigOptions(({"id": "a"},))),
        ({"sessionUpdate": "config_option_update", "configOptions": {}}, UnknownUpdate("config_option_update")),
        ({"sessionUpdate": "plan", "entries": []}, UnknownUpdate("plan")),
        ({"sessionUpdate": "user_message_chunk", "content": TEXT}, UnknownUpdate("user_message_chunk")),
        ({"sessionUpdate": "of_tomorrow"}, UnknownUpdate("of_tomorrow")),
        ({"sessionUpdate": ["x"]}, UnknownUpdate("")),
        ({}, UnknownUpdate("")),
        (None, UnknownUpdate("")),
        ([], UnknownUpdate("")),
    ],
)
def test_update_is_mapped(update, found):
    assert UpdateMapper().map(update) == found


def is_new(mapper, call_id):
    update = mapper.map({"sessionUpdate": "tool_call_update", "toolCallId": call_id})
    assert isinstance(update, ToolActivity)
    return update.is_new


def test_tool_call_is_new_once():
    mapper = UpdateMapper()
    assert [is_new(mapper, "t") for _ in range(3)] == [True, False, False]


def test_no_more_than_so_many_tool_calls_are_remembered():
    mapper = UpdateMapper()
    for number in range(REMEMBERED_TOOL_CALLS + 1):
        assert is_new(mapper, str(number))
    assert is_new(mapper, "0")
    assert not is_new(mapper, "2")


KINDS = st.sampled_from(
    ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "openab_message", "plan", "x"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
    max_leaves=5,
)


@given(st.fixed_dictionaries({"sessionUpdate": KINDS}, optional=dict.fromkeys(
    ("content", "toolCallId", "title", "status", "kind", "id", "configOptions"), VALUES)))  # fmt: skip
def test_no_update_raises(update):
    UpdateMapper().map(update)


def options(*kinds):
    return [{"optionId": f"id-{kind}", "name": kind, "kind": kind} for kind in kinds]


ORDERS = {
    "reject": ["reject_once", "reject_always"],
    "allow_once": ["allow_once", "reject_once", "reject_always"],
    "allow_always": ["allow_always", "allow_once", "reject_once", "reject_always"],
}
ALL_KINDS = ["allow_once", "allow_always", "reject_once", "reject_always"]


@pytest.mark.parametrize("policy", ORDERS)
@pytest.mark.parametrize("offered", [kinds for size in range(5) for kinds in permutations(ALL_KINDS, size)])
def test_permission_takes_the_first_kind_of_its_policy_that_is_offered(policy, offered):
    expected = next((kind for kind in ORDERS[policy] if kind in offered), None)
    chosen = choose_option(WANTED_OPTIONS[policy], options(*offered))
    assert chosen == (expected and (expected, f"id-{expected}"))


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([{"optionId": "a", "kind": "allow_once"}, {"optionId": "b", "kind": "allow_once"}], ("allow_once", "a")),
        ([{"optionId": 5, "kind": "allow_once"}, {"kind": "allow_once"}, "allow_once", None], None),
        ([{"optionId": "a", "kind": ["allow_once"]}, {"optionId": "b"}], None),
        ([{"optionId": "allow_once", "kind": "of_tomorrow"}], None),
        ([], None),
        ({"optionId": "a", "kind": "allow_once"}, None),
        (None, None),
    ],
)
def test_option_that_was_not_offered_in_order_is_never_chosen(offered, chosen):
    assert choose_option(WANTED_OPTIONS["allow_once"], offered) == chosen


@pytest.mark.parametrize(
    ("result", "kind", "stopped"),
    [
        ({"stopReason": "end_turn"}, "ordinary", Stopped("end_turn")),
        ({"stopReason": "max_tokens"}, "cut_short", Stopped("max_tokens")),
        ({"stopReason": "max_turn_requests"}, "cut_short", Stopped("max_turn_requests")),
        ({"stopReason": "refusal"}, "refused", Stopped("refusal")),
        ({"stopReason": "cancelled"}, "cancelled", Stopped("cancelled")),
        ({"stopReason": "of_tomorrow"}, "unknown", Stopped("of_tomorrow")),
        ({"stopReason": 5}, "unknown", Stopped(None)),
        ({}, "unknown", Stopped(None)),
        (None, "unknown", Stopped(None)),
        ({"stopReason": "end_turn", "usage": {"outputTokens": 0}}, "ordinary", Stopped("end_turn", output_tokens=0)),
        ({"stopReason": "end_turn", "usage": {"outputTokens": True}}, "ordinary", Stopped("end_turn")),
        ({"stopReason": "end_turn", "usage": {"outputTokens": -1}}, "ordinary", Stopped("end_turn")),
        ({"stopReason": "end_turn", "usage": 7}, "ordinary", Stopped("end_turn")),
    ],
)
def test_answer_to_a_prompt_is_read(result, kind, stopped):
    assert read_stop(result) == (kind, stopped)


@pytest.mark.parametrize(
    ("methods", "hint"),
    [
        ([{"_meta": {"terminal-auth": {"command": "a", "args": ["login", 5]}}, "name": "x"}], "a login 5"),
        ([{"_meta": {"terminal-auth": {"command": "a", "args": 5}}}], "a"),
        ([{"_meta": {"terminal-auth": {"command": 5}}, "description": "Run `a`"}], "Run `a`"),
        ([{"_meta": 5, "description": "", "name": "Key"}, {"name": "Other"}], "Key; Other"),
        ([{"id": "a"}, 5], ""),
        ([], ""),
        (None, ""),
    ],
)
def test_login_is_told_in_the_agents_own_words(methods, hint):
    assert login_hint(methods) == hint
