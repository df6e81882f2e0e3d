from __future__ import annotations

from typing import cast

import anyio
import pytest

from openab_gateway_ws.link import Link
from openab_gateway_ws.peer import Peer
from openab_gateway_ws.protocol import ResponseFrame
from openab_kernel import PlatformMessageNotDispatchedError, SendUnknown
from openab_kernel.net.websocket import ConnectionLost, WebSocket
from openab_kernel.testing.clock import ManualClock


class BrokenSocket:
    """Loses the connection with every message, before or after the first byte of it."""

    def __init__(self, *, was_started: bool) -> None:
        self._was_started = was_started

    async def send_text(self, text: str) -> None:
        raise ConnectionLost("gone", was_started=self._was_started)


class QuietSocket:
    """Takes every message."""

    async def send_text(self, text: str) -> None:
        pass


def make_link(clock: ManualClock, socket: object) -> Link:
    peer = Peer(mode="text", streaming=False, ack_seconds=12)
    link = Link(clock, peer)
    link.attach(cast(WebSocket, socket), peer)
    return link


@pytest.mark.parametrize(("was_started", "error"), [(False, PlatformMessageNotDispatchedError), (True, SendUnknown)])
async def test_whether_a_frame_was_begun_decides_what_is_known(
    clock: ManualClock, was_started: bool, error: type[Exception]
) -> None:
    link = make_link(clock, BrokenSocket(was_started=was_started))
    with pytest.raises(error) as raised:
        await link.ask("frame", "req_1", 5)
    assert type(raised.value) is error
    assert not link.settle(ResponseFrame(request_id="req_1", success=True))


async def test_an_answer_settles_one_question_once(clock: ManualClock) -> None:
    link = make_link(clock, QuietSocket())
    answer = ResponseFrame(request_id="req_1", success=True)
    answers: list[ResponseFrame | None] = []

    async def ask(request_id: str) -> None:
        answers.append(await link.ask("frame", request_id, 5))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "req_1")
            group.start_soon(ask, "req_2")
            await anyio.wait_all_tasks_blocked()
            assert link.settle(answer)
            assert not link.settle(answer)
            await anyio.wait_all_tasks_blocked()
            assert answers == [answer]
            await clock.advance(5)
    assert answers == [answer, None]


async def test_an_answer_that_came_before_the_loss_counts(clock: ManualClock) -> None:
    link = make_link(clock, QuietSocket())
    answer = ResponseFrame(request_id="req_1", success=True)
    answers: list[ResponseFrame | None] = []

    async def ask() -> None:
        answers.append(await link.ask("frame", "req_1", 5))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            link.settle(answer)
            link.detach()
    assert answers == [answer]
