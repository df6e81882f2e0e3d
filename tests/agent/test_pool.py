"""The session pool (agent.md 6, 10): which process a conversation has, and when."""

import os
import shlex
from typing import Any

import anyio
import pytest

from openab_kernel.agent.acp.process import zombie_children
from openab_kernel.errors import AgentBusy, AgentGone, AgentProtocolError, AgentSpawnError, AgentTimeout
from openab_kernel.facts.agent_update import AgentUpdate, Stopped, TextChunk
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.testing.clock import settle
from openab_kernel.testing.scripted_agent import (
    answer,
    chunk,
    die,
    fail,
    fork,
    gate,
    hang,
    ignore_sigterm,
    leave,
    stop,
    update,
)

CANCELLED = Stopped("cancelled", by_request=True)


def key_of(number, **changes):
    return SessionKey("main", None, "discord", "bot", "channel", str(number))._replace(**changes)


def texts(updates):
    return [update.text for update in updates if isinstance(update, TextChunk)]


def methods(script):
    return [frame.get("method") for frame in script.received()]


# Sessions and their keys


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            SessionKey("main", None, "a", "b:c", "channel", None),
            SessionKey("main", None, "a:b", "c", "channel", None),
        ),
        (
            SessionKey("main", None, "discord", "bot", "channel", "7", None),
            SessionKey("main", None, "discord", "bot", "channel", "1", "7"),
        ),
    ],
)
async def test_keys_that_look_alike_have_two_sessions(kit, one, other):
    script = kit.script()
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool, key=one)
        await kit.ask(pool, key=other)
    assert len(script.received("session/new")) == 2
    assert kit.store.rows[one].agent_session_id != kit.store.rows[other].agent_session_id


async def test_first_session_is_stored_and_owes_no_notice(kit):
    script = kit.script()
    async with kit.running(kit.pool(script)) as pool, pool.turn(kit.key) as turn:
        assert not turn.started_afresh
    [new] = script.received("session/new")
    row = kit.store.rows[kit.key]
    assert new["params"] == {"cwd": row.cwd, "mcpServers": []}
    assert row.agent_command == shlex.join(script.command)
    assert script.received("initialize")[0]["params"] == {
        "protocolVersion": 1,
        "clientCapabilities": {},
        "clientInfo": {"name": "openab-kernel", "version": "0"},
    }


async def test_meta_is_told_to_the_agent(kit):
    script = kit.script()
    meta = {"openab.reply": {"mode": "text", "schema": "s", "max_bubbles": 4, "max_bubble_chars": 1200}}
    async with kit.running(kit.pool(script, meta=meta)) as pool:
        await kit.ask(pool)
    assert script.received("initialize")[0]["params"]["clientCapabilities"] == {"_meta": meta}


async def test_one_key_being_made_ready_does_not_hold_up_another(kit):
    script = kit.script(on={"session/new": [gate("slow")]}, by_text={"one": [chunk("1")], "two": [chunk("2")]})
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(kit.ask, pool, "one", key_of(1))
        await script.until_at("slow")
        tasks.start_soon(kit.ask, pool, "two", key_of(2))
        await script.until_at("slow", times=2)
        script.release("slow", times=2)


async def test_two_turns_of_one_key_make_one_session_and_take_turns(kit):
    script = kit.script([[gate("first"), chunk("1")], [chunk("2")]], on={"session/new": [gate("slow")]})
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(kit.ask, pool)
        tasks.start_soon(kit.ask, pool)
        await script.until_at("slow")
        script.release("slow")
        await script.until_at("first")
        assert len(script.prompts) == 1
        script.release("first")
    assert len(script.prompts) == 2
    assert len(script.pids) == 1


# What goes wrong while a session is made ready


async def test_missing_program_is_named(kit):
    script = kit.script()
    pool = kit.pool(script)
    pool._command = ["/nowhere/agent"]
    async with kit.running(pool):
        with pytest.raises(AgentSpawnError, match=r"/nowhere/agent.*\[agent\] command"):
            await kit.ask(pool)


async def test_missing_directory_is_named(kit):
    pool = kit.pool(kit.script())
    pool._cwd = "/nowhere"
    async with kit.running(pool):
        with pytest.raises(AgentSpawnError, match=r"/nowhere.*\[agent\] working_dir"):
            await kit.ask(pool)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([answer(result={"protocolVersion": 2})], "version 2, the kernel 1"),
        ([answer(result=[])], "version None, the kernel 1"),
        ([leave(4)], "ended with status 4"),
    ],
)
async def test_agent_that_is_none_of_ours_is_given_up(kit, steps, text):
    async with kit.running(kit.pool(kit.script(on={"initialize": steps}))) as pool:
        with pytest.raises(AgentSpawnError, match=text):
            await kit.ask(pool)
    assert len(kit.logged("agent.exited")) == 1


