"""delivery.md 4 and 12 through the running service: the gateway in one process, an agent in another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from openab_kernel.delivery.settings import APOLOGY, ParseErrorPolicy
from openab_kernel.testing.scripted_agent import ScriptedAgent, bubble, chunk, gate, tool_call, tool_update
from tests.delivery.envelope.table import CANARY, ROWS, Bubbles, Nothing, Row, Update, e
from tests.e2e.service import Service
from tests.plugins.gateway_ws.fake_gateway import FakeGateway, event

SHORT_ROWS = [row for row in ROWS if not row.is_long]


def acknowledge(frame: dict[str, Any]) -> list[dict[str, Any]]:
    """A gateway that says what became of each send."""
    if frame["schema"] != "openab.gateway.reply.v1" or "request_id" not in frame:
        return []
    response = {"schema": "openab.gateway.response.v1", "request_id": frame["request_id"], "success": True}
    return [{**response, "message_id": "m1"}]


@pytest.fixture
def gateway() -> Any:
    with FakeGateway() as gateway:
        gateway.answer = acknowledge
        yield gateway


@pytest.fixture
def serve(anyio_backend: str, tmp_path: Path, gateway: FakeGateway) -> Callable[..., Service]:
    """Start the service on the loop that the test runs on."""

    def start(agent: ScriptedAgent, **delivery: Any) -> Service:
        command, *arguments = agent.command
        lines = [
            "[gateway]",
            f'url = "{gateway.url}"',
            'platform = "telegram"',
            'allowed_users = ["u1"]',
            "[agent]",
            f"command = {json.dumps(command)}",
            f"args = {json.dumps(arguments)}",
            f"working_dir = {json.dumps(str(tmp_path))}",
            "[store]",
            'url = "sqlite:///state.db"',
            "[log]",
            'level = "debug"',
            "[delivery]",
            *(f"{key} = {json.dumps(value)}" for key, value in delivery.items()),
        ]
        path = tmp_path / "config.toml"
        path.write_text("\n".join(lines))
        return Service(path, "--backend", anyio_backend)

    return start


def cut(text: str, cutting: str) -> list[str]:
    """The text of a row in the pieces in which an agent may send it."""
    if cutting == "by character":
        return list(text)
    at = text.find('"') + 2 if cutting == "in the first key" else 0
    return [piece for piece in (text[:at], text[at:]) if piece]


def steps_of(row: Row, cutting: str) -> list[Any]:
    chunks: list[str | Update] = [f"{row.header}\n", *row.chunks] if row.header else [*row.chunks]
    steps: list[Any] = []
    for piece in chunks:
        if piece is Update.TOOL_CALL:
            steps.append(tool_call("t1", "lookup"))
        elif piece is Update.TOOL_UPDATE:
            steps.append(tool_update("t1", status="completed"))
        elif isinstance(piece, str):
            steps += [chunk(part) for part in cut(piece, cutting)]
    return steps


def texts_of(row: Row, policy: str, *, repair: bool) -> list[str]:
    expected = row.expected(repair=repair)
    if isinstance(expected, Bubbles):
        return list(expected.texts)
    if isinstance(expected, Nothing) or policy == "silent":
        return []
    return [APOLOGY] if policy == "error_message" else [expected.text.strip() or APOLOGY]


def sent(gateway: FakeGateway) -> list[dict[str, Any]]:
    """The sends that are there now."""
    frames = map(json.loads, gateway.drain())
    return [frame for frame in frames if frame["schema"] == "openab.gateway.reply.v1" and "command" not in frame]


async def next_texts(gateway: FakeGateway, count: int) -> list[str]:
    """The texts of the next sends."""
    texts: list[str] = []
    while len(texts) < count:
        frame = await gateway.json()
        if frame["schema"] == "openab.gateway.reply.v1" and "command" not in frame:
            texts.append(frame["content"]["text"])
    return texts


@pytest.mark.parametrize(
    ("policy", "repair", "cutting"),
    [
        *((policy, repair, "whole") for policy in get_args(ParseErrorPolicy) for repair in (False, True)),
        ("fallback_text", False, "by character"),
        ("fallback_text", False, "in the first key"),
    ],
)
async def test_the_running_service_shows_what_the_table_says(
    gateway: FakeGateway, serve: Any, tmp_path: Path, policy: str, repair: bool, cutting: str
) -> None:
    """delivery 12.9, delivery 12.13"""
    agent = ScriptedAgent(tmp_path / "agent", [steps_of(row, cutting) for row in SHORT_ROWS])
    with serve(agent, mode="structured", on_parse_error=policy, repair=repair, bubble_delay_ms=0) as service:
        await gateway.arrival()
        for row in SHORT_ROWS:
            await gateway.send(event(event_id=row.id, message_id=row.id))
            service.wait_for("turn.finished")
            frames = sent(gateway)
            assert [frame["content"]["text"] for frame in frames] == texts_of(row, policy, repair=repair), row.id
        service.terminate()
        assert service.wait() == 0
        assert CANARY not in service.text
        assert '"delivery.guarded"' not in service.text


async def test_bubbles_of_a_sequential_turn_reach_the_gateway_while_the_agent_works(
    gateway: FakeGateway, serve: Any, tmp_path: Path
) -> None:
    """delivery 12.14, delivery 12.35"""
    agent = ScriptedAgent(tmp_path / "agent", [[bubble("one"), gate("go"), bubble("two"), chunk("a text")]])
    with serve(agent, mode="sequential", bubble_delay_ms=0) as service:
        await gateway.arrival()
        await gateway.send(event())
        assert await next_texts(gateway, 1) == ["one"]
        agent.release("go")
        assert await next_texts(gateway, 1) == ["two"]
        finished = service.wait_for("turn.finished")
        assert (finished["outcome"], finished["mode"], finished["bubbles"]) == ("done", "sequential", 2)
        service.terminate()
        assert service.wait() == 0


@pytest.mark.parametrize("kind", ["structured", "sequential"])
async def test_a_rejected_bubble_ends_the_turn_as_failed(
    gateway: FakeGateway, serve: Any, tmp_path: Path, kind: str
) -> None:
    """delivery 12.15"""

    def reject_two(frame: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {**answer, "success": frame["content"]["text"] != "two", "error": "no"} for answer in acknowledge(frame)
        ]

    gateway.answer = reject_two
    bubbles = [bubble("one"), bubble("two"), bubble("three")]
    steps = [chunk(e("one", "two", "three"))] if kind == "structured" else bubbles
    agent = ScriptedAgent(tmp_path / "agent", [steps])
    with serve(agent, mode=kind, bubble_delay_ms=0) as service:
        await gateway.arrival()
        await gateway.send(event())
        finished = service.wait_for("turn.finished")
        assert [frame["content"]["text"] for frame in sent(gateway)] == ["one", "two"]
        assert (finished["outcome"], finished["delivered"], finished["failed"]) == ("failed", 1, 1)
        service.terminate()
        assert service.wait() == 0


async def test_bubbles_that_wait_for_a_connection_go_out_on_the_new_one(
    gateway: FakeGateway, serve: Any, tmp_path: Path
) -> None:
    """delivery 12.26"""
    agent = ScriptedAgent(tmp_path / "agent", [[chunk(e("one", "two", "three"))]])
    with serve(agent, mode="structured", bubble_delay_ms=500) as service:
        await gateway.arrival()
        await gateway.send(event())
        texts = await next_texts(gateway, 1)
        await gateway.drop()
        await gateway.arrival()
        assert [*texts, *await next_texts(gateway, 2)] == ["one", "two", "three"]
        assert service.wait_for("turn.finished")["delivered"] == 3
        assert sent(gateway) == []
        service.terminate()
        assert service.wait() == 0


async def test_an_agent_told_to_write_envelopes_is_warned_of_at_start_and_once_a_session_in_text_mode(
    gateway: FakeGateway, serve: Any, tmp_path: Path
) -> None:
    """delivery 12.23"""
    (tmp_path / "AGENTS.md").write_text("Always answer with an openab.turn.v1 envelope.")
    agent = ScriptedAgent(tmp_path / "agent", [[chunk(e("x"))]])
    with serve(agent, mode="text") as service:
        await gateway.arrival()
        for number in range(2):
            await gateway.send(event(event_id=f"e{number}", message_id=f"m{number}"))
            assert await next_texts(gateway, 1) == [e("x")]
            service.wait_for("turn.finished")
        service.terminate()
        assert service.wait() == 0
        fixes = [line["fix"] for line in service.lines if line["event"] == "pairing.mismatch"]
        assert len(fixes) == 2
        assert all('[delivery] mode = "structured"' in fix for fix in fixes)


async def test_a_kill_between_bubbles_repeats_none_and_asks_the_agent_no_more(
    gateway: FakeGateway, serve: Any, tmp_path: Path
) -> None:
    """delivery 12.27: what holds without a durable outbox"""
    agent = ScriptedAgent(tmp_path / "agent", [[chunk(e("one", "two"))]])
    with serve(agent, mode="structured", bubble_delay_ms=60_000) as service:
        await gateway.arrival()
        await gateway.send(event())
        assert await next_texts(gateway, 1) == ["one"]
        service.kill()
    shown: list[str] = []
    for _ in range(2):
        with serve(agent, mode="structured") as service:
            await gateway.arrival()
            service.terminate()
            assert service.wait() == 0
        shown += [frame["content"]["text"] for frame in sent(gateway)]
    assert len(shown) <= 1
    assert "one" not in shown
    assert len(agent.prompts) == 1
