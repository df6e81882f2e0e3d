"""Lines on stdout and stderr: noise, big ones, broken ones (agent.md 1.1, 2)."""

import anyio
import pytest

from openab_kernel.errors import AgentGone, AgentProtocolError, AgentSpawnError
from openab_kernel.facts.agent_update import Stopped, TextChunk, ToolActivity
from openab_kernel.testing.scripted_agent import chunk, gate, hang, leave, noise, raw, stderr, tool_update


async def test_noise_before_between_and_after_frames_is_logged_once_and_never_shown(kit):
    script = kit.script(
        [[chunk("a"), noise("note: index is stale"), chunk("b"), noise("[1, 2]"), noise("5")]],
        at_start=[noise("Using the saved login."), noise(""), noise("\x1b[2J"), noise("5")],
    )
    async with kit.running(kit.pool(script)) as pool:
        assert await kit.ask(pool) == [TextChunk("a"), TextChunk("b"), Stopped("end_turn")]
    shown = [line["text"] for line in kit.logged("agent.noise")]
    assert shown == ["Using the saved login.", "", "\\x1b[2J", "5", "note: index is stale", "[1, 2]"]
    assert [line["lines"] for line in kit.logged("agent.noise_skipped")] == [1]


async def test_noise_is_cut_and_at_most_50_lines_of_a_session_are_shown(kit):
    script = kit.script([[*(noise(f"{n} {'x' * 300}") for n in range(60))]])
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
    lines = kit.logged("agent.noise")
    assert len(lines) == 50
    assert {len(line["text"]) for line in lines} == {200}
    assert kit.logged("agent.noise_skipped")[0]["lines"] == 10


async def test_program_that_prints_nothing_but_noise_is_given_up_with_a_count(kit):
    script = kit.script(on={"initialize": [noise("usage: agent"), noise("  --acp"), noise("usage: agent"), hang()]})
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:

        async def ask():
            with pytest.raises(AgentSpawnError, match=r"initialize within 30 s; 3 lines"):
                await kit.ask(pool)

        tasks.start_soon(ask)
        await script.until_at("hang")
        await kit.until(lambda: len(kit.logged("agent.noise")) == 2)
        await kit.clock.advance(30)
    assert kit.logged("agent.exited")


async def test_big_lines_are_read_whole_and_in_order(kit):
    steps = [chunk("é" * 150_000), tool_update("t", rawOutput="x" * 2_000_000), chunk("done")]
    async with kit.running(kit.pool(kit.script([steps]))) as pool:
        first, second, *rest = await kit.ask(pool)
    assert first == TextChunk("é" * 150_000)
    assert second == ToolActivity("t", None, None, None, is_new=True)
    assert rest == [TextChunk("done"), Stopped("end_turn")]


async def test_line_past_the_ceiling_stops_the_agent_and_names_the_ceiling(kit):
    script = kit.script([[chunk("before"), raw(b"x" * 65536, times=272), gate("never")], [chunk("after")]])
    updates: list[object] = []
    async with kit.running(kit.pool(script)) as pool:
        with pytest.raises(AgentProtocolError, match="16777216 bytes"):
            await kit.ask(pool, into=updates)
        assert (await kit.ask(pool))[0] == TextChunk("after")
    assert updates == [TextChunk("before")]
    assert kit.logged("agent.line_too_long")[0]["ceiling_bytes"] == 16 * 1024 * 1024
    assert len(script.pids) == 2


async def test_broken_text_is_mended_and_the_last_line_needs_no_line_end(kit):
    head = b'{"method":"session/update","params":{"sessionId":"{session}","update":{"sessionUpdate":'
    broken = head + b'"agent_message_chunk","content":{"type":"text","text":"a\xff\\ud83d"}}}}'
    updates: list[object] = []
    async with kit.running(kit.pool(kit.script([[raw(broken), leave()]]))) as pool:
        with pytest.raises(AgentGone):
            await kit.ask(pool, into=updates)
    assert updates == [TextChunk("a\ufffd\ufffd")]


async def test_stderr_is_logged_escaped_and_cut(kit):
    script = kit.script([[stderr("\x1b[31mred"), stderr("y" * 600), gate("written")]])
    async with kit.running(kit.pool(script)) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(kit.ask, pool)
        await kit.until(lambda: len(kit.logged("agent.stderr")) == 2)
        script.release("written")
    first, second = kit.logged("agent.stderr")
    assert (first["text"], first["log_level"], first["session_key"]) == ("\\x1b[31mred", "warning", str(kit.key))
    assert len(second["text"]) == 500


async def test_last_line_of_stderr_needs_no_line_end(kit):
    script = kit.script([[stderr("killed for no memory", end=""), leave(1)]])
    async with kit.running(kit.pool(script)) as pool:
        with pytest.raises(AgentGone):
            await kit.ask(pool)
        await kit.until(lambda: kit.logged("agent.exited"))
    assert [line["text"] for line in kit.logged("agent.stderr")] == ["killed for no memory"]


async def test_at_most_50_lines_of_stderr_are_logged_a_second_and_the_rest_is_counted(kit):
    script = kit.script([[stderr("line", times=80), gate("written")], [stderr("later"), gate("written")]])
    async with kit.running(kit.pool(script)) as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.ask, pool)
            await kit.until(lambda: len(kit.logged("agent.stderr")) == 50)
            await script.until_at("written")
            await kit.clock.advance(1)
            script.release("written")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kit.ask, pool)
            await kit.until(lambda: len(kit.logged("agent.stderr")) > 50)
            script.release("written")
    assert sum(line["lines"] for line in kit.logged("agent.stderr_skipped")) + len(kit.logged("agent.stderr")) == 81
