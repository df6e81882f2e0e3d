"""A channel whose platform is the test itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from openab_kernel.facts.conversation import ChatKind, ConversationFacts, ReplyPlanFacts, RouteFacts
from openab_kernel.facts.event import ChannelEventClass, NormalizedTurnInput, PreflightFacts, SenderFacts
from openab_kernel.facts.message import MessageFacts
from openab_kernel.facts.policy import AccessPolicy, ChannelPolicy
from openab_kernel.facts.turn import ChannelTurnResult
from openab_kernel.interfaces.channel import ChannelRuntime, RoutedPlan
from openab_kernel.testing.outbound import RecordingOutbound

EVERYONE = AccessPolicy(dm_policy="open", allow_from=frozenset({"*"}), group_policy="open")


def event(
    text: str = "hello",
    *,
    id: str = "e1",
    sender: str | None = "u1",
    conversation: str = "c1",
    kind: ChatKind = "direct",
    thread: str | None = None,
    is_bot: bool = False,
    proactive: bool = False,
    name: str | None = None,
) -> dict[str, Any]:
    """A raw event as `FakeChannel` reads it."""
    return {
        "text": text,
        "id": id,
        "sender": sender,
        "conversation": conversation,
        "kind": kind,
        "thread": thread,
        "is_bot": is_bot,
        "proactive": proactive,
        "name": name,
    }


class FakeTurnAdapter:
    """Reads raw events made by `event()`; keeps the results it is told of."""

    def __init__(self) -> None:
        self.results: list[ChannelTurnResult] = []
        self._changed = anyio.Event()

    def ingest(self, raw: Mapping[str, Any]) -> NormalizedTurnInput | None:
        if not raw:
            return None
        return NormalizedTurnInput(
            id=raw["id"], event_id=raw["id"], raw_text=raw["text"], proactive=raw["proactive"], raw=raw
        )

    def resolve_turn(
        self, input: NormalizedTurnInput, event_class: ChannelEventClass, preflight: PreflightFacts
    ) -> Any:
        raw = input.raw
        return RoutedPlan(
            conversation=ConversationFacts(kind=raw["kind"], id=raw["conversation"], thread_id=raw["thread"]),
            sender=SenderFacts(id=raw["sender"], name=raw["name"], is_bot=raw["is_bot"]),
            reply=ReplyPlanFacts(to=raw["conversation"]),
            message=MessageFacts(raw_body=input.raw_text),
            route=RouteFacts(),
            platform_message_id=raw["id"],
        )

    def on_finalize(self, result: ChannelTurnResult) -> None:
        self.results.append(result)
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for_results(self, count: int) -> list[ChannelTurnResult]:
        """The results, once so many messages have ended."""
        while len(self.results) < count:
            await self._changed.wait()
        return self.results


class FakeChannel:
    """One account of a platform without a network. Open to everyone unless a policy is given."""

    def __init__(
        self,
        name: str = "fake",
        account_id: str | None = "a1",
        *,
        policy: ChannelPolicy | None = None,
        turn_adapter: Any = None,
        message_adapter: Any = None,
    ) -> None:
        self.name = name
        self.account_id = account_id
        self.policy = policy or ChannelPolicy(access=EVERYONE)
        self.turn_adapter = turn_adapter or FakeTurnAdapter()
        self.message_adapter = message_adapter or RecordingOutbound()
        self.runtime: ChannelRuntime | None = None
        self.opened = anyio.Event()

    async def run(self, runtime: ChannelRuntime) -> None:
        self.runtime = runtime
        runtime.set_health("ready")
        self.opened.set()
        await anyio.sleep_forever()
