"""A real agent, opencode, on a scripted model server: `OPENAB_TEST_OPENCODE=…/opencode pytest --agents`."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from openab_kernel.agent.pool import AcpAgent
from openab_kernel.agent.settings import PoolSettings
from openab_kernel.clock import SystemClock
from openab_kernel.facts.agent_update import Stopped, TextChunk
from openab_kernel.interfaces.store import Store

pytestmark = pytest.mark.agents

ANSWER = "The answer is 42."


class ModelServer(ThreadingHTTPServer):
    """Answers every chat completion, but holds those back that say `hold`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ChatCompletions)
        self.bodies: list[str] = []
        self.held = threading.Event()
        self.release = threading.Event()


class ChatCompletions(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast(ModelServer, self.server)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        last = json.loads(body)["messages"][-1]
        server.bodies.append(body)
        if "hold" in json.dumps(last) and "title" not in json.dumps(last):
            server.held.set()
            server.release.wait(30)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta, reason in (({"role": "assistant", "content": ANSWER}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            event = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            self._write(f"data: {json.dumps(event)}\n\n")
        self._write("data: [DONE]\n\n")

    def _write(self, text: str) -> None:
        try:
            self.wfile.write(text.encode())
        except OSError:
            return  # the agent gave the call up

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


def write_config(folder: Path, port: int) -> None:
    options = {"baseURL": f"http://127.0.0.1:{port}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"mock-model": {"name": "mock"}}}
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "mock/mock-model",
        "small_model": "mock/mock-model",
        "enabled_providers": ["mock"],
        "provider": {"mock": provider},
    }
    (folder / "opencode.json").write_text(json.dumps(config))


def opencode(folder: Path, store: Any) -> AcpAgent:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }
    return AcpAgent(
        "opencode",
        [os.environ["OPENAB_TEST_OPENCODE"], "acp"],
        str(folder),
        environment,
        pool=PoolSettings(),
        permission="reject",
        store=store,
        clock=SystemClock(),
        client_version="test",
    )


def text_of(updates):
    return "".join(update.text for update in updates if isinstance(update, TextChunk))


async def test_opencode_answers_is_cancelled_and_remembers_after_a_restart(kit, tmp_path):
    store = cast(Store, kit.store)
    (tmp_path / "home").mkdir()
    with model_server() as server:
        write_config(tmp_path, server.server_port)
        async with kit.running(opencode(tmp_path, store), seconds=60) as pool:
            first = await kit.ask(pool, "the first question")
            assert text_of(first) == ANSWER
            assert first[-1] == Stopped("end_turn", output_tokens=first[-1].output_tokens)
            print(await pool.describe(kit.key), kit.logged("agent.spawned")[0]["agent_pid"])
            print(await pool.models(kit.key))
            async with pool.turn(kit.key) as turn:
                prompt = turn.prompt([{"type": "text", "text": "hold this"}])
                await anyio.to_thread.run_sync(server.held.wait, 30)
                assert await pool.cancel(kit.key)
                assert [update async for update in prompt][-1] == Stopped("cancelled", by_request=True)
            server.release.set()
            assert text_of(await kit.ask(pool, "the third question")) == ANSWER
            assert len(kit.logged("agent.spawned")) == 1
        async with kit.running(opencode(tmp_path, store), seconds=60) as pool:
            async with pool.turn(kit.key) as turn:
                assert not turn.started_afresh
                said = [update async for update in turn.prompt([{"type": "text", "text": "after the restart"}])]
            print(await pool.describe(kit.key), kit.logged("agent.spawned")[1]["agent_pid"])
        assert text_of(said) == ANSWER
        assert "the first question" in server.bodies[-1]
        assert not kit.logged("agent.noise")
