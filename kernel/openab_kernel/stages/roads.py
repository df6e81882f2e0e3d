"""The three roads from what an agent says to messages, one for each mode of delivery (delivery.md 5, 6, 7).

A road takes updates while the agent works, and says at the end of the turn what is to be sent. Only the sequential
road sends before. What is decided is decided in `delivery/`; here it is carried out and logged, without any string of
the agent's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import structlog
from anyio import to_thread

from openab_kernel.delivery.bubbles import BubblePlan, bubble_text, plan_bubbles
from openab_kernel.delivery.directives import Header, take_header
from openab_kernel.delivery.envelope import Bubble, EnvelopeRules, Findings, find_envelopes
from openab_kernel.delivery.splitter import split
from openab_kernel.delivery.tables import convert_tables
from openab_kernel.delivery.text import TurnText, plan_text
from openab_kernel.delivery.tool_lines import ToolRuns
from openab_kernel.errors import FailureCause
from openab_kernel.facts.agent_update import (
    AgentUpdate,
    BubbleIgnored,
    BubbleMessage,
    Stopped,
    TextChunk,
    ToolActivity,
)
from openab_kernel.facts.outbound import ChannelCapabilities, PayloadKind
from openab_kernel.facts.turn import InboundMessage, NextStep
from openab_kernel.stages.parts import Parts

log = structlog.get_logger("openab_kernel.deliver")

NO_CAPABILITIES = ChannelCapabilities()
# Text up to this size is planned at once: handing it to a thread would cost more.
SMALL_CHARS = 65_536

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Message:
    """Something to be sent. `parts` are its platform calls, none blank. A `final` one is the agent's own."""

    kind: PayloadKind
    parts: tuple[str, ...]
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the agent's part of a turn ended. `cause` None: well."""

    stopped: Stopped | None
    cause: FailureCause | None


@dataclass(frozen=True, slots=True)
class Closing:
    """What a road has to send at the end of a turn. `cause`: why the turn failed after all.

    `is_silent`: the agent says that nothing is to be sent, a line about a failure included.
    """

    messages: tuple[Message, ...] = ()
    cause: FailureCause | None = None
    is_silent: bool = False
    steps: tuple[NextStep, ...] = ()


class Road(Protocol):
    """Owned by the task of the turn."""

    @property
    def bubbles(self) -> int:
        """Bubbles that were given out so far."""
        ...

    def take(self, update: AgentUpdate) -> None:
        """Take one update of the agent, in order. Never waits."""
        ...

    def bubble(self, update: BubbleMessage) -> Message | None:
        """Take a deliberate message. What is given is to be sent at once."""
        ...

    async def close(self, ending: Ending) -> Closing:
        """The agent is done. Called once."""
        ...


def road_for(anchor: InboundMessage, parts: Parts) -> Road:
    """The road of the mode that was fixed when the kernel started."""
    roads: dict[str, Callable[[InboundMessage, Parts], Road]] = {
        "text": TextRoad,
        "structured": StructuredRoad,
        "sequential": SequentialRoad,
    }
    return roads[parts.delivery.mode](anchor, parts)


class _Road:
    """What the roads share: the text of the turn, and how a text becomes platform calls."""

    def __init__(self, anchor: InboundMessage, parts: Parts) -> None:
        self.bubbles = 0
        self._anchor = anchor
        self._parts = parts
        self._text = TurnText()

    def take(self, update: AgentUpdate) -> None:
        match update:
            case TextChunk(text):
                self._text.feed(text)
            case ToolActivity(is_new=True):
                self._text.begin_answer()
            case BubbleIgnored(reason):
                self._parts.session_warnings.ignored(self._anchor.session_key, reason)
            case _:
                pass

    def _capabilities(self) -> ChannelCapabilities:
        channel = self._parts.channels.get(self._anchor.channel, self._anchor.account_id)
        return channel.message_adapter.capabilities(self._anchor.destination) if channel else NO_CAPABILITIES

    async def _off_loop(self, chars: int, plan: Callable[[], T]) -> T:
        """Run pure work over so much text; a lot of it in a thread, so that nobody else has to wait."""
        if self._text.dropped_chars:
            log.info("text.dropped", chars=self._text.dropped_chars, outside_prose=False, reason="too_long")
            self._text.dropped_chars = 0
        return plan() if chars <= SMALL_CHARS else await to_thread.run_sync(plan)


