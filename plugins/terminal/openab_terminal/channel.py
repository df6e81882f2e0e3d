"""Lines of standard input are messages, answers are printed."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncIterator
from typing import TextIO
from uuid import uuid4

import anyio
from anyio import to_thread

from openab_kernel import Clock, KernelError, epoch_ms
from openab_kernel.facts.conversation import ConversationFacts, ReplyPlanFacts, RouteFacts
from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput, PreflightFacts, SenderFacts
from openab_kernel.facts.message import MessageFacts
from openab_kernel.facts.outbound import ChannelCapabilities, Destination, Receipt, TextLimit, TextSend
from openab_kernel.facts.policy import AccessPolicy, ChannelPolicy
from openab_kernel.facts.turn import ChannelTurnResult
from openab_kernel.interfaces.channel import ChannelRuntime, RoutedPlan

CONVERSATION = "local"
LINE_BYTES = 1024 * 1024


def local_user() -> str:
    """A stable id of the person at the keyboard."""
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "local")


class TerminalChannel:
    """One person, one direct chat. Ends when the input ends and every line has been answered."""

    name = "terminal"
    account_id: str | None = "local"

    def __init__(self, clock: Clock, *, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        self._clock = clock
        self._stdin = stdin or sys.stdin
        self._stdout = stdout or sys.stdout
        self._lost: OSError | None = None
        self._reading: anyio.CancelScope | None = None
        self._unanswered = 0
        self._answered = anyio.Event()
        self.turn_adapter = self
        self.message_adapter = self
        self.policy = ChannelPolicy(access=AccessPolicy(allow_from=frozenset({local_user()})))

    # ---------------------------------------------------------------- in

    async def run(self, runtime: ChannelRuntime) -> None:
        """Read until the input ends, then wait for what is still to be answered.

        Raises:
            KernelError: the input cannot be read, or the output cannot be written any more.
        """
        runtime.set_health("ready")
        with anyio.CancelScope() as self._reading:
            self._show_prompt()
            if self._lost is None:
                await self._read(runtime)
        if self._lost is not None:
            raise KernelError(f"standard output cannot be written: {self._lost.strerror}; the chat has ended")

    async def _read(self, runtime: ChannelRuntime) -> None:
        async for line in _lines(self._stdin):
            if runtime.is_draining:
                return
            if line.strip():
                self._unanswered += 1
                await runtime.receive(line)
            else:
                self._show_prompt()
        while self._unanswered:
            await self._answered.wait()

    def ingest(self, raw: str) -> NormalizedTurnInput:
        return NormalizedTurnInput(id=uuid4().hex, raw_text=raw)

    def resolve_turn(
        self, input: NormalizedTurnInput, event_class: ChannelEventClass, preflight: PreflightFacts
    ) -> RoutedPlan:
        user = local_user()
        return RoutedPlan(
            conversation=ConversationFacts(kind="direct", id=CONVERSATION),
            sender=SenderFacts(id=user, name=os.environ.get("USER") or user),
            reply=ReplyPlanFacts(to=CONVERSATION),
            message=MessageFacts(raw_body=input.raw_text),
            route=RouteFacts(),
        )

    def on_finalize(self, result: ChannelTurnResult) -> None:
        self._unanswered -= 1
        self._answered.set()
        self._answered = anyio.Event()
        self._show_prompt()

    # ---------------------------------------------------------------- out

    def capabilities(self, destination: Destination) -> ChannelCapabilities:
        return ChannelCapabilities(text_limit=TextLimit(size=100_000))

    is_ready = True

    async def wait_until_ready(self) -> None:
        """A terminal always is."""

    async def send_text(self, send: TextSend) -> Receipt:
        self._print(f"{send.text}\n")
        if self._lost is not None:
            await anyio.sleep_forever()  # nobody saw it, and `run` ends the kernel
        return Receipt(sent_at=epoch_ms(self._clock.now()))

    async def edit_text(self, destination: Destination, message_id: str, text: str) -> None:
        """Not declared, so never called; the same holds for the calls below."""

    async def delete(self, destination: Destination, message_id: str) -> None: ...

    async def add_reaction(self, destination: Destination, message_id: str, emoji: str) -> None: ...

    async def remove_reaction(self, destination: Destination, message_id: str, emoji: str) -> None: ...

    async def typing(self, destination: Destination) -> None: ...

    def _show_prompt(self) -> None:
        if self._stdin.isatty():
            self._print("> ")

    def _print(self, text: str) -> None:
        """What a terminal would act on, a control character, is shown as a question mark."""
        try:
            self._stdout.write("".join(char if char.isprintable() or char in "\n\t" else "?" for char in text))
            self._stdout.flush()
        except OSError as error:
            self._lost = error
            if self._reading is not None:
                self._reading.cancel()


async def _lines(stdin: TextIO) -> AsyncIterator[str]:
    """Lines without their ends. Reads only when there is something, so that no thread hangs in a read at the end.

    Raises:
        KernelError: this input cannot be read.
    """
    fd = stdin.fileno()
    can_wait = _can_wait_for(fd)
    rest = b""
    while True:
        if can_wait:
            await anyio.wait_readable(fd)
        try:
            chunk = os.read(fd, 65_536) if can_wait else await to_thread.run_sync(os.read, fd, 65_536)
        except OSError as error:
            way_out = "give chat a keyboard, a pipe or a file to read"
            raise KernelError(f"standard input cannot be read: {error.strerror}; {way_out}") from error
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")
        if len(rest) > LINE_BYTES:
            yield rest.decode(errors="replace")
            rest = b""
    if rest:
        yield rest.decode(errors="replace")


def _can_wait_for(fd: int) -> bool:
    """Whether this input may have nothing for a while. A file or a device like /dev/null always answers at once."""
    mode = os.fstat(fd).st_mode
    return os.isatty(fd) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