async def test_session_without_an_id_is_a_protocol_error(kit):
    async with kit.running(kit.pool(kit.script(on={"session/new": [answer(result={"sessionId": 5})]}))) as pool:
        with pytest.raises(AgentProtocolError, match="sessionId"):
            await kit.ask(pool)


async def test_agent_that_wants_a_login_is_told_in_the_log(kit):
    login = {"id": "x", "name": "Log in", "_meta": {"terminal-auth": {"command": "agent", "args": ["login"]}}}
    script = kit.script(initialize={"authMethods": [login]}, on={"session/new": [fail(-32000, "auth")]})
    async with kit.running(kit.pool(script)) as pool:
        with pytest.raises(AgentProtocolError):
            await kit.ask(pool)
    assert kit.logged("agent.login_required")[0]["way_out"] == "agent login"
    assert "authenticate" not in methods(script)


async def test_session_new_may_take_120_seconds(kit):
    script = kit.script(on={"session/new": [gate("slow")]})
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:

        async def ask():
            with pytest.raises(AgentTimeout) as raised:
                await kit.ask(pool)
            assert raised.value.watchdog == "session/new"

        tasks.start_soon(ask)
        await script.until_at("slow")
        await kit.clock.advance(119)
        assert not kit.logged("agent.exited")
        await kit.clock.advance(1)
    assert not kit.store.rows


async def test_turn_of_a_pool_that_does_not_run_fails(kit):
    pool = kit.pool(kit.script())
    with pytest.raises(AgentGone, match="does not run"):
        async with pool.turn(kit.key):
            pass


# Death and resume


async def test_death_fails_the_turn_and_the_waiting_message_resumes_in_a_new_process(kit):
    script = kit.script([[chunk("1"), chunk("2"), chunk("3"), gate("die"), die()], [chunk("again")]])
    first: list[AgentUpdate] = []
    second: list[AgentUpdate] = []
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:

        async def fail_first():
            with pytest.raises(AgentGone):
                await kit.ask(pool, into=first)

        tasks.start_soon(fail_first)
        await script.until_at("die")
        tasks.start_soon(kit.ask, pool, "two", kit.key, second)
        script.release("die")
    assert texts(first) == ["1", "2", "3"]
    assert texts(second) == ["again"]
    assert len(script.pids) == 2
    assert len(script.received("session/new")) == len(script.received("session/load")) == 1
    exited = kit.logged("agent.exited")[0]
    assert (exited["exit_status"], exited["log_level"]) == (-9, "warning")
    assert exited["session_key"] == str(kit.key)


async def stored_session(kit, script, **changes):
    """A pool of an earlier life left a session behind."""
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
    row = kit.store.rows[kit.key]
    kit.store.rows[kit.key] = row.model_copy(update=changes)
    return row.agent_session_id


async def test_stored_session_is_loaded_and_goes_on(kit):
    script = kit.script()
    session_id = await stored_session(kit, script)
    async with kit.running(kit.pool(script)) as pool, pool.turn(kit.key) as turn:
        assert not turn.started_afresh
    [load] = script.received("session/load")
    assert load["params"] == {"sessionId": session_id, "cwd": kit.store.rows[kit.key].cwd, "mcpServers": []}
    assert len(script.received("session/new")) == 1


@pytest.mark.parametrize("why", ["error", "not advertised", "other command"])
async def test_session_that_is_lost_for_good_starts_afresh_and_owes_a_notice_once(kit, why):
    script = kit.script(on={"session/load": [fail()]} if why == "error" else {}, loads_sessions=why != "not advertised")
    old = await stored_session(kit, script, **({"agent_command": "other"} if why == "other command" else {}))
    async with kit.running(kit.pool(script)) as pool:
        async with pool.turn(kit.key) as turn:
            assert turn.started_afresh
        async with pool.turn(kit.key) as turn:
            assert not turn.started_afresh
    assert kit.store.rows[kit.key].agent_session_id != old
    assert len(script.received("session/load")) == (1 if why == "error" else 0)


async def test_resume_that_times_out_fails_the_turn_and_keeps_the_id(kit):
    script = kit.script(on={"session/load": [hang()]})
    session_id = await stored_session(kit, script)
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:

        async def ask():
            with pytest.raises(AgentTimeout):
                await kit.ask(pool)

        tasks.start_soon(ask)
        await script.until_at("hang")
        await kit.clock.advance(30)
    assert kit.store.rows[kit.key].agent_session_id == session_id


