"""A WebSocket client: wsproto decides what the bytes mean, an anyio stream carries them.

There is no task behind a connection. Whoever receives also answers pings, and notices a peer that has gone silent: a
read that brings nothing for `idle_seconds` sends a ping, and if as long again brings nothing the connection is lost.
So a caller that stops receiving, because it is busy, is never taken for a dead peer.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import ProtocolError

from openab_kernel.clock import Clock
from openab_kernel.errors import KernelError

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 20.0
WRITE_SECONDS = 10.0
CLOSE_SECONDS = 2.0
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
READ_BYTES = 65_536

NETWORK_ERRORS = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
URL_CHARACTERS = "/?%:@!$&'()*+,;=~-._"
DEFAULT_PORTS = {"ws": 80, "wss": 443}
NORMAL_CLOSURE = 1000


class ConnectRefused(KernelError):
    """There is no connection. `status` is the HTTP status, if the peer answered with one."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ConnectionLost(KernelError):
    """The connection is gone. `was_started` False: of what was to be sent, not a byte left this process."""

    def __init__(self, message: str, *, was_started: bool = False) -> None:
        super().__init__(message)
        self.was_started = was_started


class MessageTooBig(KernelError):
    """One message was over the limit and has been thrown away; the connection goes on."""


class WebSocket:
    """An open connection. One task may receive; any task may send."""

    def __init__(self, stream: ByteStream, clock: Clock, *, max_message_bytes: int, idle_seconds: float) -> None:
        self._stream = stream
        self._clock = clock
        self._max_message_bytes = max_message_bytes
        self._idle_seconds = idle_seconds
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._events: deque[Event] = deque()
        self._message = bytearray()
        self._is_too_big = False
        self._is_lost = False
        self._writing = anyio.Lock()

    async def receive(self) -> str | bytes:
        """The next message, whole; bytes if it was a binary one.

        Raises:
            MessageTooBig: one was thrown away; go on receiving.
            ConnectionLost: the peer closed, went silent or broke the protocol.
        """
        await checkpoint()
        while True:
            while self._events:
                message = await self._take(self._events.popleft())
                if message is not None:
                    return message
            self._feed(await self._read())

    async def send_text(self, text: str) -> None:
        """Hand one text message to the network.

        Raises:
            ConnectionLost: `was_started` tells whether a part of it may have left.
        """
        await self._write(TextMessage(data=text))

    async def shake_hands(self, authority: str, target: str, headers: Iterable[tuple[str, str]]) -> None:
        """Turn the HTTP connection into a WebSocket. Called once, by `connect`."""
        extra = [(name.encode(), value.encode()) for name, value in headers]
        try:
            with self._clock.fail_after(CONNECT_SECONDS):
                request = Request(host=authority, target=target, extra_headers=extra)
                await self._stream.send(self._protocol.send(request))
                while not self._events:
                    self._feed(await self._stream.receive(READ_BYTES))
        except (ConnectionLost, *NETWORK_ERRORS) as error:
            raise ConnectRefused(f"{authority}: no WebSocket answers there") from error
        match self._events.popleft():
            case AcceptConnection():
                return
            case RejectConnection(status_code=status):
                raise ConnectRefused(f"{authority}: refused with HTTP status {status}", status=status)
            case _:
                raise ConnectRefused(f"{authority}: no WebSocket answers there")

    async def close(self) -> None:
        """Say goodbye, give the peer time to read what was sent before it, and free the socket."""
        with (
            anyio.CancelScope(shield=True),
            self._clock.move_on_after(CLOSE_SECONDS),
            suppress(ConnectionLost, *NETWORK_ERRORS),
        ):
            await self._write(CloseConnection(code=NORMAL_CLOSURE))
            while True:
                await self._stream.receive(READ_BYTES)
        await self._abandon()

    async def _take(self, event: Event) -> str | bytes | None:
        match event:
            case TextMessage() | BytesMessage():
                return self._join(event)
            case Ping():
                await self._write(event.response())
            case CloseConnection(code=code):
                with suppress(ConnectionLost):
                    await self._write(event.response())
                await self._abandon()
                raise ConnectionLost(f"closed by the peer with code {code}")
        return None

    def _join(self, event: TextMessage | BytesMessage) -> str | bytes | None:
        """Collect the pieces of a message; None: not yet whole."""
        piece = event.data.encode() if isinstance(event.data, str) else event.data
        if self._is_too_big or len(self._message) + len(piece) > self._max_message_bytes:
            self._is_too_big = True
            self._message.clear()
        else:
            self._message += piece
        if not event.message_finished:
            return None
        whole, is_too_big = bytes(self._message), self._is_too_big
        self._message.clear()
        self._is_too_big = False
        if is_too_big:
            raise MessageTooBig(f"a message of more than {self._max_message_bytes} bytes")
        return whole.decode() if isinstance(event, TextMessage) else whole

    def _feed(self, data: bytes) -> None:
        try:
            self._protocol.receive_data(data)
            self._events.extend(self._protocol.events())
        except ProtocolError as error:
            raise ConnectionLost("the peer broke the protocol") from error

    async def _read(self) -> bytes:
        try:
            data = await self._read_within(self._idle_seconds)
            if data is None:
                await self._write(Ping())
                data = await self._read_within(self._idle_seconds)
        except NETWORK_ERRORS as error:
            await self._abandon()
            raise ConnectionLost("the connection broke") from error
        if data is None:
            await self._abandon()
            raise ConnectionLost(f"no sign of life for {2 * self._idle_seconds:g} s")
        return data

    async def _read_within(self, seconds: float) -> bytes | None:
        """None: nothing came."""
        with self._clock.move_on_after(seconds):
            return await self._stream.receive(READ_BYTES)
        return None

    async def _write(self, event: Event) -> None:
        """Write one event. A write that has begun is not cancelled: half a frame would spoil all that follow."""
        async with self._writing:
            if self._is_lost:
                raise ConnectionLost("the connection is gone")
            try:
                data = self._protocol.send(event)
            except ProtocolError as error:
                raise ConnectionLost("the connection is closing") from error
            with anyio.CancelScope(shield=True):
                try:
                    with self._clock.fail_after(WRITE_SECONDS):
                        await self._stream.send(data)
                except NETWORK_ERRORS as error:
                    await self._abandon()
                    raise ConnectionLost("the connection broke", was_started=True) from error

    async def _abandon(self) -> None:
        """Give the connection up. Whoever reads or writes on it is woken by a loss."""
        self._is_lost = True
        await anyio.aclose_forcefully(self._stream)


