"""What the gateway at the other end can do, and what may be expected of it. Pure.

A hello of the peer is authoritative: a platform that it leaves out can do nothing beyond plain sends. Without one the
peer is taken for a gateway that knows nothing of hellos, and its habits are learnt from whether it answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from openab_gateway_ws.protocol import DEFAULT_LIMIT, HelloFrame, PlatformAbilities
from openab_kernel.facts.outbound import ChannelCapabilities, TextLimit

LEGACY_ACK_SECONDS = 5.0
EDIT_ACK_SECONDS = 0.8

LEGACY_LIMITS = {
    "discord": TextLimit(size=2000),
    "feishu": TextLimit(size=4000),
    "line": TextLimit(size=4096, unit="utf16"),
    "lineworks": TextLimit(size=10_000),
    "slack": TextLimit(size=4000),
}
LEGACY_WITHOUT_EDITS = frozenset({"line", "lineworks"})


@dataclass(frozen=True, slots=True)
class AckRule:
    """Does a frame ask for an answer, how long is one waited for, and what does silence mean?

    `wait_seconds` 0: nobody waits, and a frame that an open socket took is delivered. `repeats`: the peer answers a
    repeated request from its record and sends nothing twice, so that it can be asked once more.
    """

    asks: bool = False
    wait_seconds: float = 0.0
    silence: Literal["unknown", "delivered"] = "unknown"
    repeats: bool = False


NO_ACK = AckRule()


class Peer:
    """One connection's other end. A new connection has a new one."""

    def __init__(self, *, mode: str, streaming: bool, ack_seconds: float) -> None:
        self._mode = mode
        self._streaming = streaming
        self._ack_seconds = ack_seconds
        self._hello: HelloFrame | None = None
        self._has_answered = False
        self._never_answers = False

    def greet(self, hello: HelloFrame) -> None:
        """The peer has said what it can do; the last hello holds."""
        self._hello = hello

    def note_answer(self) -> None:
        """An answer came, to whatever question."""
        self._has_answered = True
        self._never_answers = False

    def note_silence(self) -> None:
        """An answer did not come in time. A peer that never gave one is not waited for again."""
        self._never_answers = not self._has_answered

    def send_rule(self, platform: str) -> AckRule:
        if self._hello is not None:
            can = self._abilities(platform)
            rule = AckRule(asks=True, wait_seconds=self._ack_seconds, repeats=can.drops_repeats)
            return rule if can.send_ack else NO_ACK
        if self._mode != "text":
            return AckRule(asks=True, wait_seconds=0.0 if self._never_answers else LEGACY_ACK_SECONDS)
        if self._streaming:
            return AckRule(asks=True, wait_seconds=LEGACY_ACK_SECONDS, silence="delivered")
        return NO_ACK

    def edit_rule(self, platform: str) -> AckRule:
        """An edit that is not answered is taken as done."""
        can_ack = self._hello is None or self._abilities(platform).edit_ack
        return AckRule(asks=True, wait_seconds=EDIT_ACK_SECONDS, silence="delivered") if can_ack else NO_ACK

    def has_targets(self, platform: str) -> bool:
        """Is there a field of its own for the message that a command is about?"""
        return self._hello is not None and self._abilities(platform).supports_target_message_id

    def capabilities(self, platform: str) -> ChannelCapabilities:
        if self._hello is None:
            can_edit = platform not in LEGACY_WITHOUT_EDITS
            return ChannelCapabilities(
                text_limit=LEGACY_LIMITS.get(platform, DEFAULT_LIMIT),
                edit=self._streaming and can_edit,
                delete=can_edit,
                reactions=True,
                quote=True,
            )
        can = self._abilities(platform)
        return ChannelCapabilities(
            text_limit=can.message_limit.text_limit() if can.message_limit else DEFAULT_LIMIT,
            edit=self._streaming and can.can_edit and can.streaming_mode != "disabled",
            delete=can.can_delete,
            reactions=can.supports_reactions or can.status_backend == "reactions",
            quote=True,
        )

    def _abilities(self, platform: str) -> PlatformAbilities:
        found = self._hello.capabilities.get(platform) if self._hello else None
        return found or NOTHING


NOTHING = PlatformAbilities()