async def test_resume_that_is_cut_by_a_death_fails_the_turn_and_keeps_the_id(kit):
    script = kit.script(on={"session/load": [die()]})
    session_id = await stored_session(kit, script)
    async with kit.running(kit.pool(script)) as pool:
        with pytest.raises(AgentGone):
            await kit.ask(pool)
    assert kit.store.rows[kit.key].agent_session_id == session_id


async def test_session_that_dies_between_turns_is_resumed(kit):
    script = kit.script([[stop(), leave()], [chunk("again")]])
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
        await kit.until(lambda: kit.logged("agent.exited"))
        assert texts(await kit.ask(pool)) == ["again"]
    assert methods(script).count("session/load") == 1


# Slots


async def fill(kit, pool, script, number):
    for n in range(number):
        await kit.ask(pool, key=key_of(n))
        await kit.clock.advance(1)


async def test_eleventh_conversation_suspends_the_one_that_was_idle_longest(kit):
    script = kit.script()
    async with kit.running(kit.pool(script)) as pool:
        await fill(kit, pool, script, 10)
        await kit.ask(pool, key=key_of(0))
        await kit.ask(pool, key=key_of(10))
        assert [line["session_key"] for line in kit.logged("session.stopped")] == [str(key_of(1))]
        await kit.until_gone([script.pids[1]])
        assert all(kit.is_running(pid) for n, pid in enumerate(script.pids) if n != 1)
        await kit.ask(pool, "back", key_of(1))
    session_id = kit.store.rows[key_of(1)].agent_session_id
    assert [load["params"]["sessionId"] for load in script.received("session/load")] == [session_id]


@pytest.fixture
def busy_script(kit):
    return kit.script(by_text={"work": [gate("busy")], "wait": [chunk("served")]})


async def keep_busy(kit, pool, script, tasks, number):
    for n in range(number):
        tasks.start_soon(kit.ask, pool, "work", key_of(n))
    await script.until_at("busy", times=number)


async def test_turn_without_a_free_session_waits_for_one(kit, busy_script):
    updates: list[AgentUpdate] = []
    async with kit.running(kit.pool(busy_script)) as pool, anyio.create_task_group() as tasks:
        await keep_busy(kit, pool, busy_script, tasks, 10)
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(kit.ask, pool, "wait", key_of(10), updates)
            await kit.clock.advance(30)
            assert len(busy_script.pids) == 10
            busy_script.release("busy")
        busy_script.release("busy", times=9)
    assert texts(updates) == ["served"]


async def test_turn_without_a_free_session_fails_after_60_seconds(kit, busy_script):
    async with kit.running(kit.pool(busy_script, {"max_sessions": 2})) as pool, anyio.create_task_group() as tasks:
        await keep_busy(kit, pool, busy_script, tasks, 2)
        failed = []

        async def ask():
            with pytest.raises(AgentBusy):
                await kit.ask(pool, "wait", key_of(10))
            failed.append(kit.clock.monotonic())

        tasks.start_soon(ask)
        await settle()
        await kit.clock.advance(70)
        assert failed == [60]
        busy_script.release("busy", times=2)
    assert len(busy_script.pids) == 2
    assert key_of(10) not in pool._sessions


async def test_session_whose_fence_ends_makes_room_for_the_one_that_waits(kit):
    script = kit.script(by_text={"work": [gate("busy")], "wait": [chunk("served")]}, on_cancel="ignore")
    updates: list[AgentUpdate] = []
    async with kit.running(kit.pool(script, {"max_sessions": 1})) as pool:
        async with pool.turn(kit.key) as turn:
            turn.prompt([{"type": "text", "text": "work"}])
            await script.until_at("busy")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.ask, pool, "wait", key_of(2), updates)
            await script.until_received("session/cancel")
            assert len(script.pids) == 1
            script.release("busy")
    assert texts(updates) == ["served"]


async def test_idle_session_is_suspended_after_its_time_and_a_busy_one_is_not(kit, busy_script):
    pool = kit.pool(busy_script, {"session_ttl_hours": 1, "prompt_hard_timeout_secs": 9999})
    async with kit.running(pool), anyio.create_task_group() as tasks:
        await keep_busy(kit, pool, busy_script, tasks, 1)
        await kit.ask(pool, "wait", key_of(1))
        await kit.clock.advance(3540)
        assert not kit.logged("session.stopped")
        await kit.clock.advance(120)
        suspended = [(line["session_key"], line["reason"]) for line in kit.logged("session.stopped")]
        assert suspended == [(str(key_of(1)), "ttl")]
        await kit.until(lambda: not kit.is_running(busy_script.pids[1]) and key_of(1) not in pool._sessions)
        busy_script.release("busy")


