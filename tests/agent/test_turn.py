"""One turn with an agent: how it goes and how it ends (agent.md 5)."""

import signal

import anyio
import pytest

from openab_kernel.errors import AgentGone, AgentProtocolError, AgentRefused, AgentTimeout
from openab_kernel.facts.agent_update import AgentUpdate, Stopped, TextChunk, Thought, ToolActivity
from openab_kernel.testing.clock import settle
from openab_kernel.testing.scripted_agent import (
    answer,
    bubble,
    chunk,
    close_stdin,
    close_stdout,
    die,
    fail,
    fork,
    gate,
    hang,
    leave,
    noise,
    raw,
    stderr,
    stop,
    stop_reading,
    thought,
    tool_call,
    tool_update,
    update,
)

CANCELLED = Stopped("cancelled", by_request=True)


def texts(updates):
    return [update.text for update in updates if isinstance(update, TextChunk)]


async def test_updates_come_in_order_and_end_with_the_stop(kit):
    script = kit.script([[thought("hm"), chunk("a"), tool_call("t", "look"), chunk("b")]])
    async with kit.running(kit.pool(script)) as pool:
        updates = await kit.ask(pool)
    assert updates == [
        Thought(),
        TextChunk("a"),
        ToolActivity("t", "look", "pending", "other", is_new=True),
        TextChunk("b"),
        Stopped("end_turn"),
    ]
    assert script.prompts == [[{"type": "text", "text": "hello"}]]


async def test_second_turn_uses_the_same_process(kit):
    script = kit.script()
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
        await kit.ask(pool)
    assert len(script.pids) == 1


@pytest.mark.parametrize(
    ("steps", "outcome", "warning"),
    [
        ([stop("end_turn")], Stopped("end_turn"), None),
        ([stop("max_tokens")], Stopped("max_tokens"), "turn.cut_short"),
        ([stop("max_turn_requests")], Stopped("max_turn_requests"), "turn.cut_short"),
        ([stop("a_new_one")], Stopped("a_new_one"), "stop_reason.unrecognised"),
        ([stop(None)], Stopped(None), "stop_reason.unrecognised"),
        ([stop("end_turn", usage={"outputTokens": 0})], Stopped("end_turn", output_tokens=0), None),
    ],
)
async def test_ordinary_stop_reason_ends_the_turn(kit, steps, outcome, warning):
    async with kit.running(kit.pool(kit.script([[chunk("a"), *steps]]))) as pool:
        assert await kit.ask(pool) == [TextChunk("a"), outcome]
    warnings = [line["event"] for line in kit.logs if line["log_level"] == "warning"]
    assert warnings == ([warning] if warning else [])


@pytest.mark.parametrize(
    ("steps", "error", "values"),
    [
        ([stop("refusal")], AgentRefused, {"cause": "refusal"}),
        ([stop("cancelled")], AgentProtocolError, {"code": None}),
        ([fail(-32603, "boom")], AgentProtocolError, {"code": -32603}),
        ([answer()], AgentProtocolError, {"code": None}),
        ([answer(result={}, error={"code": 1, "message": ""})], AgentProtocolError, {"code": None}),
        ([leave(3)], AgentGone, {"exit_status": 3}),
        ([die(signal.SIGKILL)], AgentGone, {"exit_status": -9}),
        ([close_stdout(), hang()], AgentGone, {}),
    ],
)
async def test_bad_end_is_an_error_and_keeps_the_text_that_came(kit, steps, error, values):
    updates: list[AgentUpdate] = []
    async with kit.running(kit.pool(kit.script([[chunk("a"), *steps]]))) as pool:
        with pytest.raises(error) as raised:
            await kit.ask(pool, into=updates)
    assert updates == [TextChunk("a")]
    assert {name: getattr(raised.value, name) for name in values} == values


async def test_prompt_to_an_agent_that_closed_its_stdin_fails_and_the_next_one_resumes(kit):
    script = kit.script([[close_stdin(), chunk("a")], [chunk("b")]])
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
        with pytest.raises(AgentGone):
            await kit.ask(pool)
        assert texts(await kit.ask(pool)) == ["b"]
    assert len(script.received("session/load")) == 1