class TextRoad(_Road):
    """One message, as the agent wrote it. An envelope is not looked for."""

    def __init__(self, anchor: InboundMessage, parts: Parts) -> None:
        super().__init__(anchor, parts)
        self._tools = ToolRuns()

    def take(self, update: AgentUpdate) -> None:
        if isinstance(update, BubbleIgnored):
            self._parts.session_warnings.mismatch(self._anchor.session_key, "sequential")
            return
        super().take(update)
        if isinstance(update, ToolActivity):
            self._tools.see(update.tool_call_id, update.title, update.status)

    def bubble(self, update: BubbleMessage) -> Message | None:
        self._parts.session_warnings.mismatch(self._anchor.session_key, "sequential")
        return None

    async def close(self, ending: Ending) -> Closing:
        buffer = self._text.buffer
        reactions = self._parts.reactions
        plan = await self._off_loop(
            len(buffer),
            partial(
                plan_text,
                self._text,
                narration=reactions.narration_display,
                tool_lines=self._tools.render(reactions.tool_display),
                limit=self._capabilities().text_limit,
                tables=self._parts.markdown.tables,
                schema_id=self._parts.delivery.schema_id,
            ),
        )
        if plan.is_envelope:
            self._parts.session_warnings.mismatch(self._anchor.session_key, "structured")
        if plan.parts:
            self.bubbles = 1
            return Closing((Message("final", plan.parts, plan.reply_to or self._anchor.reply_to_id),))
        if ending.cause is not None:
            return Closing()
        return Closing(cause=self._note_empty(ending.stopped))

    def _note_empty(self, stopped: Stopped | None) -> FailureCause | None:
        """Nothing to say: a person is told, a bot is not, and the log has one line."""
        zero_tokens = stopped is not None and stopped.output_tokens == 0
        log.info(
            "turn.empty",
            session_key=self._anchor.session_key,
            **({"zero_tokens": True} if zero_tokens else {}),
        )
        return "empty" if self._anchor.from_person else None


class _BubbleRoad(_Road):
    """What the two bubble modes share: messages under one cap, and the search for envelopes at the end."""

    def __init__(self, anchor: InboundMessage, parts: Parts) -> None:
        super().__init__(anchor, parts)
        self._ignored = 0

    def _accept(self, update: BubbleMessage, taken: int) -> Bubble | None:
        """The bubble of a deliberate message, if it is not blank and the cap has room."""
        text = bubble_text(update.text)
        if text is None:
            return None
        if taken >= self._parts.delivery.max_bubbles:
            self._ignored += 1
            return None
        return Bubble(update.id, text)

    def _note_capped(self) -> None:
        if self._ignored:
            log.warning("bubbles.capped", cap=self._parts.delivery.max_bubbles, ignored=self._ignored)

    def _messages(self, bubbles: tuple[Bubble, ...], reply_to: str | None) -> tuple[Message, ...]:
        """One message a bubble, the first as the reply."""
        self.bubbles += len(bubbles)
        first, rest = bubbles[:1], bubbles[1:]
        return (
            *(Message("final", self._render(bubble.text), reply_to) for bubble in first),
            *(Message("final", self._render(bubble.text)) for bubble in rest),
        )

    def _render(self, text: str) -> tuple[str, ...]:
        return tuple(split(convert_tables(text, self._parts.markdown.tables), self._capabilities().text_limit))

    def _header(self) -> Header:
        header = take_header(self._text.buffer, self._text.answer)
        if header.delivery not in (None, self._parts.delivery.schema_id):
            log.warning("directive.mismatched", fix="[delivery] schema")
        if header.unknown:
            log.debug("directive.unknown", count=header.unknown)
        return header

    def _reply_to(self, header: Header) -> str | None:
        return header.reply_to or self._anchor.reply_to_id

    async def _close_with_text(
        self, told: tuple[Bubble, ...], ending: Ending, *, is_fall_through: bool = False
    ) -> Closing:
        """Search the text, and make messages of what is decided."""
        delivery = self._parts.delivery
        rules = EnvelopeRules(
            delivery.schema_id, delivery.max_bubbles, delivery.max_bubble_chars, repair=delivery.repair
        )
        header = self._header()

        def plan_all() -> tuple[BubblePlan, tuple[Message, ...]]:
            found: Findings = find_envelopes(header.buffer, header.answer, rules)
            plan = plan_bubbles(
                found, told, delivery, is_fall_through=is_fall_through, has_failed=ending.cause is not None
            )
            return plan, self._of_plan(plan, self._reply_to(header))

        plan, messages = await self._off_loop(len(header.buffer), plan_all)
        log_plan(plan, len(header.buffer), delivery.on_parse_error)
        return Closing(messages, is_silent=plan.is_silent, steps=plan.steps)

    def _of_plan(self, plan: BubblePlan, reply_to: str | None) -> tuple[Message, ...]:
        if plan.bubbles:
            return self._messages(plan.bubbles, reply_to)
        if plan.text:
            return (Message("final", self._render(plan.text), reply_to),)
        if plan.has_apology and self._anchor.from_person:
            return (Message("notice", (self._parts.delivery.parse_error_text,)),)
        return ()