# Cancel and reset


async def test_cancel_during_session_new_ends_the_turn_and_leaves_nothing(kit):
    script = kit.script([[chunk("{prompt}")]], on={"session/new": [gate("slow")]})
    updates: list[AgentUpdate] = []
    async with kit.running(kit.pool(script)) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.ask, pool, "one", kit.key, updates)
            await script.until_at("slow")
            assert await pool.cancel(kit.key)
            assert not await pool.cancel(kit.key)
        assert updates == [CANCELLED]
        assert not kit.store.rows
        await kit.until_gone([script.pid])
        script.release("slow")
        assert texts(await kit.ask(pool, "two")) == ["two"]
    assert [blocks[0]["text"] for blocks in script.prompts] == ["two"]
    assert len(script.pids) == 2


async def test_task_that_is_cancelled_during_session_new_leaves_nothing(kit):
    script = kit.script(on={"session/new": [gate("slow")]})
    async with kit.running(kit.pool(script)) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.ask, pool)
            await script.until_at("slow")
            tasks.cancel_scope.cancel()
        await kit.until(lambda: not kit.is_running(script.pid) and not pool._sessions)
        script.release("slow")
        assert texts(await kit.ask(pool, "two")) == ["two"]


async def test_cancel_while_waiting_for_a_session_gives_the_place_up(kit, busy_script):
    updates: list[AgentUpdate] = []
    async with kit.running(kit.pool(busy_script, {"max_sessions": 1})) as pool, anyio.create_task_group() as tasks:
        await keep_busy(kit, pool, busy_script, tasks, 1)
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(kit.ask, pool, "wait", key_of(1), updates)
            await settle()
            assert await pool.cancel(key_of(1))
        assert updates == [CANCELLED]
        busy_script.release("busy")
    assert len(busy_script.pids) == 1


async def test_cancel_before_the_prompt_sends_none(kit):
    script = kit.script()
    async with kit.running(kit.pool(script)) as pool, pool.turn(kit.key) as turn:
        assert await pool.cancel(kit.key)
        assert [update async for update in turn.prompt([])] == [CANCELLED]
    assert not script.prompts


async def test_cancel_with_nothing_running_says_so(kit):
    async with kit.running(kit.pool(kit.script())) as pool:
        assert not await pool.cancel(kit.key)
        await kit.ask(pool)
        assert not await pool.cancel(kit.key)


async def test_reset_forgets_the_session_and_owes_no_notice(kit):
    script = kit.script()
    async with kit.running(kit.pool(script)) as pool:
        assert not await pool.reset(kit.key)
        await kit.ask(pool)
        assert await pool.reset(kit.key)
        assert not kit.is_running(script.pid)
        assert not kit.store.rows
        async with pool.turn(kit.key) as turn:
            assert not turn.started_afresh
    assert methods(script).count("session/new") == 2


async def test_reset_of_a_suspended_session_forgets_it(kit):
    script = kit.script()
    await stored_session(kit, script)
    async with kit.running(kit.pool(script)) as pool:
        assert await pool.reset(kit.key)
    assert not kit.store.rows


async def test_reset_during_a_turn_ends_it_as_cancelled_and_the_waiting_message_opens_the_new_session(kit):
    script = kit.script([[chunk("a"), hang()], [chunk("{prompt}")]], on_cancel="ignore")
    first: list[AgentUpdate] = []
    second: list[AgentUpdate] = []
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(kit.ask, pool, "one", kit.key, first)
        await script.until_at("hang")
        tasks.start_soon(kit.ask, pool, "two", kit.key, second)
        assert await pool.reset(kit.key)
    assert first[-1] == CANCELLED
    assert texts(second) == ["two"]
    assert methods(script).count("session/new") == 2
    assert "session/load" not in methods(script)


async def test_reset_during_session_new_leaves_no_row_behind(kit):
    script = kit.script(on={"session/new": [gate("slow")]})
    updates: list[AgentUpdate] = []
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(kit.ask, pool, "one", kit.key, updates)
        await script.until_at("slow")
        assert await pool.reset(kit.key)
    assert updates == [CANCELLED]
    assert not kit.store.rows


# Models and name


MODEL: dict[str, Any] = {
    "id": "model",
    "category": "model",
    "type": "select",
    "currentValue": "big",
    "options": [{"value": "small", "name": "S"}, {"value": "big", "name": "B"}],
}
MODELS = {"configOptions": [{"id": "mode", "category": "mode", "options": []}, MODEL]}