async def test_death_hidden_by_a_child_that_holds_the_pipes_is_noticed(kit):
    script = kit.script([[fork(ignores_sigterm=False), die()]])
    async with kit.running(kit.pool(script)) as pool:
        with pytest.raises(AgentGone):
            await kit.ask(pool)


async def test_error_of_the_agent_is_logged_with_code_and_kind_and_its_words_at_debug_alone(kit):
    async with kit.running(kit.pool(kit.script([[fail(-32603, "x" * 300)]]))) as pool:
        with pytest.raises(AgentProtocolError) as raised:
            await kit.ask(pool)
    assert "xxx" not in str(raised.value)
    [line] = kit.logged("call.failed")
    assert (line["code"], line["error_kind"], line["method"]) == (-32603, "internal_error", "session/prompt")
    [told] = kit.logged("call.failure_told")
    assert told["log_level"] == "debug"
    assert len(told["text"]) == 200


async def test_second_answer_to_one_prompt_is_dropped(kit):
    script = kit.script([[stop(), stop("refusal")], [chunk("b")]])
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
        assert await kit.ask(pool) == [TextChunk("b"), Stopped("end_turn")]


async def test_slow_turn_makes_the_agent_wait_and_loses_nothing(kit):
    script = kit.script([[chunk("x" * 1000, times=3000), gate("written")]])
    async with kit.running(kit.pool(script)) as pool, pool.turn(kit.key) as turn:
        prompt = turn.prompt([{"type": "text", "text": "go"}])
        updates = [await anext(prompt)]
        await kit.clock.advance(1)
        assert not [entry for entry in script.journal if entry["event"] == "gate"]
        script.release("written")
        updates += [update async for update in prompt]
    assert len(texts(updates)) == 3000


async def test_cancel_ends_the_turn_at_once_and_throws_away_what_was_not_read(kit):
    script = kit.script([[chunk("a"), chunk("b"), hang()]])
    async with kit.running(kit.pool(script)) as pool, pool.turn(kit.key) as turn:
        prompt = turn.prompt([{"type": "text", "text": "go"}])
        assert await anext(prompt) == TextChunk("a")
        await script.until_at("hang")
        assert await pool.cancel(kit.key)
        assert [update async for update in prompt] == [CANCELLED]
        assert not await pool.cancel(kit.key)
        await script.until_received("session/cancel")


async def test_late_text_of_a_cancelled_turn_is_not_in_the_next_answer(kit):
    late = [chunk("early"), gate("cancelled"), chunk("late", times=2000), stop("cancelled")]
    script = kit.script([late, [chunk("{prompt}")]], on_cancel="ignore")
    async with kit.running(kit.pool(script)) as pool:
        async with pool.turn(kit.key) as turn:
            prompt = turn.prompt([{"type": "text", "text": "one"}])
            assert await anext(prompt) == TextChunk("early")
            await pool.cancel(kit.key)
        async with anyio.create_task_group() as tasks:
            updates: list[AgentUpdate] = []
            tasks.start_soon(kit.ask, pool, "two", kit.key, updates)
            await script.until_received("session/cancel")
            await kit.clock.advance(9)
            assert len(script.prompts) == 1
            script.release("cancelled")
        assert updates == [TextChunk("two"), Stopped("end_turn")]
    assert len(script.pids) == 1


async def test_agent_that_never_answers_a_cancel_is_killed_after_ten_seconds_and_resumed(kit):
    script = kit.script([[chunk("early"), hang()], [chunk("{prompt}")]], on_cancel="ignore")
    async with kit.running(kit.pool(script)) as pool:
        async with pool.turn(kit.key) as turn:
            await anext(turn.prompt([{"type": "text", "text": "one"}]))
            await script.until_at("hang")
        async with anyio.create_task_group() as tasks:
            updates: list[AgentUpdate] = []
            tasks.start_soon(kit.ask, pool, "two", kit.key, updates)
            await script.until_received("session/cancel")
            await kit.clock.advance(9.9)
            assert len(script.pids) == 1
            await kit.clock.advance(0.1)
        assert updates == [TextChunk("two"), Stopped("end_turn")]
    session_id = kit.store.rows[kit.key].agent_session_id
    assert script.received("session/load")[0]["params"]["sessionId"] == session_id
    assert kit.logged("cancel.unanswered")


