"""How a channel makes platform calls. One adapter call is one platform call (outbound.md 1, 4, 13.3)."""

from __future__ import annotations

from typing import Protocol

from openab_kernel.facts.outbound import ChannelCapabilities, Destination, Receipt, TextSend


class MessageAdapter(Protocol):
    """Sends, edits, deletes, reacts. The kernel keeps order, retries and books; an adapter never retries by itself.

    Every method but `wait_until_ready` raises a `SendError`:
    `SendThrottled` wait and send again; `SendRejected` refused for good; `PlatformMessageNotDispatchedError` proven
    not sent; `SendUnknown` and anything else: it may have arrived.
    """

    def capabilities(self, destination: Destination) -> ChannelCapabilities:
        """What can be done there now. Plain and cheap: asked for every turn."""
        ...

    @property
    def is_ready(self) -> bool:
        """Can a call be made now? Plain and cheap: asked for every send."""
        ...

    async def wait_until_ready(self) -> None:
        """Return when a call can be made. Waiting here is not a failed attempt."""
        ...

    async def send_text(self, send: TextSend) -> Receipt:
        """Make one message visible."""
        ...

    async def edit_text(self, destination: Destination, message_id: str, text: str) -> None:
        """Replace the text of one of our messages."""
        ...

    async def delete(self, destination: Destination, message_id: str) -> None:
        """Remove one of our messages."""
        ...

    async def add_reaction(self, destination: Destination, message_id: str, emoji: str) -> None:
        """Put our mark on a message."""
        ...

    async def remove_reaction(self, destination: Destination, message_id: str, emoji: str) -> None:
        """Take our mark off again."""
        ...

    async def typing(self, destination: Destination) -> None:
        """Show that something is coming; the platform forgets it after some seconds."""
        ...
