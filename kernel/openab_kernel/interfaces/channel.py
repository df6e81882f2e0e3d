"""A channel: one platform account, in both directions (turn-kernel.md 1.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

from pydantic import Field

from openab_kernel.facts.access import AccessFacts
from openab_kernel.facts.admission import Admission
from openab_kernel.facts.base import Facts
from openab_kernel.facts.context import FinalizedMsgContext
from openab_kernel.facts.conversation import ConversationFacts, ReplyPlanFacts, RouteFacts
from openab_kernel.facts.event import (
    ChannelEventClass,
    HistoryFacts,
    MediaSource,
    NormalizedTurnInput,
    PreflightFacts,
    SenderFacts,
)
from openab_kernel.facts.message import InboundMediaFacts, MessageFacts, SupplementalContextFacts
from openab_kernel.facts.policy import ChannelPolicy
from openab_kernel.facts.turn import ChannelTurnResult, DispatchResult
from openab_kernel.interfaces.message_adapter import MessageAdapter

OnFinalize = Callable[[ChannelTurnResult], "Awaitable[None] | None"]


class DeliveryAdapter(Protocol):
    """How the payloads of one turn are sent, where the channel does it itself (outbound.md 2)."""

    async def deliver(self, payload: str, info: dict[str, Any]) -> dict[str, Any] | None:
        """Send one payload; `info["kind"]` is tool, block or final. `visible_reply_sent` in the answer tells."""
        ...


class RoutedPlan(Facts):
    """Resolve's usual answer: facts alone. The kernel adds session key, store and recorder and builds the context.

    `platform_message_id` is the platform's own id of the message, for reactions and for the agent; None: it has none.
    """

    conversation: ConversationFacts
    sender: SenderFacts
    reply: ReplyPlanFacts
    message: MessageFacts
    route: RouteFacts
    from_: str = Field(default="", alias="from")
    platform_message_id: str | None = None
    platform_message_id_full: str | None = None
    access: AccessFacts | None = None
    supplemental: SupplementalContextFacts | None = None
    media: tuple[InboundMediaFacts, ...] | MediaSource = ()
    history: HistoryFacts | None = None
    provider: str | None = None
    surface: str | None = None
    channel_context: Any = None
    extra: dict[str, Any] = Field(default_factory=dict)
    delivery: Any = Field(default=None, exclude=True)
    admission: Admission | None = None


class RecordOptions(Facts):
    """What a ready turn may say about its record. `session_key`: non-empty and trimmed."""

    session_key: str | None = None
    after_record: Callable[[], Awaitable[None]] | None = Field(default=None, exclude=True)
    on_record_error: Callable[[BaseException], Any] | None = Field(default=None, exclude=True)
    internal_turn_source: str | None = None


class RunDispatchLifecycle(Facts):
    """What a prepared turn declares. `turn_adoption_lifecycle` is the object the kernel handed to the channel."""

    turn_adoption_lifecycle: Any = Field(default=None, exclude=True)
    on_dispatch_skipped: Callable[[str], Any] | None = Field(default=None, exclude=True)


class _ReadyTurn(Facts):
    channel: str
    route_session_key: str
    ctx_payload: FinalizedMsgContext
    account_id: str | None = None
    record: RecordOptions | None = None
    history: HistoryFacts | None = None
    admission: Admission | None = None
    bot_loop_protection: Any = None
    outbound_echo_source_id: str | None = None
    store_path: str | None = None
    record_inbound_session: Callable[..., Awaitable[Any]] | None = Field(default=None, exclude=True)
    log: Callable[[Any], Any] | None = Field(default=None, exclude=True)
    message_id: str | None = None
    on_finalize: OnFinalize | None = Field(default=None, exclude=True)


class AssembledTurn(_ReadyTurn):
    """A turn with its context built; the kernel runs the agent and `delivery` sends."""

    delivery: Any = Field(exclude=True)


class PreparedTurn(_ReadyTurn):
    """A turn whose dispatch the channel runs itself. `run_dispatch` is awaited at most once."""

    run_dispatch: Callable[[], Awaitable[DispatchResult]] = Field(exclude=True)
    on_pre_dispatch_failure: Callable[[BaseException], Any] | None = Field(default=None, exclude=True)
    observe_only_dispatch_result: DispatchResult | None = None
    run_dispatch_lifecycle: RunDispatchLifecycle | None = None


Resolved = RoutedPlan | AssembledTurn | PreparedTurn


class TurnAdapter(Protocol):
    """How a channel reads its platform. Methods may be async or plain; only two are required.

    Optional beside them: `classify(input) -> ChannelEventClass | None`, `preflight(input, event_class) ->
    PreflightFacts | Admission | None`, `on_finalize(result)`, and the attribute `may_widen_observe_only`.
    """

    def ingest(self, raw: Any) -> Any:
        """`NormalizedTurnInput`, or None for "not for us"."""
        ...

    def resolve_turn(
        self, input: NormalizedTurnInput, event_class: ChannelEventClass, preflight: PreflightFacts
    ) -> Any:
        """A routed plan, an assembled or prepared turn, a drop or handled admission, or a list of turns."""
        ...


class ChannelRuntime(Protocol):
    """What a channel is handed when it is opened."""

    async def receive(self, raw: Any) -> ChannelTurnResult | None:
        """Take one raw event through stages 1 to 8.

        Returns once the event is on disk (None: its turn is still to come) or refused for good (its result).
        Only then may the platform be told that it arrived.

        Raises:
            Exception: the event is not durable and must not be acknowledged.
        """
        ...

    @property
    def is_draining(self) -> bool:
        """The service is about to stop: no new events are taken, the connection stays for what is still to be sent."""
        ...

    def set_health(self, state: Literal["starting", "ready", "degraded", "down"], detail: str = "") -> None:
        """Say how the connection is. `detail` is read by operators and holds no secret."""
        ...


class Channel(Protocol):
    """One account of one platform. `name` is what logs, session keys and configuration call it."""

    @property
    def name(self) -> str: ...

    @property
    def account_id(self) -> str | None: ...

    @property
    def turn_adapter(self) -> TurnAdapter: ...

    @property
    def message_adapter(self) -> MessageAdapter: ...

    @property
    def policy(self) -> ChannelPolicy: ...

    async def run(self, runtime: ChannelRuntime) -> None:
        """Connect, receive, reconnect; live until cancelled. Returning ends the channel for good."""
        ...