async def test_agent_that_does_not_read_its_prompt_is_cancelled_all_the_same(kit):
    script = kit.script(on={"session/new": [stop_reading()]})
    async with kit.running(kit.pool(script)) as pool:
        async with pool.turn(kit.key) as turn:
            prompt = turn.prompt([{"type": "text", "text": "x" * 1_000_000}])
            await settle()
            assert await pool.cancel(kit.key)
            assert [update async for update in prompt] == [CANCELLED]
        await settle()
        await kit.clock.advance(10)
        assert texts(await kit.ask(pool, "two")) == ["two"]
    assert len(script.pids) == 2


async def test_turn_that_is_left_gives_its_prompt_up(kit):
    script = kit.script([[chunk("a"), hang()], [chunk("{prompt}")]])
    async with kit.running(kit.pool(script)) as pool:
        async with pool.turn(kit.key) as turn:
            await anext(turn.prompt([{"type": "text", "text": "one"}]))
        assert texts(await kit.ask(pool, "two")) == ["two"]
    assert len(script.received("session/cancel")) == 1
    assert len(script.pids) == 1


async def test_cancelling_the_task_of_a_turn_gives_its_prompt_up(kit):
    script = kit.script([[hang()], [chunk("{prompt}")]])
    async with kit.running(kit.pool(script)) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.ask, pool, "one")
            await script.until_at("hang")
            tasks.cancel_scope.cancel()
        assert texts(await kit.ask(pool, "two")) == ["two"]
    assert len(script.pids) == 1


async def ask_until_timeout(kit, pool, watchdog, updates=None):
    with pytest.raises(AgentTimeout) as raised:
        await kit.ask(pool, into=updates)
    assert raised.value.watchdog == watchdog


async def test_silent_agent_is_stopped_after_600_seconds_in_bubble_modes(kit):
    script = kit.script([[chunk("a"), hang()], [chunk("{prompt}")]])
    async with kit.running(kit.pool(script, is_bubble_mode=True)) as pool:
        async with anyio.create_task_group() as tasks:
            updates: list[AgentUpdate] = []
            tasks.start_soon(ask_until_timeout, kit, pool, "inactivity", updates)
            await kit.until(lambda: updates)
            await kit.clock.advance(599)
            assert not script.received("session/cancel")
            await kit.clock.advance(2)
            await script.until_received("session/cancel")
        assert texts(await kit.ask(pool, "two")) == ["two"]
    assert kit.logged("turn.timed_out")[0]["watchdog"] == "inactivity"
    assert len(script.pids) == 1


