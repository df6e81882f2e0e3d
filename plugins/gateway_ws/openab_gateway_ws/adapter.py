"""Sends, edits, deletes and reactions as frames to the gateway (delivery.md 2.5, 10.1)."""

from __future__ import annotations

from uuid import uuid4

from openab_gateway_ws.link import Link
from openab_gateway_ws.peer import NO_ACK, AckRule
from openab_gateway_ws.protocol import (
    Command,
    Reply,
    ReplyChannel,
    ReplyContent,
    ResponseFrame,
    encode_reply,
    platform_of,
    request_id_of,
)
from openab_kernel import (
    Clock,
    PlatformMessageNotDispatchedError,
    SendRejected,
    SendThrottled,
    SendUnknown,
    epoch_ms,
)
from openab_kernel.facts.outbound import ChannelCapabilities, Destination, Receipt, ReceiptPart, TextSend

NO_MESSAGE_ID = "gw_sent"
"""Stands for the id of a message that was sent to a gateway which names none. Nothing can be done with it."""


class GatewayMessageAdapter:
    """Implements `openab_kernel.interfaces.message_adapter.MessageAdapter`.

    Sending the same part again gives the same frame under the same request id.
    """

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock

    def capabilities(self, destination: Destination) -> ChannelCapabilities:
        can = self._link.peer.capabilities(_platform(destination))
        return can if destination.source_message_id else can.model_copy(update={"reactions": False})

    @property
    def is_ready(self) -> bool:
        return self._link.is_open

    async def wait_until_ready(self) -> None:
        await self._link.wait_until_open()

    async def send_text(self, send: TextSend) -> Receipt:
        destination, peer = send.destination, self._link.peer
        rule = peer.send_rule(_platform(destination))
        reply = Reply(
            reply_to=destination.source_event_id or "",
            platform=_platform(destination),
            channel=ReplyChannel(id=destination.to, thread_id=destination.thread_id),
            content=ReplyContent(text=send.text),
            request_id=request_id_of(send.idempotency_key) if rule.asks else None,
            quote_message_id=send.reply_to_id,
        )
        answer = await self._deliver(reply, rule)
        if answer is None and rule.wait_seconds:
            peer.note_silence()
            if rule.silence == "unknown":
                raise SendUnknown(f"gateway: no answer within {rule.wait_seconds:g} s")
            return self._receipt(send, NO_MESSAGE_ID, is_confirmed=False)
        return self._receipt(send, answer.message_id if answer else None, is_confirmed=answer is not None)

    async def edit_text(self, destination: Destination, message_id: str, text: str) -> None:
        rule = self._link.peer.edit_rule(_platform(destination))
        await self._command("edit_message", destination, message_id, text, rule)

    async def delete(self, destination: Destination, message_id: str) -> None:
        await self._command("delete_message", destination, message_id, "")

    async def add_reaction(self, destination: Destination, message_id: str, emoji: str) -> None:
        await self._command("add_reaction", destination, message_id, emoji)

    async def remove_reaction(self, destination: Destination, message_id: str, emoji: str) -> None:
        await self._command("remove_reaction", destination, message_id, emoji)

    async def typing(self, destination: Destination) -> None:
        """A gateway has no such command."""

    async def _command(
        self, command: Command, destination: Destination, message_id: str, text: str, rule: AckRule = NO_ACK
    ) -> None:
        if message_id in ("", NO_MESSAGE_ID):
            raise SendRejected(f"gateway: {command} of a message without an id", code="no_message_id")
        platform, event_id = _platform(destination), destination.source_event_id or ""
        has_target = self._link.peer.has_targets(platform)
        reply = Reply(
            reply_to=event_id if has_target else message_id,
            platform=platform,
            channel=ReplyChannel(id=destination.to, thread_id=destination.thread_id),
            content=ReplyContent(text=text),
            command=command,
            request_id=f"req_{uuid4()}" if rule.asks else None,
            target_message_id=message_id if has_target else None,
        )
        await self._deliver(reply, rule)

    async def _deliver(self, reply: Reply, rule: AckRule) -> ResponseFrame | None:
        """None: there is no answer, because none was waited for or none came in time.

        Raises:
            SendError: it was refused, or is unknown.
        """
        frame = encode_reply(reply)
        if reply.request_id is None or not rule.wait_seconds:
            await self._link.send(frame)
            return None
        answer = await self._ask(frame, reply.request_id, rule)
        if answer is not None:
            _raise_unless_delivered(answer)
        return answer

    async def _ask(self, frame: str, request_id: str, rule: AckRule) -> ResponseFrame | None:
        """Ask, and once more if the answer does not come and to ask twice does no harm."""
        try:
            answer = await self._link.ask(frame, request_id, rule.wait_seconds)
        except SendUnknown:
            if not rule.repeats:
                raise
            answer = None
        if answer is not None or not rule.repeats:
            return answer
        await self._link.wait_until_open()
        try:
            return await self._link.ask(frame, request_id, rule.wait_seconds)
        except PlatformMessageNotDispatchedError as error:
            raise SendUnknown("gateway: the connection was lost before the second answer") from error

    def _receipt(self, send: TextSend, message_id: str | None, *, is_confirmed: bool) -> Receipt:
        ids = (message_id,) if message_id else ()
        thread_id = send.destination.thread_id
        return Receipt(
            sent_at=epoch_ms(self._clock.now()),
            primary_platform_message_id=message_id or None,
            platform_message_ids=ids,
            parts=tuple(
                ReceiptPart(
                    platform_message_id=id,
                    index=send.part_index,
                    thread_id=thread_id,
                    reply_to_id=send.reply_to_id,
                )
                for id in ids
            ),
            thread_id=thread_id,
            reply_to_id=send.reply_to_id,
            confirmed=is_confirmed,
        )


def _platform(destination: Destination) -> str:
    """One connection serves several platforms: the conversation knows its own, else it is the account's."""
    found = platform_of(destination.conversation_id)
    return found if found is not None else destination.account_id or ""


def _raise_unless_delivered(answer: ResponseFrame) -> None:
    """The peer's own words stay out of the error: they may quote the message."""
    match answer.verdict:
        case "delivered":
            return
        case "unknown":
            raise SendUnknown(f"gateway: the outcome is unknown, {answer.code}")
        case "rejected" if answer.retry_after_ms is not None:
            raise SendThrottled(
                f"gateway: not now, {answer.code}",
                retry_after_seconds=answer.retry_after_ms / 1000,
                code=answer.code,
            )
        case "rejected":
            raise SendRejected(f"gateway: refused, {answer.code}", code=answer.code)
