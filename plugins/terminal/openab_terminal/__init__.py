"""The terminal as a channel, for `openab-kernel chat`: reads a keyboard or a pipe, admits the local user only."""

from __future__ import annotations

from openab_kernel import Services, Settings, hookimpl
from openab_kernel.interfaces.channel import Channel


@hookimpl
def register_channels(settings: Settings, services: Services) -> list[Channel]:
    if not services.interactive:
        return []
    from openab_terminal.channel import TerminalChannel

    return [TerminalChannel(services.clock)]
