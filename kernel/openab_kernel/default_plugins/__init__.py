"""What the kernel brings along, through the same hooks as everybody's."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def builtin_plugins() -> list[tuple[str, ModuleType]]:
    """Name and module of each, in load order."""
    return [(name, import_module(f"{__name__}.{name}")) for name in ("stores", "acp_agent", "turn_log")]
