"""What the agent asks of us (agent.md 4), and what of it is logged."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from openab_kernel.errors import AgentProtocolError
from openab_kernel.facts.agent_update import Stopped, TextChunk
from openab_kernel.redact import Redactor
from openab_kernel.testing.scripted_agent import (
    ask,
    ask_permission,
    chunk,
    fail,
    frame,
    gate,
    noise,
    stderr,
    stop,
    stop_reading,
)

ALL_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


def outcomes(script):
    return [answer["result"]["outcome"] for answer in script.answers]


@pytest.mark.parametrize(
    ("policy", "chosen"), [("reject", "option-3"), ("allow_once", "option-1"), ("allow_always", "option-2")]
)
async def test_permission_is_answered_by_the_policy_and_the_turn_goes_on(kit, policy, chosen):
    script = kit.script([[ask_permission(*ALL_KINDS), chunk("done")]])
    async with kit.running(kit.pool(script, permission=policy)) as pool:
        assert await kit.ask(pool) == [TextChunk("done"), Stopped("end_turn")]
    assert outcomes(script) == [{"outcome": "selected", "optionId": chosen}]


async def test_permission_without_a_fitting_option_is_cancelled(kit):
    script = kit.script([[ask_permission(), ask_permission("allow_once")]])
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
    assert outcomes(script) == [{"outcome": "cancelled"}] * 2


async def test_permission_asked_during_a_cancel_is_cancelled(kit):
    script = kit.script([[gate("cancelled"), ask_permission("allow_once"), stop("cancelled")], []], on_cancel="ignore")
    async with kit.running(kit.pool(script, permission="allow_once")) as pool:
        async with pool.turn(kit.key) as turn:
            turn.prompt([{"type": "text", "text": "go"}])
            await script.until_at("cancelled")
            await pool.cancel(kit.key)
            script.release("cancelled")
        await kit.ask(pool)
    assert outcomes(script) == [{"outcome": "cancelled"}]


async def test_shell_command_that_calls_itself_a_reply_is_not_allowed(kit):
    script = kit.script([[ask_permission(*ALL_KINDS, title="openab reply", raw_input={"command": "rm -rf /"})]])
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
    assert outcomes(script) == [{"outcome": "selected", "optionId": "option-3"}]


async def test_first_refusal_of_a_session_is_a_warning_that_names_the_key(kit):
    steps = [ask_permission(*ALL_KINDS, title="x" * 100), ask_permission(*ALL_KINDS, title="b", kind="edit")]
    async with kit.running(kit.pool(kit.script([steps]))) as pool:
        await kit.ask(pool)
    first, second = kit.logged("permission.answered")
    assert (first["log_level"], first["setting"]) == ("warning", "[agent] permission")
    assert (first["tool_kind"], first["decision"], len(first["title"])) == ("execute", "reject_once", 80)
    assert (second["log_level"], second["tool_kind"], second["title"]) == ("info", "edit", "b")


async def test_every_other_request_is_refused_and_ends_no_call_of_ours(kit):
    steps = [
        ask("fs/read_text_file", path="/etc/passwd"),
        ask("nobody/knows", same_id=True),
        ask("terminal/create", command="ls"),
        frame(method="nobody/asks", params=[]),
        frame(id=99, result={}),
        frame(id="1", result={}),
        chunk("still here"),
    ]
    script = kit.script([steps])
    async with kit.running(kit.pool(script)) as pool:
        assert await kit.ask(pool) == [TextChunk("still here"), Stopped("end_turn")]
    assert [answer["error"]["code"] for answer in script.answers] == [-32601] * 3
    assert script.answers[1]["id"] == script.received("session/prompt")[0]["id"]
    assert [line["reason"] for line in kit.logged("frame.dropped")] == ["unknown_id"] * 2


async def test_agent_that_asks_and_does_not_read_is_not_read_either(kit):
    flood = [ask("nobody/knows", waits=False, text="x" * 100)] * 5000
    script = kit.script([[stop_reading(), *flood, gate("flooded")]])
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(kit.ask, pool)
        await kit.until(lambda: len(kit.logged("request.refused")) > 1024)
        seen = -1
        while seen != len(kit.logged("request.refused")):
            seen = len(kit.logged("request.refused"))
            for _ in range(200):
                await checkpoint()
        assert seen < 5000
        tasks.cancel_scope.cancel()


async def test_no_secret_of_ours_is_in_any_line_at_any_level(kit):
    secret = "tok-3f9a8b7c6d5e"
    steps = [
        noise(f"{'x' * 190}{secret}"),
        stderr(f"{'y' * 490}{secret}"),
        ask_permission(title=f"{'z' * 70}{secret}"),
        ask(f"method/{secret}"),
        fail(-32000, f"{'w' * 190}{secret}"),
    ]
    login = [{"id": "a", "name": f"use {secret}"}]
    script = kit.script([steps], initialize={"authMethods": login, "agentInfo": {"name": secret, "version": secret}})
    async with kit.running(kit.pool(script, redact=Redactor([secret]))) as pool:
        with pytest.raises(AgentProtocolError) as raised:
            await kit.ask(pool)
        await kit.until(lambda: kit.logged("agent.stderr"))
        assert secret[:6] not in await pool.describe(kit.key)
    assert secret[:6] not in str(raised.value)
    assert {
        "agent.noise",
        "agent.stderr",
        "permission.answered",
        "request.refused",
        "call.failure_told",
        "agent.login_required",
    } <= {line["event"] for line in kit.logs}
    assert secret[:6] not in str(kit.logs)