class StructuredRoad(_BubbleRoad):
    """Nothing leaves before the end; then the whole plan does."""

    def __init__(self, anchor: InboundMessage, parts: Parts) -> None:
        super().__init__(anchor, parts)
        self._told: list[Bubble] = []

    def bubble(self, update: BubbleMessage) -> Message | None:
        bubble = self._accept(update, len(self._told))
        if bubble is not None:
            self._told.append(bubble)
        return None

    async def close(self, ending: Ending) -> Closing:
        self._note_capped()
        return await self._close_with_text(tuple(self._told), ending)


class SequentialRoad(_BubbleRoad):
    """Each deliberate message leaves when it comes. Only where none came is the text looked at."""

    def bubble(self, update: BubbleMessage) -> Message | None:
        bubble = self._accept(update, self.bubbles)
        if bubble is None:
            return None
        reply_to = None if self.bubbles else self._reply_to(take_header(self._text.buffer, self._text.answer))
        (message,) = self._messages((bubble,), reply_to)
        return message

    async def close(self, ending: Ending) -> Closing:
        self._note_capped()
        if not self.bubbles:
            return await self._close_with_text((), ending, is_fall_through=True)
        chars = len(self._header().buffer.strip())
        if chars:
            log.info("text.dropped", chars=chars, outside_prose=False, reason="bubbles")
        return Closing()


def log_plan(plan: BubblePlan, chars: int, policy: str) -> None:
    """Tell the operator what became of the text, in kinds, indexes, counts and lengths alone (delivery.md 11)."""
    if plan.is_silent:
        if plan.silenced_bubbles:
            log.warning("turn.silent", bubbles=plan.silenced_bubbles)
        else:
            log.info("turn.silent", bubbles=0)
        return
    for rejection in plan.rejections:
        log.warning("envelope.rejected", kind=rejection.kind, index=rejection.index, policy=policy, chars=chars)
    if plan.is_unstructured:
        log.warning("envelope.rejected", kind="not_structured", index=None, policy=policy, chars=chars)
    if plan.fixes:
        log.info("envelope.repaired", fixes=list(plan.fixes))
    if plan.joined > 1:
        log.info("envelope.joined", envelopes=plan.joined, bubbles=len(plan.bubbles))
    for step in plan.steps:
        if step.type == "tool":
            log.info("tool.proposed", name_chars=len(step.name or ""))
    if plan.is_guarded:
        log.error("delivery.guarded", leak_guard=True, chars=plan.dropped_chars)
    elif plan.dropped_chars:
        outside_prose = plan.dropped_reason == "bubbles" and plan.joined > 0
        log.info("text.dropped", chars=plan.dropped_chars, outside_prose=outside_prose, reason=plan.dropped_reason)
