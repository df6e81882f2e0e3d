"""Judged by code that is not ours: the SDK's schema reads all we send, and an agent on the SDK answers us."""

import os
import sys
from pathlib import Path
from typing import Any, get_args

import acp.schema as schema
import pytest
from pydantic import BaseModel

from openab_kernel.facts.agent_update import Stopped, TextChunk
from openab_kernel.testing.scripted_agent import ask_permission, chunk, hang

META = {"openab.reply": {"mode": "text", "schema": "openab.turn.v1", "max_bubbles": 4, "max_bubble_chars": 1200}}

MODELS: dict[str | None, type[BaseModel]] = {
    "initialize": schema.InitializeRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
}


def model_of(frame: dict[str, Any]) -> type[BaseModel]:
    method = frame.get("method")
    if method == "session/set_config_option":
        is_switch = isinstance(frame["params"]["value"], bool)
        return schema.SetSessionConfigOptionBooleanRequest if is_switch else schema.SetSessionConfigOptionSelectRequest
    return schema.RequestPermissionResponse if method is None else MODELS[method]


async def test_all_that_is_sent_fits_the_schema_and_holds_nothing_it_does_not_know(kit):
    turns = [[ask_permission("reject_once"), ask_permission(), chunk("a"), hang()], []]
    script = kit.script(turns, on={"session/set_config_option": [{"do": "answer", "body": {"result": {}}}]})
    settings = {"default_config_options": {"model": "big", "web": True}}
    blocks = [{"type": "text", "text": "hi"}, {"type": "image", "mimeType": "image/png", "data": "aGk="}]
    async with kit.running(kit.pool(script, settings, meta=META)) as pool:
        async with pool.turn(kit.key) as turn:
            assert await anext(turn.prompt(blocks)) == TextChunk("a")
        await script.until_received("session/cancel")
    async with kit.running(kit.pool(script, settings, meta=META)) as pool:
        await kit.ask(pool)
    sent = script.received()
    assert {frame.get("method") for frame in sent} == {*MODELS, "session/set_config_option", None}
    for frame in sent:
        value = frame["params"] if "method" in frame else frame["result"]
        read = model_of(frame).model_validate(value)
        assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == value
        assert frame["jsonrpc"] == "2.0"
        assert ("id" in frame) is (frame.get("method") != "session/cancel")


async def test_agent_on_the_sdk_answers(kit):
    pool = kit.pool(kit.script(), environment={"PATH": os.environ["PATH"]})
    pool._command = [sys.executable, str(Path(__file__).with_name("echo_agent.py"))]
    async with kit.running(pool, seconds=30):
        assert await kit.ask(pool, "hello") == [TextChunk("hello"), Stopped("end_turn")]
        assert await kit.ask(pool, "again") == [TextChunk("again"), Stopped("end_turn")]
    assert not kit.logged("agent.stderr")
    assert not kit.logged("agent.noise")


@pytest.mark.parametrize("kind", get_args(schema.ToolKind))
async def test_permission_request_of_the_sdk_is_understood(kit, kind):
    script = kit.script([[ask_permission("allow_once", "reject_once", kind=kind)]])
    request = {**ask_permission("allow_once", kind=kind)["params"], "sessionId": "s"}
    schema.RequestPermissionRequest.model_validate(request)
    async with kit.running(kit.pool(script)) as pool:
        await kit.ask(pool)
    assert kit.logged("permission.answered")[0]["tool_kind"] == kind
