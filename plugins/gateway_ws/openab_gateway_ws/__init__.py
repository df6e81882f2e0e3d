"""The gateway channel: one WebSocket to a gateway, which speaks with the platforms (delivery.md 2.4-2.7)."""

from __future__ import annotations

from openab_gateway_ws.settings import GatewaySettings
from openab_kernel import Services, Settings, hookimpl
from openab_kernel.interfaces.channel import Channel


@hookimpl
def plugin_settings() -> list[tuple[str, type[GatewaySettings]]]:
    return [("gateway", GatewaySettings)]


@hookimpl
def register_channels(settings: Settings, services: Services) -> list[Channel]:
    section = settings.get(GatewaySettings)
    if section is None:
        return []
    # Imported only now: most of the time that this plugin takes at a start goes into the WebSocket library.
    from openab_gateway_ws.channel import GatewayChannel

    return [GatewayChannel(section, clock=services.clock, mode=services.mode, version=services.version)]
