"""From what resolve gave to the message that is recorded: one form for routed, assembled and prepared turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import anyio

from openab_kernel.facts.admission import Dispatch, ObserveOnly
from openab_kernel.facts.context import FinalizedMsgContext
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.event import NormalizedTurnInput
from openab_kernel.facts.message import InboundMediaFacts
from openab_kernel.facts.outbound import Destination
from openab_kernel.facts.turn import ChannelTurnResult, InboundMessage
from openab_kernel.interfaces.channel import AssembledTurn, Channel, PreparedTurn, RoutedPlan
from openab_kernel.policies.session_key import given_key
from openab_kernel.stages.assemble import ContextFacts, build_context
from openab_kernel.stages.finalize import OnFinalize
from openab_kernel.stages.trail import Trail

MediaLoader = Callable[[], "list[InboundMediaFacts] | Awaitable[list[InboundMediaFacts]]"]


class Ending:
    """Where the caller of an entry point waits for the turn that takes its message."""

    def __init__(self) -> None:
        self._ended = anyio.Event()
        self._result: ChannelTurnResult | None = None
        self._error: BaseException | None = None

    def set(self, result: ChannelTurnResult, error: BaseException | None) -> None:
        self._result, self._error = result, error
        self._ended.set()

    async def wait(self) -> ChannelTurnResult:
        """The result; what the turn raised is raised here."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


@dataclass(slots=True)
class Queued:
    """A recorded message in a lane, with what only this process knows of it.

    After a restart nothing but the record is left: `delivery`, `prepared` and `ending` are None.
    """

    seq: int
    message: InboundMessage
    trail: Trail
    on_finalize: OnFinalize | None = None
    delivery: Any = None
    prepared: PreparedTurn | None = None
    load_media: MediaLoader | None = None
    ending: Ending | None = None


def message_of_plan(
    plan: RoutedPlan,
    found: NormalizedTurnInput,
    channel: Channel,
    admission: Dispatch | ObserveOnly,
    *,
    command_authorized: bool,
    received_at: int,
) -> InboundMessage:
    """Build the context of a routed plan, and the message around it."""
    session = plan.route.session
    assert session is not None, "route() fills it"
    media = () if callable(plan.media) else plan.media
    context = build_context(
        ContextFacts(
            channel=channel.name,
            account_id=channel.account_id,
            message_id=plan.platform_message_id or found.id,
            message_id_full=plan.platform_message_id_full,
            from_=plan.from_ or plan.sender.id or "",
            conversation=plan.conversation,
            sender=plan.sender,
            route=plan.route,
            reply=plan.reply,
            message=plan.message,
            provider=plan.provider,
            surface=plan.surface,
            timestamp=found.timestamp if found.timestamp is not None else received_at,
            access=plan.access,
            command_authorized=command_authorized,
            supplemental=plan.supplemental,
            media=media,
            channel_context=plan.channel_context,
            proactive=found.proactive,
            extra=plan.extra,
        )
    )
    thread_id = _thread_id(context, plan.conversation.thread_id)
    return InboundMessage(
        session=session,
        session_key=context.session_key,
        channel=channel.name,
        account_id=channel.account_id,
        conversation_id=plan.conversation.id,
        thread_id=thread_id,
        message_id=found.id,
        event_id=found.event_id,
        sender_id=plan.sender.id,
        proactive=found.proactive,
        from_person=not found.proactive and not plan.sender.is_bot,
        received_at=received_at,
        admission=admission,
        context=context,
        destination=Destination(
            channel=channel.name,
            account_id=channel.account_id,
            conversation_id=plan.conversation.id,
            to=plan.reply.delivery_target or plan.reply.reply_target or plan.reply.to,
            thread_id=thread_id,
            source_event_id=found.event_id,
            source_message_id=plan.platform_message_id,
        ),
        reply_to_id=plan.reply.reply_to_id,
    )


def message_of_turn(
    turn: AssembledTurn | PreparedTurn,
    admission: Dispatch | ObserveOnly,
    *,
    event_id: str | None,
    received_at: int,
) -> InboundMessage:
    """The message of a turn that the channel has made ready itself."""
    context = turn.ctx_payload
    message_id = turn.message_id or context.message_sid or token_hex(16)
    thread_id = _thread_id(context, None)
    source = turn.record.internal_turn_source if turn.record else None
    return InboundMessage(
        session=session_of_turn(turn),
        session_key=context.session_key or turn.route_session_key,
        channel=turn.channel,
        account_id=turn.account_id,
        conversation_id=context.native_channel_id or context.chat_id,
        thread_id=thread_id,
        message_id=message_id,
        event_id=event_id,
        sender_id=context.sender_id,
        proactive=context.proactive,
        from_person=not context.proactive and not context.sender_is_bot and source is None,
        resumable=isinstance(turn, AssembledTurn),
        internal_turn_source=source,
        received_at=received_at,
        admission=admission,
        context=context,
        destination=Destination(
            channel=turn.channel,
            account_id=turn.account_id,
            conversation_id=context.native_channel_id or context.chat_id,
            to=context.originating_to,
            thread_id=thread_id,
            source_event_id=event_id,
            source_message_id=context.message_sid,
        ),
        reply_to_id=context.reply_to_id,
    )


def session_of_turn(turn: AssembledTurn | PreparedTurn) -> SessionKey:
    """A ready turn names its session by a string, which is taken as it is."""
    context = turn.ctx_payload
    return given_key(context.agent_id, context.session_key or turn.route_session_key)


def _thread_id(context: FinalizedMsgContext, conversation_thread: str | None) -> str | None:
    thread = context.message_thread_id if context.message_thread_id is not None else conversation_thread
    return None if thread is None else str(thread)