async def test_agent_that_works_every_300_seconds_goes_on(kit):
    steps = [step for n in range(4) for step in (gate("next"), tool_update("t", status=f"in step {n}"))]
    script = kit.script([[*steps, chunk("done")]])
    updates: list[AgentUpdate] = []
    async with kit.running(kit.pool(script, is_bubble_mode=True)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(kit.ask, pool, "hello", kit.key, updates)
        for n in range(4):
            await script.until_at("next", times=n + 1)
            await kit.clock.advance(300)
            script.release("next")
            await kit.until(lambda n=n: len(updates) > n)
    assert texts(updates) == ["done"]


@pytest.mark.parametrize("steps", [[noise("a"), stderr("b")], [raw(b"[1]\n")], [raw(b"half a line")]])
async def test_noise_and_stderr_do_not_count_as_work(kit, steps):
    script = kit.script([[gate("silent"), *steps, hang()]])
    pool = kit.pool(script, {"prompt_inactivity_timeout_secs": 100})
    async with kit.running(pool), anyio.create_task_group() as tasks:
        tasks.start_soon(ask_until_timeout, kit, pool, "inactivity")
        await script.until_at("silent")
        await kit.clock.advance(60)
        script.release("silent")
        await script.until_at("hang")
        await kit.until(lambda: steps[0]["do"] == "raw" or kit.logged("agent.noise"))
        await kit.clock.advance(41)


async def test_silent_agent_goes_on_in_text_mode(kit):
    script = kit.script([[gate("long"), chunk("done")]])
    updates: list[AgentUpdate] = []
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(kit.ask, pool, "hello", kit.key, updates)
        await script.until_at("long")
        await kit.clock.advance(700)
        script.release("long")
    assert texts(updates) == ["done"]


async def test_own_send_that_takes_700_seconds_does_not_run_the_watchdog_down(kit):
    script = kit.script([[bubble("one"), gate("sent"), chunk("done")]])
    seen: list[AgentUpdate] = []
    receipt = anyio.Event()

    async def turn_with_a_slow_send(pool):
        async with pool.turn(kit.key) as turn:
            async for update in turn.prompt([{"type": "text", "text": "go"}]):
                seen.append(update)
                if len(seen) == 1:
                    await receipt.wait()

    async with kit.running(kit.pool(script, is_bubble_mode=True)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(turn_with_a_slow_send, pool)
        await kit.until(lambda: seen)
        await kit.clock.advance(700)
        receipt.set()
        await settle()
        await kit.clock.advance(599)
        script.release("sent")
    assert texts(seen) == ["done"]


async def test_hard_limit_cancels_while_chunks_keep_coming(kit):
    steps = [step for _ in range(4) for step in (gate("next"), chunk("more"))]
    script = kit.script([[*steps, hang()], [chunk("{prompt}")]])
    async with kit.running(kit.pool(script, is_bubble_mode=True)) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_until_timeout, kit, pool, "hard")
            for n in range(4):
                await script.until_at("next", times=n + 1)
                await kit.clock.advance(449)
                script.release("next")
            await script.until_at("hang")
            assert not script.received("session/cancel")
            await kit.clock.advance(4)
        assert texts(await kit.ask(pool, "two")) == ["two"]
    assert len(script.pids) == 1


async def test_turn_that_holds_its_session_120_seconds_past_the_hard_limit_loses_the_process(kit):
    script = kit.script([[hang()], [chunk("{prompt}")]])
    async with kit.running(kit.pool(script)) as pool:
        async with pool.turn(kit.key) as turn:
            prompt = turn.prompt([{"type": "text", "text": "one"}])
            await script.until_at("hang")
            await kit.clock.advance(1800)
            with pytest.raises(AgentTimeout):
                await anext(prompt)
            await kit.clock.advance(119)
            assert not kit.logged("turn.hung")
            await kit.clock.advance(1)
            assert kit.logged("turn.hung")
            await kit.until(lambda: kit.logged("agent.exited"))
        assert texts(await kit.ask(pool, "two")) == ["two"]
    assert len(script.received("session/load")) == 1


async def test_liveness_check_notices_a_death_that_the_pipes_hide(kit, monkeypatch):
    script = kit.script([[hang()]])
    with_dead_process = {}

    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:

        async def ask():
            with pytest.raises(AgentGone):
                await kit.ask(pool)
            with_dead_process["noticed"] = True

        tasks.start_soon(ask)
        await script.until_at("hang")
        monkeypatch.setattr("openab_kernel.agent.acp.process.AgentProcess.exit_status", 0)
        await kit.clock.advance(29)
        assert not with_dead_process
        await kit.clock.advance(1)
    assert with_dead_process


async def test_updates_between_turns_of_other_sessions_and_of_a_replay_are_dropped(kit):
    script = kit.script(
        [
            [update("agent_message_chunk", session_id="other", content={"type": "text", "text": "no"}), chunk("yes")],
            [stop(), chunk("between"), leave()],
            [chunk("{prompt}")],
        ],
        replay=[chunk("history", times=5), bubble("history")],
    )
    async with kit.running(kit.pool(script)) as pool:
        assert texts(await kit.ask(pool)) == ["yes"]
        assert texts(await kit.ask(pool)) == []
        await kit.until(lambda: kit.logged("agent.exited"))
        assert texts(await kit.ask(pool, "three")) == ["three"]
    reasons = [line["reason"] for line in kit.logged("update.dropped")]
    assert reasons == ["session", "no_turn", *["no_turn"] * 6]
    assert not kit.logged("message.ignored")


async def test_bubble_of_another_session_is_ignored_with_one_warning(kit):
    foreign = update("openab_message", session_id="other", content={"type": "text", "text": "no"})
    async with kit.running(kit.pool(kit.script([[foreign, foreign, bubble("yes", "b1")]]))) as pool:
        updates = await kit.ask(pool)
    assert len(updates) == 2
    assert [line["reason"] for line in kit.logged("message.ignored")] == ["session"]
