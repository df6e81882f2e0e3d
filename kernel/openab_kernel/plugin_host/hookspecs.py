"""The hooks. All are synchronous, called once at start, and hand over objects; the objects do the work.

None is `firstresult`: the answers of all plugins are joined in the order of loading. A plugin that raises in a hook is
named and left out; the others start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import pluggy
from pydantic import BaseModel

from openab_kernel.clock import Clock
from openab_kernel.errors import ConfigError
from openab_kernel.interfaces.agent import Agent
from openab_kernel.interfaces.channel import Channel
from openab_kernel.interfaces.observer import Observer
from openab_kernel.interfaces.store import Store

PROJECT = "openab_kernel"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

S = TypeVar("S", bound=BaseModel)
StoreFactory = Callable[[str, Path, Clock], Store]
"""Makes a store of its URL, the folder that relative paths are relative to, and the clock. Opens nothing."""


class Settings(Protocol):
    """Everybody's checked settings; take yours by its class."""

    def get(self, kind: type[S]) -> S | None:
        """The section of this class, or None if the file has none."""
        ...

    def of(self, kind: type[S]) -> S:
        """The section of this class; its defaults if the file has none."""
        ...


@dataclass(frozen=True)
class Services:
    """What the kernel offers to plugins at start. `store` is there when agents and channels are asked for.

    `interactive`: the service runs in a terminal, for one person (`openab-kernel chat`). `environ` is the service's
    own environment: never hand it on to a process. `redact` masks every configured secret in a text.
    """

    clock: Clock
    version: str
    mode: str = "text"
    interactive: bool = False
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    redact: Callable[[str], str] = field(default=str, repr=False)
    stores: tuple[Store, ...] = ()

    @property
    def store(self) -> Store:
        if not self.stores:
            raise ConfigError([])  # why there is none has been told
        return self.stores[0]


@hookspec
def plugin_settings() -> list[tuple[str, type[BaseModel]]]:  # type: ignore[empty-body]  # a specification has no body
    """Name the configuration sections this plugin reads, each with its pydantic model.

    Called before the configuration is read. Two plugins that name one section are a `PluginError`.
    """


@hookspec
def register_stores(settings: Settings, services: Services) -> list[tuple[str, StoreFactory]]:  # type: ignore[empty-body]  # a specification has no body
    """Hand over store factories, each with the URL scheme it serves (`sqlite`)."""


@hookspec
def register_agents(settings: Settings, services: Services) -> list[Agent]:  # type: ignore[empty-body]  # a specification has no body
    """Hand over agents. `Agent.name` is what a route's `agent_id` names; the usual one is `main`."""


@hookspec
def register_channels(settings: Settings, services: Services) -> list[Channel]:  # type: ignore[empty-body]  # a specification has no body
    """Hand over the channels this plugin provides; none if its section is not in the file.

    Two channels of one name and account are a `PluginError` naming both plugins.
    """


@hookspec
def register_turn_observers(settings: Settings, services: Services) -> list[Observer]:  # type: ignore[empty-body]  # a specification has no body
    """Hand over observers: objects with `stage_event`, `message_ended` or `turn_finished`."""
