"""The channel: stays connected to the gateway, and takes in what comes (delivery.md 2.6)."""

from __future__ import annotations

import anyio
import structlog

from openab_gateway_ws.adapter import GatewayMessageAdapter
from openab_gateway_ws.intake import Intake
from openab_gateway_ws.link import Link
from openab_gateway_ws.peer import Peer
from openab_gateway_ws.protocol import (
    EventFrame,
    FrameRefused,
    HelloFrame,
    ResponseFrame,
    decode_frame,
    encode_client_hello,
)
from openab_gateway_ws.settings import GatewaySettings
from openab_gateway_ws.turn_adapter import GatewayTurnAdapter
from openab_kernel import Clock
from openab_kernel.interfaces.channel import ChannelRuntime, TurnAdapter
from openab_kernel.interfaces.message_adapter import MessageAdapter
from openab_kernel.net.backoff import Backoff
from openab_kernel.net.websocket import ConnectionLost, ConnectRefused, MessageTooBig, WebSocket, connect

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""A gateway puts attachments into its frames, in base64."""

log = structlog.get_logger("openab_gateway_ws")


class GatewayChannel:
    """Implements `openab_kernel.interfaces.channel.Channel`. The account is the platform of the settings."""

    name = "gateway"

    def __init__(self, settings: GatewaySettings, *, clock: Clock, mode: str, version: str) -> None:
        self.account_id: str | None = settings.platform
        self.policy = settings.policy()
        self._settings = settings
        self._clock = clock
        self._mode = mode
        self._version = version
        self._link = Link(clock, self._new_peer())
        self.turn_adapter: TurnAdapter = GatewayTurnAdapter(settings)
        self.message_adapter: MessageAdapter = GatewayMessageAdapter(self._link, clock)

    async def run(self, runtime: ChannelRuntime) -> None:
        """Connect, and connect again, until cancelled."""
        if self._settings.token is None:
            log.warning("token.missing", channel=self.name, fix="set [gateway] token, here and at the gateway")
        intake = Intake(runtime)
        async with anyio.create_task_group() as group:
            group.start_soon(intake.run)
            await self._stay_connected(runtime, intake)

    async def _stay_connected(self, runtime: ChannelRuntime, intake: Intake) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._connect(runtime, intake, backoff)
            except (ConnectRefused, ConnectionLost) as error:
                pause_seconds = backoff.next_seconds()
                runtime.set_health("down", str(error))
                log.warning(
                    "connection.refused" if isinstance(error, ConnectRefused) else "connection.lost",
                    channel=self.name,
                    address=self._settings.shown_address(),
                    reason=str(error),
                    retry_in_seconds=pause_seconds,
                )
                await self._clock.sleep(pause_seconds)

    async def _connect(self, runtime: ChannelRuntime, intake: Intake, backoff: Backoff) -> None:
        """One connection, from the handshake to its loss."""
        settings = self._settings
        async with connect(
            settings.address(), settings.headers(), clock=self._clock, max_message_bytes=MAX_FRAME_BYTES
        ) as socket:
            backoff.reset()
            peer = self._new_peer()
            if self._says_hello():
                await socket.send_text(encode_client_hello(self._version))
            self._link.attach(socket, peer)
            runtime.set_health("ready")
            log.info("connection.opened", channel=self.name, address=settings.shown_address())
            try:
                await self._read(socket, peer, intake)
            finally:
                self._link.detach()

    async def _read(self, socket: WebSocket, peer: Peer, intake: Intake) -> None:
        while True:
            try:
                frame = await socket.receive()
                await self._take(decode_frame(frame), len(frame), peer, intake)
            except MessageTooBig:
                log.warning("frame.refused", channel=self.name, reason="too_big", field="")
            except FrameRefused as refusal:
                log.warning("frame.refused", channel=self.name, reason=refusal.reason, field=refusal.field)

    async def _take(
        self, frame: EventFrame | ResponseFrame | HelloFrame, size: int, peer: Peer, intake: Intake
    ) -> None:
        match frame:
            case EventFrame():
                await intake.put(frame, size)
            case ResponseFrame():
                peer.note_answer()
                if not self._link.settle(frame):
                    log.debug("answer.dropped", channel=self.name, outcome=frame.verdict)
            case HelloFrame():
                peer.greet(frame)

    def _new_peer(self) -> Peer:
        return Peer(
            mode=self._mode,
            streaming=self._settings.streaming,
            ack_seconds=self._settings.gateway_ack_timeout_secs,
        )

    def _says_hello(self) -> bool:
        choice = self._settings.hello
        return choice == "always" or (choice == "auto" and self._mode != "text")
