"""Which message adapter serves a destination."""

from __future__ import annotations

from collections.abc import Iterator

from openab_kernel.interfaces.channel import Channel


class Channels:
    """The open channels, by name and account. Filled once at start."""

    def __init__(self, channels: list[Channel]) -> None:
        self._by_key = {(channel.name, channel.account_id): channel for channel in channels}

    def get(self, name: str, account_id: str | None) -> Channel | None:
        """None: a stored message or send belongs to a channel that is no longer configured."""
        return self._by_key.get((name, account_id))

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._by_key.values())