class _Address(NamedTuple):
    host: str
    port: int
    is_secure: bool
    authority: str
    target: str


@asynccontextmanager
async def connect(
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    clock: Clock,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    idle_seconds: float = IDLE_SECONDS,
) -> AsyncIterator[WebSocket]:
    """Open a WebSocket, and close it at the end of the block.

    No error names the query of the URL or a header's value: both may hold a secret.

    Args:
        url: `ws://` or `wss://`. Certificates are checked against the system's store, or `SSL_CERT_FILE`.
        headers: Sent with the handshake.
        clock: Measures every time-out.
        max_message_bytes: The biggest message that is received, in bytes of UTF-8.
        idle_seconds: Without any byte for so long the peer is asked for a sign of life, for twice as long it is gone.

    Raises:
        ValueError: the URL or a header cannot be sent at all.
        ConnectRefused: there is no connection.
    """
    address = _read_url(url)
    for name, value in (headers or {}).items():
        if not value.isprintable() or value != value.strip():
            raise ValueError(f"header {name}: holds a control character, or white space at an end")
    stream = await _dial(address, clock)
    socket = WebSocket(stream, clock, max_message_bytes=max_message_bytes, idle_seconds=idle_seconds)
    try:
        await socket.shake_hands(address.authority, address.target, (headers or {}).items())
        yield socket
    finally:
        await socket.close()


def _read_url(url: str) -> _Address:
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError("WebSocket URL: expected ws://host or wss://host")
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return _Address(
        host=parts.hostname,
        port=port,
        is_secure=parts.scheme == "wss",
        authority=parts.netloc.rpartition("@")[2],
        target=quote(target, safe=URL_CHARACTERS),
    )


async def _dial(address: _Address, clock: Clock) -> ByteStream:
    try:
        with clock.fail_after(CONNECT_SECONDS):
            if not address.is_secure:
                return await anyio.connect_tcp(address.host, address.port)
            context = ssl.create_default_context()
            return await anyio.connect_tcp(
                address.host, address.port, ssl_context=context, tls_standard_compatible=False
            )
    except (UnicodeError, *NETWORK_ERRORS) as error:
        raise ConnectRefused(f"{address.authority}: {_describe(error)}") from error


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:g} s"
    return str(error) or type(error).__name__
