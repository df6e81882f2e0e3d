"""The channel. A letter is `in/ID.json`: `{"from": "alice", "text": "hello"}`. Who may write there is a matter of the
folder's rights; who writes to it does so under another name first and then renames.
"""

from __future__ import annotations

import anyio
import structlog
from pydantic import BaseModel, Field, ValidationError

from openab_echo.settings import EchoSettings
from openab_kernel import Clock, PlatformMessageNotDispatchedError, epoch_ms
from openab_kernel.facts.conversation import ConversationFacts, ReplyPlanFacts, RouteFacts
from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput, PreflightFacts, SenderFacts
from openab_kernel.facts.message import MessageFacts
from openab_kernel.facts.outbound import ChannelCapabilities, Destination, Receipt, ReceiptPart, TextLimit, TextSend
from openab_kernel.interfaces.channel import ChannelRuntime, RoutedPlan, TurnAdapter
from openab_kernel.interfaces.message_adapter import MessageAdapter

log = structlog.get_logger("openab_echo")


class Letter(BaseModel):
    """What a file in `in/` holds. Checked here; further on, types are trusted."""

    sender: str = Field(alias="from", min_length=1)
    text: str


class Answer(BaseModel):
    """What a file in `out/` holds."""

    to: str
    text: str
    part: int
    of: int


class EchoChannel:
    """One pair of folders, in both directions."""

    name = "echo"

    def __init__(self, settings: EchoSettings, clock: Clock) -> None:
        self.account_id: str | None = settings.folder.name
        self.policy = settings.policy()
        self.turn_adapter: TurnAdapter = EchoTurnAdapter()
        self.message_adapter: MessageAdapter = EchoMessageAdapter(anyio.Path(settings.folder, "out"), clock)
        self._inbox = anyio.Path(settings.folder, "in")
        self._clock = clock
        self._pause_seconds = settings.poll_ms / 1000

    async def run(self, runtime: ChannelRuntime) -> None:
        """Look into `in/` again and again, until cancelled."""
        runtime.set_health("ready")
        while True:
            for letter in sorted([path async for path in self._inbox.glob("*.json")]):
                await self._take(letter, runtime)
            await self._clock.sleep(self._pause_seconds)

    async def _take(self, letter: anyio.Path, runtime: ChannelRuntime) -> None:
        """Remove a letter once the kernel has it. Until then it stays, and the next look finds it again."""
        if runtime.is_draining:
            return
        try:
            await runtime.receive(letter)
        except Exception as error:  # the outermost loop: one letter stops no other
            log.warning("letter.left", letter=letter.name, reason=type(error).__name__)
        else:
            await letter.unlink()


class EchoTurnAdapter:
    """Says in the kernel's words what came from the platform."""

    async def ingest(self, raw: anyio.Path) -> NormalizedTurnInput | None:
        try:
            letter = Letter.model_validate_json(await raw.read_bytes())
        except ValidationError as error:
            log.warning("letter.refused", letter=raw.name, faults=error.error_count())
            return None
        return NormalizedTurnInput(id=raw.stem, event_id=raw.stem, raw_text=letter.text, raw=letter)

    def resolve_turn(
        self, input: NormalizedTurnInput, event_class: ChannelEventClass, preflight: PreflightFacts
    ) -> RoutedPlan:
        sender: str = input.raw.sender
        return RoutedPlan(
            conversation=ConversationFacts(kind="direct", id=sender),
            sender=SenderFacts(id=sender),
            reply=ReplyPlanFacts(to=sender),
            message=MessageFacts(raw_body=input.raw_text),
            route=RouteFacts(),
            platform_message_id=input.id,
        )


class EchoMessageAdapter:
    """Makes platform calls."""

    is_ready = True

    def __init__(self, outbox: anyio.Path, clock: Clock) -> None:
        self._outbox = outbox
        self._clock = clock

    def capabilities(self, destination: Destination) -> ChannelCapabilities:
        return ChannelCapabilities(text_limit=TextLimit(size=4000))

    async def wait_until_ready(self) -> None:
        """A folder always is. One with a connection waits here until it is open."""

    async def send_text(self, send: TextSend) -> Receipt:
        """Write one answer. A second try at it has the same key, so it writes the same file."""
        answer = Answer(to=send.destination.to, text=send.text, part=send.part_index + 1, of=send.part_count)
        message_id = send.idempotency_key
        try:
            unfinished = self._outbox / f"{message_id}.part"
            await unfinished.write_text(answer.model_dump_json())
            await unfinished.replace(self._outbox / f"{message_id}.json")
        except OSError as error:
            raise PlatformMessageNotDispatchedError(f"echo: {self._outbox}: {error.strerror}") from error
        return Receipt(
            sent_at=epoch_ms(self._clock.now()),
            primary_platform_message_id=message_id,
            platform_message_ids=(message_id,),
            parts=(ReceiptPart(platform_message_id=message_id),),
        )

    # What `capabilities` does not name is never asked for.

    async def edit_text(self, destination: Destination, message_id: str, text: str) -> None: ...

    async def delete(self, destination: Destination, message_id: str) -> None: ...

    async def add_reaction(self, destination: Destination, message_id: str, emoji: str) -> None: ...

    async def remove_reaction(self, destination: Destination, message_id: str, emoji: str) -> None: ...

    async def typing(self, destination: Destination) -> None: ...
