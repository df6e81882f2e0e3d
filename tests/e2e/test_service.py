"""The real service in one process, a gateway in another, an agent in a third."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openab_kernel.testing.scripted_agent import (
    ScriptedAgent,
    chunk,
    die,
    gate,
    say_environment,
    stderr,
    stop,
    tool_call,
    tool_update,
    update,
)
from tests.e2e.service import Service
from tests.plugins.gateway_ws.fake_gateway import FakeGateway, event

FIXTURE = Path(__file__).parents[2] / "docs" / "fixtures" / "gateway-reply-text-v1.json"
TOKEN = "gw-token-CANARY-77"
INTERRUPTED = "⚠️ The assistant was interrupted. Please ask again."
DIED = "⚠️ The assistant stopped before it was done. Please try again."

MakeAgent = Callable[..., ScriptedAgent]


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway() as gateway:
        yield gateway


@pytest.fixture
def serve(anyio_backend: str) -> Callable[..., Service]:
    """Start the service, on the same loop that the test runs on."""
    return lambda path, **options: Service(path, "--backend", anyio_backend, **options)


@pytest.fixture
def make_agent(tmp_path: Path) -> MakeAgent:
    return lambda *turns, **options: ScriptedAgent(tmp_path / "agent", turns, **options)


@pytest.fixture
def config(tmp_path: Path, gateway: FakeGateway) -> Callable[[ScriptedAgent, str], Path]:
    def write(agent: ScriptedAgent, more: str = "") -> Path:
        command, *arguments = agent.command
        text = f"""
            [gateway]
            url = "{gateway.url}"
            platform = "telegram"
            token = "{TOKEN}"
            allowed_users = ["u1"]
            [agent]
            command = {json.dumps(command)}
            args = {json.dumps(arguments)}
            working_dir = {json.dumps(str(tmp_path))}
            [store]
            url = "sqlite:///state.db"
            [log]
            level = "debug"
            {more}
        """
        path = tmp_path / "config.toml"
        path.write_text("\n".join(line.strip() for line in text.splitlines()))
        return path

    return write


async def text_frames(gateway: FakeGateway, count: int) -> list[str]:
    """The next reply frames without a command, as they were on the wire."""
    frames: list[str] = []
    while len(frames) < count:
        frame = await gateway.frame()
        if "command" not in json.loads(frame):
            frames.append(frame)
    return frames


async def texts(gateway: FakeGateway, count: int) -> list[str]:
    return [json.loads(frame)["content"]["text"] for frame in await text_frames(gateway, count)]


def rest_of(gateway: FakeGateway) -> list[Any]:
    """What is there now, without waiting: call it once the service has ended."""
    return [frame for frame in gateway.drain() if "command" not in json.loads(frame)]


async def test_the_bytes_on_the_wire_are_those_of_the_fixture(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """delivery 12.1"""
    with serve(config(make_agent([chunk("plain")]))) as service:
        await gateway.arrival()
        await gateway.send(event())
        assert await text_frames(gateway, 1) == [FIXTURE.read_text().strip()]
        service.terminate()
        assert service.wait() == 0
        assert [line["outcome"] for line in service.lines if line["event"] == "turn.finished"] == ["done"]


async def test_bad_frames_are_refused_one_by_one_and_the_good_one_is_answered(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """delivery 12.28, case G-01"""
    bad = [
        "not json",
        "[]",
        event(schema="openab.gateway.event.v9"),
        event(channel=...),
        event(event_id=5),
        event(proactive=None),
        event(proactive="true"),
    ]
    with serve(config(make_agent([chunk("answer")]))) as service:
        await gateway.arrival()
        await gateway.send(*bad, event(extra={"unknown": "SECRET-FIELD"}))
        assert await texts(gateway, 1) == ["answer"]
        service.terminate()
        assert service.wait() == 0
        refused = [line for line in service.lines if line["event"] == "frame.refused"]
        assert len(refused) == len(bad)
        assert all(line["reason"] for line in refused)
        assert "SECRET-FIELD" not in service.text


async def test_a_kill_in_the_middle_loses_no_recorded_message_and_prompts_for_none_twice(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """turn-kernel 15.7, case O-01 without the outbox"""
    agent = make_agent(by_text={"one": [chunk("half"), gate("never")]})
    path = config(agent)
    with serve(path) as service:
        await gateway.arrival()
        await gateway.send(
            event(event_id="evt_1", message_id="1", content__text="one"),
            event(event_id="evt_2", message_id="2", content__text="two"),
        )
        await agent.until_at("never")
        await gateway.send(event(event_id="evt_3", message_id="3", content__text="three"))
        for _ in range(3):
            service.wait_for("event.recorded")
        assert service.kill() == -9
    with serve(path) as service:
        await gateway.arrival()
        assert sorted(await texts(gateway, 3)) == sorted([INTERRUPTED, "two", "three"])
        service.terminate()
        assert service.wait() == 0
    with serve(path) as service:
        await gateway.arrival()
        service.terminate()
        assert service.wait() == 0
    assert rest_of(gateway) == []
    assert sorted(prompt[-1]["text"] for prompt in agent.prompts) == ["one", "three", "two"]


async def test_sigterm_lets_the_running_turn_end_and_keeps_the_waiting_for_the_next_start(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """agent 15.31, case R-01"""
    agent = make_agent(by_text={"runs": [gate("go"), chunk("finished")]})
    path = config(agent)
    with serve(path) as service:
        await gateway.arrival()
        for number, text in enumerate(("runs", "waits", "too")):
            await gateway.send(event(event_id=f"evt_{number}", message_id=str(number), content__text=text))
        await agent.until_at("go")
        for _ in range(3):
            service.wait_for("event.recorded")
        service.terminate()
        service.wait_for("kernel.draining")
        agent.release("go")
        assert await texts(gateway, 1) == ["finished"]
        assert service.wait() == 0
    with serve(path) as service:
        await gateway.arrival()
        assert await texts(gateway, 2) == ["waits", "too"]
        service.terminate()
        assert service.wait() == 0


async def test_an_agent_that_dies_costs_one_line_and_the_next_message_gets_a_new_process(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """agent 15.18, case C-03"""
    agent = make_agent(by_text={"one": [chunk("a"), chunk("b"), chunk("c"), gate("dying"), die()]})
    with serve(config(agent)) as service:
        await gateway.arrival()
        await gateway.send(event(content__text="one"))
        await agent.until_at("dying")
        await gateway.send(event(event_id="evt_2", message_id="8", content__text="two"))
        agent.release("dying")
        assert await texts(gateway, 3) == ["abc", DIED, "two"]
        service.terminate()
        assert service.wait() == 0
        exited = next(line for line in service.lines if line["event"] == "agent.exited")
        assert exited["exit_status"] == -9
        assert len(set(agent.pids)) == 2


async def test_long_lines_are_read_and_a_long_answer_is_cut_in_order(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """agent 15.17, case C-02"""
    long = "".join(f"line {number:06}\n" for number in range(25_000))
    tool_output = update("tool_call_update", toolCallId="t1", status="completed", rawOutput="x" * 2_000_000)
    agent = make_agent([tool_call("t1", "look"), tool_output, chunk(long)], [chunk("ordinary")])
    with serve(config(agent)) as service:
        await gateway.arrival()
        await gateway.send(event())
        count = -(-len(long) // 4096)
        parts = await texts(gateway, count)
        while sum(map(len, parts)) + len(parts) < len(long):
            parts += await texts(gateway, 1)
        assert all(len(part) <= 4096 for part in parts)
        assert "\n".join(parts) == long.rstrip("\n")
        await gateway.send(event(event_id="evt_2", message_id="8"))
        assert await texts(gateway, 1) == ["ordinary"]
        service.terminate()
        assert service.wait() == 0


async def test_no_secret_is_in_any_log_line_and_none_reaches_the_agent(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """agent 15.28 and 15.36, cases X-01 and X-02"""
    secrets = {
        "DISCORD_BOT_TOKEN": "discord-CANARY-11",
        "SLACK_APP_TOKEN": "xapp-CANARY-22",
        "LINE_CHANNEL_SECRET": "line-CANARY-33",
        "LISTED": "listed-value",
    }
    agent = make_agent([stderr(f"token {TOKEN} leaked"), say_environment(), say_environment(of_child=True)])
    path = config(agent, '[agent.env]\nMY_API_KEY = "agent-CANARY-44"\n')
    path.write_text(path.read_text().replace("[agent]\n", '[agent]\ninherit_env = ["LISTED"]\n'))
    with serve(path, env=secrets) as service:
        await gateway.arrival()
        await gateway.send(event())
        [shown] = await texts(gateway, 1)
        service.terminate()
        assert service.wait() == 0
        assert "CANARY" not in service.text
    for name in ("DISCORD_BOT_TOKEN", "SLACK_APP_TOKEN", "LINE_CHANNEL_SECRET", TOKEN):
        assert name not in shown
    assert shown.count("listed-value") == 2
    assert shown.count("agent-CANARY-44") == 2


async def test_thoughts_and_tools_are_nowhere_in_the_chat(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """case E-03 in text mode"""
    thought = update("agent_thought_chunk", content={"type": "text", "text": "check the stock table first"})
    call = tool_call("t1", "stock lookup", kind="search", rawInput={"query": "blue mug", "limit": 20})
    done = tool_update("t1", status="completed", rawOutput={"rows": [1]})
    agent = make_agent([thought, call, done, chunk("There are 4 left."), stop()])
    with serve(config(agent)) as service:
        await gateway.arrival()
        await gateway.send(event())
        assert await texts(gateway, 1) == ["There are 4 left."]
        service.terminate()
        assert service.wait() == 0
    assert rest_of(gateway) == []


def demo(**options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openab_kernel", "chat", "--demo"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, **options)


def test_the_demo_answers_what_a_pipe_says() -> None:
    run = demo(input="hello\ntool\nis it you?\n")
    assert run.returncode == 0
    assert run.stderr == ""
    hello, *answers = run.stdout.split("\n\n")[0], *run.stdout.splitlines()[-2:]
    assert hello.startswith("Hello! I am the built-in demo agent")
    assert answers == ["I looked it up: it is there.", "You said: is it you?"]


def test_the_demo_reads_a_file_and_a_device_that_nobody_can_wait_for(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("hello\nis it you?")
    with path.open() as file:
        assert demo(stdin=file).stdout.endswith("You said: is it you?\n")
    run = demo(stdin=subprocess.DEVNULL)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize(("closed", "told"), [("<&-", "standard input is closed"), (">&-", "standard output is")])
def test_a_chat_without_an_end_says_so(closed: str, told: str) -> None:
    command = f"{sys.executable} -m openab_kernel chat --demo {closed}"
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == 2
    assert told in run.stderr
    assert "Traceback" not in run.stderr


def test_a_chat_whose_output_is_gone_stops_at_the_first_answer() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "openab_kernel", "chat", "--demo"]
        lines = "\n".join(map(str, range(100)))
        run = subprocess.run(
            command, input=lines, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False
        )
    assert run.returncode == 1
    assert run.stderr == "error: standard output cannot be written: No space left on device; the chat has ended\n"


def test_a_chat_whose_reader_has_gone_stops_and_leaves_nothing(tmp_path: Path) -> None:
    command = f"(seq 1 100 | {sys.executable} -m openab_kernel chat --demo; echo status >&2) | head -1"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=False, env=env)
    assert run.stdout == "You said: 1\n"
    assert run.stderr == "error: standard output cannot be written: Broken pipe; the chat has ended\nstatus\n"
    assert list(tmp_path.iterdir()) == []


def test_a_chat_that_cannot_read_its_input_says_so(tmp_path: Path) -> None:
    with (tmp_path / "write-only").open("w") as file:
        run = demo(stdin=file)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("error: standard input cannot be read: Bad file descriptor; ")
    assert len(run.stderr.splitlines()) == 1


def start_chat(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "openab_kernel", "chat", "-c", str(path)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


async def test_the_first_ctrl_c_in_a_turn_says_what_is_waited_for(make_agent: MakeAgent, config: Any) -> None:
    agent = make_agent([gate("go"), chunk("answer")])
    with start_chat(config(agent)) as chat:
        watchdog = threading.Timer(30, chat.kill)
        watchdog.start()
        assert chat.stdin is not None
        assert chat.stderr is not None
        chat.stdin.write("hello\n")
        chat.stdin.flush()
        await agent.until_at("go")
        chat.send_signal(signal.SIGINT)
        assert any(line.startswith("Stopping when the answer is there; press Ctrl-C again") for line in chat.stderr)
        agent.release("go")
        stdout, _ = chat.communicate()
        watchdog.cancel()
    assert (chat.returncode, stdout) == (0, "answer\n")


async def test_a_broken_plugin_and_its_section_keep_nobody_from_being_answered(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any, tmp_path: Path
) -> None:
    """case P-01"""
    info = tmp_path / "site" / "broken_dist-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-dist\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[openab_kernel.plugins]\nbroken = no_such_module\n")
    path = config(make_agent([chunk("answer")]), "[quite_another_thing]\nkey = 1")
    with serve(path, env={"PYTHONPATH": str(tmp_path / "site")}) as service:
        await gateway.arrival()
        await gateway.send(event())
        assert await texts(gateway, 1) == ["answer"]
        service.terminate()
        assert service.wait() == 0
        failed = next(line for line in service.lines if line["event"] == "plugin.failed")
        assert (failed["plugin"], failed["distribution"]) == ("broken", "broken-dist")
        ignored = [line["section"] for line in service.lines if line["event"] == "config.ignored"]
        assert ignored == ["quite_another_thing"]


async def test_a_second_signal_stops_at_once_and_the_next_start_says_what_was_cut(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """case R-01"""
    agent = make_agent([gate("never")])
    path = config(agent)
    with serve(path) as service:
        await gateway.arrival()
        await gateway.send(event())
        await agent.until_at("never")
        service.terminate()
        service.wait_for("kernel.draining")
        service.terminate()
        assert service.wait() == 130
        assert all(line["level"] != "error" for line in service.lines)
    with serve(path) as service:
        await gateway.arrival()
        assert await texts(gateway, 1) == [INTERRUPTED]
        service.terminate()
        assert service.wait() == 0


async def test_a_closed_terminal_drains_like_any_other_end(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """case R-01"""
    agent = make_agent([gate("go"), chunk("answer")])
    with serve(config(agent)) as service:
        await gateway.arrival()
        await gateway.send(event())
        await agent.until_at("go")
        service.terminate(signal.SIGHUP)
        service.wait_for("kernel.draining")
        agent.release("go")
        assert await texts(gateway, 1) == ["answer"]
        assert service.wait() == 0


async def test_a_hangup_that_the_starter_had_ignored_is_ignored(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    """`nohup` does that."""
    inherited = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        service = serve(config(make_agent([chunk("answer")])))
    finally:
        signal.signal(signal.SIGHUP, inherited)
    with service:
        await gateway.arrival()
        service.terminate(signal.SIGHUP)
        await gateway.send(event())
        assert await texts(gateway, 1) == ["answer"]
        service.terminate()
        assert service.wait() == 0
        assert [line["signal"] for line in service.lines if line["event"] == "kernel.signalled"] == ["SIGTERM"]


STUCK = """
import time
from openab_kernel import hookimpl

