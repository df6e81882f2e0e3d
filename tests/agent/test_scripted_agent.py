"""The scripted agent is what the other tests trust."""

import json
import subprocess

import anyio
import pytest

from openab_kernel.testing.scripted_agent import ScriptedAgent, chunk, fork, frame, gate, stop, tool_call


def talk(agent, *frames):
    """Write frames, close stdin, and give what came back."""
    text = "".join(json.dumps(sent) + "\n" for sent in frames)
    run = subprocess.run(agent.command, input=text, capture_output=True, text=True, timeout=5, env={})
    assert run.stderr == ""
    return [json.loads(line) for line in run.stdout.splitlines()]


def prompt(number, text, session_id="s"):
    params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
    return {"id": number, "method": "session/prompt", "params": params}


def said(frames):
    return [frame["params"]["update"]["content"]["text"] for frame in frames if "method" in frame]


def test_without_turns_it_is_an_echo(tmp_path):
    frames = talk(ScriptedAgent(tmp_path), prompt(1, "héllo"), prompt(2, "again"))
    assert said(frames) == ["héllo", "again"]
    assert frames[1] == {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}


def test_turns_are_counted_over_all_processes_and_the_last_is_repeated(tmp_path):
    agent = ScriptedAgent(tmp_path, [[chunk("one")], [chunk("two"), stop("refusal")]])
    assert said(talk(agent, prompt(1, "a"))) == ["one"]
    assert said(talk(agent, prompt(1, "b"), prompt(2, "c"))) == ["two", "two"]
    assert len(set(agent.pids)) == 2
    assert agent.pid == agent.pids[-1]


def test_prompt_may_be_answered_by_its_text(tmp_path):
    agent = ScriptedAgent(tmp_path, [[chunk("first")]], by_text={"x": [chunk("for x")]})
    assert said(talk(agent, prompt(1, "x"), prompt(2, "y"))) == ["for x", "first"]


def test_what_it_was_sent_is_kept(tmp_path):
    agent = ScriptedAgent(tmp_path)
    sent = {"id": 1, "method": "nobody/knows", "params": {}}
    [answer] = talk(agent, sent)
    assert answer["error"]["code"] == -32601
    assert agent.received() == agent.received("nobody/knows") == [sent]
    assert [entry["event"] for entry in agent.journal] == ["started", "received", "eof"]


def test_session_is_loaded_by_another_process_and_an_unknown_one_is_not(tmp_path):
    agent = ScriptedAgent(tmp_path, replay=[chunk("history")])
    [new] = talk(agent, {"id": 1, "method": "session/new", "params": {}})
    session_id = new["result"]["sessionId"]
    load = {"id": 1, "method": "session/load", "params": {"sessionId": session_id}}
    unknown = {"id": 2, "method": "session/load", "params": {"sessionId": "no"}}
    replayed, loaded, refused = talk(agent, load, unknown)
    assert said([replayed]) == ["history"]
    assert loaded["result"] == {}
    assert refused["error"]["code"] == -32002


def test_steps_before_an_answer_may_take_its_place(tmp_path):
    agent = ScriptedAgent(tmp_path, on={"initialize": [frame(method="x")], "session/new": [stop("odd")]})
    frames = talk(agent, {"id": 1, "method": "initialize"}, {"id": 2, "method": "session/new"})
    assert frames[0] == {"jsonrpc": "2.0", "method": "x"}
    assert frames[1]["result"]["agentInfo"]["name"] == "scripted-agent"
    assert frames[2]["result"] == {"stopReason": "odd"}


def test_tool_call_and_updates_look_as_the_protocol_says(tmp_path):
    agent = ScriptedAgent(tmp_path, [[tool_call("t", "look", kind="read")]])
    [call, _] = talk(agent, prompt(1, "go", "s9"))
    update = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "status": "pending", "kind": "read"}
    assert call["params"] == {"sessionId": "s9", "update": update}


async def test_gate_holds_until_it_is_released_before_or_after(tmp_path):
    agent = ScriptedAgent(tmp_path, [[gate("a"), chunk("1"), gate("b-{prompt}"), chunk("2")]])
    agent.release("a")
    with anyio.fail_after(5):
        async with await anyio.open_process(agent.command) as process:
            assert process.stdin is not None
            await process.stdin.send(json.dumps(prompt(1, "x")).encode() + b"\n")
            await agent.until_at("b-x")
            assert process.returncode is None
            agent.release("b-x")
            await agent.until_received("session/prompt")
            await process.stdin.aclose()
            await process.wait()


async def test_two_may_wait_for_the_same_agent(tmp_path):
    agent = ScriptedAgent(tmp_path, [[gate("a"), gate("b"), fork(ignores_sigterm=False)]])
    with anyio.fail_after(5):
        async with await anyio.open_process(agent.command) as process, anyio.create_task_group() as tasks:
            assert process.stdin is not None
            tasks.start_soon(agent.until_at, "a")
            tasks.start_soon(agent.until_received, "session/cancel")
            await process.stdin.send(json.dumps(prompt(1, "x")).encode() + b"\n")
            await agent.until_at("a")
            await process.stdin.send(b'{"method":"session/cancel"}\n')
            await process.stdin.aclose()
    assert not agent.children


def test_folder_in_use_is_refused(tmp_path):
    ScriptedAgent(tmp_path)
    with pytest.raises(FileExistsError):
        ScriptedAgent(tmp_path)