async def test_models_and_the_one_in_use_are_told(kit):
    changed = [{**MODEL, "currentValue": "small"}]
    script = kit.script([[chunk("a")], [update("config_option_update", configOptions=changed)]], session=MODELS)
    async with kit.running(kit.pool(script)) as pool:
        assert await pool.models(kit.key) == "No session is open here; send a message first."
        await kit.ask(pool)
        assert await pool.models(kit.key) == "Models:\nsmall\nbig (in use)"
        await kit.ask(pool)
        assert await pool.models(kit.key) == "Models:\nsmall (in use)\nbig"


async def test_agent_is_described_by_its_own_name_and_version(kit):
    async with kit.running(kit.pool(kit.script(initialize={"agentInfo": {"name": "a\nb", "version": "2"}}))) as pool:
        assert await pool.describe(kit.key) == "main (not started yet)"
        await kit.ask(pool)
        assert await pool.describe(kit.key) == r"a\nb 2"


async def test_default_options_are_set_after_session_new_alone(kit):
    set_option = [answer(result=MODELS)]
    script = kit.script(on={"session/set_config_option": set_option})
    settings = {"default_config_options": {"model": "big", "web": True}}
    async with kit.running(kit.pool(script, settings)) as pool:
        await kit.ask(pool)
        assert await pool.models(kit.key) == "Models:\nsmall\nbig (in use)"
    async with kit.running(kit.pool(script, settings)) as pool:
        await kit.ask(pool)
    session_id = kit.store.rows[kit.key].agent_session_id
    assert [frame["params"] for frame in script.received("session/set_config_option")] == [
        {"sessionId": session_id, "configId": "model", "value": "big"},
        {"sessionId": session_id, "configId": "web", "value": True, "type": "boolean"},
    ]


async def test_older_agent_gets_its_options_as_commands_and_what_it_says_is_nobodys(kit):
    script = kit.script()
    settings = {"default_config_options": {"model": "big", "web": True}}
    async with kit.running(kit.pool(script, settings)) as pool:
        assert texts(await kit.ask(pool)) == ["hello"]
    assert [blocks[0]["text"] for blocks in script.prompts] == ["/model big", "/web true", "hello"]


@pytest.mark.parametrize(
    "steps", [{"on": {"session/set_config_option": [fail(-32602)]}}, {"by_text": {"/model big": [stop("refusal")]}}]
)
async def test_refused_option_is_a_warning(kit, steps):
    script = kit.script(**steps)
    async with kit.running(kit.pool(script, {"default_config_options": {"model": "big"}})) as pool:
        assert texts(await kit.ask(pool)) == ["hello"]
    assert [line["option"] for line in kit.logged("config_option.refused")] == ["model"]


async def test_liveness_period_that_outlasts_the_hard_limit_is_a_warning_at_start(kit):
    settings = {"liveness_check_secs": 60, "prompt_hard_timeout_secs": 60}
    async with kit.running(kit.pool(kit.script(), settings)):
        assert kit.logged("liveness_check.outlasted")


# The end of processes


async def test_agent_that_forks_and_ignores_sigterm_is_gone_with_its_children(kit):
    script = kit.script(at_start=[ignore_sigterm(), fork(), fork(holds_pipes=False)])
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
        pids = [script.pid, *script.children]
        assert len(pids) == 3
        assert all(map(kit.is_running, pids))
    await kit.until_gone(pids)
    assert not zombie_children(os.getpid())


async def test_all_processes_stop_side_by_side(kit):
    script = kit.script(at_start=[ignore_sigterm()])
    async with kit.running(kit.pool(script)) as pool:
        for n in range(4):
            await kit.ask(pool, key=key_of(n))
        with anyio.fail_after(4):  # one after the other would take 6 seconds
            for n in range(4):
                pool._sessions[key_of(n)].suspend("test")
            await kit.until_gone(script.pids)


async def test_turn_that_runs_when_the_pool_stops_fails(kit):
    script = kit.script([[hang()]])
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            pool = kit.pool(script)

            async def ask():
                with pytest.raises(AgentGone):
                    await kit.ask(pool)

            tasks.start_soon(ask)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    await inner.start(pool.run)
                    await script.until_at("hang")
                    scope.cancel()
    assert not kit.is_running(script.pid)


async def test_turn_that_is_being_made_ready_when_the_pool_stops_fails(kit):
    script = kit.script(on={"session/new": [hang()]})
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            pool = kit.pool(script)

            async def ask():
                with pytest.raises(AgentGone):
                    await kit.ask(pool)

            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    await inner.start(pool.run)
                    tasks.start_soon(ask)
                    await script.until_at("hang")
                    scope.cancel()
    assert not kit.is_running(script.pid)