class Stuck:
    def message_ended(self, result):
        time.sleep(600)

@hookimpl
def register_turn_observers(settings, services):
    return [Stuck()]
"""


async def test_nothing_that_is_stuck_in_a_thread_keeps_the_process(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any, tmp_path: Path
) -> None:
    """case R-01"""
    info = tmp_path / "site" / "stuck_dist-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[openab_kernel.plugins]\nstuck = stuck_plugin\n")
    (tmp_path / "site" / "stuck_plugin.py").write_text(STUCK)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    attachment = {"type": "text_file", "filename": "a", "mime_type": "text/plain", "size": 1, "path": str(pipe)}
    content = {"type": "text", "text": "hello", "attachments": [attachment]}
    with serve(config(make_agent([chunk("answer")])), env={"PYTHONPATH": str(tmp_path / "site")}) as service:
        await gateway.arrival()
        await gateway.send(event(content=content))
        assert await texts(gateway, 1) == ["answer"]
        service.wait_for("turn.finished")
        service.terminate()
        assert service.wait() == 0
        assert [line["code"] for line in service.lines if line["event"] == "media.unreadable"] == ["not_a_file"]


async def test_an_agent_that_cannot_be_started_is_named_at_start_and_with_each_turn(
    gateway: FakeGateway, config: Any, serve: Any
) -> None:
    """case C-01"""

    class Absent:
        command = ("no-such-agent",)

    with serve(config(Absent())) as service:
        await gateway.arrival()
        await gateway.send(event())
        assert await texts(gateway, 1) == [DIED]
        failed = service.wait_for("turn.failed")
        service.terminate()
        assert service.wait() == 0
        reasons = [line["reason"] for line in service.lines if line["event"] == "agent.unavailable"]
        assert reasons == [
            "cannot start no-such-agent: there is no such program on the agent's PATH; set [agent] command"
        ]
        assert failed["reason"].startswith("cannot start no-such-agent: ")


async def test_a_message_that_is_not_taken_can_be_found_in_the_debug_log(
    gateway: FakeGateway, make_agent: MakeAgent, config: Any, serve: Any
) -> None:
    stranger = {"id": "u9", "name": "s", "display_name": "S", "is_bot": False}
    with serve(config(make_agent([chunk("answer")]))) as service:
        await gateway.arrival()
        await gateway.send(event(message_id="m-stranger", sender=stranger), event(message_id="m-known"))
        assert await texts(gateway, 1) == ["answer"]
        service.terminate()
        assert service.wait() == 0
        told: dict[str, list[str]] = {"event.judged": [], "event.ended": [], "event.recorded": []}
        for line in service.lines:
            if line["event"] in told:
                assert line["channel"] == "gateway"
                assert {"account_id", "event_id"} < line.keys()
                told[line["event"]].append(line["message_id"])
        stranger_id, known_id = "telegram:42:m-stranger", "telegram:42:m-known"
        assert told == {
            "event.judged": [stranger_id, known_id],
            "event.ended": [stranger_id],
            "event.recorded": [known_id],
        }


@pytest.mark.parametrize("token", [TOKEN, "${LEAKED}"])
def test_a_plugin_that_fails_with_a_secret_in_its_mouth_shows_it_nowhere(tmp_path: Path, token: str) -> None:
    """case X-01"""
    info = tmp_path / "site" / "leaky_dist-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: leaky-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[openab_kernel.plugins]\nleaky = leaky_plugin\n")
    (tmp_path / "site" / "leaky_plugin.py").write_text(f"raise RuntimeError('login failed with {TOKEN}')")
    path = tmp_path / "config.toml"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "LEAKED": TOKEN}
    for strict, commands in (("false", [["check"], ["plugins", "list"]]), ("true", [["check"], ["serve"]])):
        path.write_text(
            f'[gateway]\nurl = "ws://127.0.0.1:9"\ntoken = "{token}"\n[plugins]\nstrict = {strict}\n'
            '[agent]\ncommand = "cat"\n'
        )
        for command in commands:
            run = subprocess.run(
                [sys.executable, "-m", "openab_kernel", *command, "-c", str(path)],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
                env=env,
            )
            assert "leaky" in run.stdout + run.stderr
            assert TOKEN not in run.stdout + run.stderr


def test_a_configuration_on_a_pipe_is_read_once(tmp_path: Path) -> None:
    text = '[gateway]\nurl = "ws://127.0.0.1:9"\n[agent]\ncommand = "cat"\n'
    command = [sys.executable, "-m", "openab_kernel", "check", "-c", "/dev/stdin"]
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    assert (run.returncode, run.stderr) == (0, "")
