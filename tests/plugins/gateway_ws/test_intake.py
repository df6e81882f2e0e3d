from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from openab_gateway_ws.intake import Intake
from openab_gateway_ws.protocol import EventFrame, decode_frame
from tests.plugins.gateway_ws.fake_gateway import event
from tests.plugins.gateway_ws.fake_kernel import FakeRuntime


def frame(channel_id: int) -> EventFrame:
    decoded = decode_frame(json.dumps(event(channel__id=str(channel_id))))
    assert isinstance(decoded, EventFrame)
    return decoded


@pytest.mark.parametrize(
    ("limits", "size", "fit"),
    [
        ({"max_events": 3, "max_size": 1000}, 10, 3),
        ({"max_events": 100, "max_size": 50}, 10, 5),
        ({"max_events": 100, "max_size": 59}, 10, 5),
        ({"max_events": 100, "max_size": 5}, 10, 1),
    ],
)
async def test_a_full_intake_makes_the_reader_wait_until_there_is_room(
    limits: dict[str, int], size: int, fit: int
) -> None:
    runtime = FakeRuntime()
    gate = anyio.Event()

    async def hold(_event: Any) -> None:
        await gate.wait()

    runtime.take = hold
    intake = Intake(runtime, **limits)
    put = 0

    async def read() -> None:
        nonlocal put
        for n in range(20):
            await intake.put(frame(n), size)
            put += 1

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(intake.run)
            for taken_before in (0, 20):
                put, gate = 0, anyio.Event()
                group.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                assert put == fit
                gate.set()
                await runtime.until_taken(taken_before + 20)
            group.cancel_scope.cancel()
    assert sorted(int(taken.channel.id) for taken in runtime.taken) == sorted([*range(20)] * 2)
