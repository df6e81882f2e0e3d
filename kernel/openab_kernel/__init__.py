"""openab-kernel: a plugin-based channel-turn kernel between chat platforms and AI agents.

What this package exports is the promise to plugin authors. Names are loaded when they are first used, so that
importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openab_kernel.clock import Clock, SystemClock, epoch_ms
    from openab_kernel.errors import (
        ConfigError,
        KernelError,
        PartialDeliveryError,
        PlatformMessageNotDispatchedError,
        PluginError,
        SendError,
        SendRejected,
        SendThrottled,
        SendUnknown,
        ShuttingDownError,
        StoreError,
    )
    from openab_kernel.plugin_host.hookspecs import Services, Settings, hookimpl
    from openab_kernel.policies.channel_section import ChannelSection
    from openab_kernel.serial import SerialWorkers
    from openab_kernel.stages.assemble import ContextFacts, build_context
    from openab_kernel.stages.receive_context import MessageReceiveContext, create_message_receive_context

__version__ = "0.1.0"

_HOMES = {
    "clock": ("Clock", "SystemClock", "epoch_ms"),
    "errors": (
        "ConfigError",
        "KernelError",
        "PartialDeliveryError",
        "PlatformMessageNotDispatchedError",
        "PluginError",
        "SendError",
        "SendRejected",
        "SendThrottled",
        "SendUnknown",
        "ShuttingDownError",
        "StoreError",
    ),
    "plugin_host.hookspecs": ("Services", "Settings", "hookimpl"),
    "policies.channel_section": ("ChannelSection",),
    "serial": ("SerialWorkers",),
    "stages.assemble": ("ContextFacts", "build_context"),
    "stages.receive_context": ("MessageReceiveContext", "create_message_receive_context"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ChannelSection",
    "Clock",
    "ConfigError",
    "ContextFacts",
    "KernelError",
    "MessageReceiveContext",
    "PartialDeliveryError",
    "PlatformMessageNotDispatchedError",
    "PluginError",
    "SendError",
    "SendRejected",
    "SendThrottled",
    "SendUnknown",
    "SerialWorkers",
    "Services",
    "Settings",
    "ShuttingDownError",
    "StoreError",
    "SystemClock",
    "__version__",
    "build_context",
    "create_message_receive_context",
    "epoch_ms",
    "hookimpl",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
