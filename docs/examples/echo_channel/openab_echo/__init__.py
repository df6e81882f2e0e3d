"""Echo: a platform of two folders. A file in `in/` is a message, a file in `out/` is an answer."""

from __future__ import annotations

from openab_echo.settings import EchoSettings
from openab_kernel import Services, Settings, hookimpl
from openab_kernel.interfaces.channel import Channel


@hookimpl
def plugin_settings() -> list[tuple[str, type[EchoSettings]]]:
    return [("echo", EchoSettings)]


@hookimpl
def register_channels(settings: Settings, services: Services) -> list[Channel]:
    section = settings.get(EchoSettings)
    if section is None:  # the file has no [echo]
        return []
    from openab_echo.channel import EchoChannel  # only now: a plugin that is not used should cost nothing

    return [EchoChannel(section, services.clock)]
