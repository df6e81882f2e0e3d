"""The connection as those see it who send: perhaps open, perhaps not, and with questions under way."""

from __future__ import annotations

import anyio

from openab_gateway_ws.peer import Peer
from openab_gateway_ws.protocol import ResponseFrame
from openab_kernel import Clock, PlatformMessageNotDispatchedError, SendUnknown
from openab_kernel.net.websocket import ConnectionLost, WebSocket


class _Question:
    """A frame that was sent and whose answer somebody waits for."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.answer: ResponseFrame | None = None
        self.is_lost = False


class Link:
    """Owned by the channel, which attaches each new socket and detaches it when it is gone.

    `peer` outlives its socket: while there is none, what the last one could do is the best guess.
    """

    def __init__(self, clock: Clock, peer: Peer) -> None:
        self.peer = peer
        self._clock = clock
        self._socket: WebSocket | None = None
        self._opened = anyio.Event()
        self._questions: dict[str, _Question] = {}

    def attach(self, socket: WebSocket, peer: Peer) -> None:
        self._socket, self.peer = socket, peer
        self._opened.set()

    def detach(self) -> None:
        """The socket is gone, and with it every answer that has not come."""
        if self._socket is None:
            return
        self._socket = None
        self._opened = anyio.Event()
        for question in self._questions.values():
            question.is_lost = True
            question.ended.set()

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    async def wait_until_open(self) -> None:
        while self._socket is None:
            await self._opened.wait()

    async def send(self, frame: str) -> None:
        """Hand a frame to the socket that is open now.

        Raises:
            PlatformMessageNotDispatchedError: none is open, or it went before the frame was begun.
            SendUnknown: the connection broke while the frame went out.
        """
        if self._socket is None:
            raise PlatformMessageNotDispatchedError("gateway: no connection is open", code="not_connected")
        try:
            await self._socket.send_text(frame)
        except ConnectionLost as error:
            if error.was_started:
                raise SendUnknown("gateway: the connection broke in the middle of a frame") from error
            raise PlatformMessageNotDispatchedError("gateway: the connection is gone", code="not_connected") from error

    async def ask(self, frame: str, request_id: str, wait_seconds: float) -> ResponseFrame | None:
        """Send a frame and wait for its answer. None: it did not come in time.

        Raises:
            PlatformMessageNotDispatchedError: as `send`.
            SendUnknown: as `send`, or the connection was lost while the answer was still to come.
        """
        question = self._questions[request_id] = _Question()
        try:
            await self.send(frame)
            with self._clock.move_on_after(wait_seconds):
                await question.ended.wait()
        finally:
            self._questions.pop(request_id, None)
        if question.answer is None and question.is_lost:
            raise SendUnknown("gateway: the connection was lost before the answer")
        return question.answer

    def settle(self, answer: ResponseFrame) -> bool:
        """Give an answer to whoever waits for it. False: nobody does."""
        question = self._questions.get(answer.request_id)
        if question is None or question.ended.is_set():
            return False
        question.answer = answer
        question.ended.set()
        return True
