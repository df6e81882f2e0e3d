"""Loading plugins by entry point. One that cannot be loaded is named, with its package and cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import pluggy
import structlog
from pydantic import BaseModel

from openab_kernel.errors import ConfigError, PluginError
from openab_kernel.plugin_host import hookspecs

log = structlog.get_logger("openab_kernel.plugins")

GROUP = "openab_kernel.plugins"


@dataclass(frozen=True)
class PluginInfo:
    """One plugin. `cause` says why it does not work; None: it does."""

    name: str
    distribution: str
    version: str
    cause: str | None = None


@dataclass
class LoadedPlugins:
    """The plugins that work, and those that do not. Hooks are called plugin by plugin: none can stop another.

    `redact` masks secrets in what a plugin says of its failure; without it only the error's class is told. `unknown`
    was to be left out, and is not there.
    """

    manager: pluggy.PluginManager
    strict: bool = False
    redact: Callable[[str], str] | None = None
    infos: dict[str, PluginInfo] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    @property
    def loaded(self) -> list[PluginInfo]:
        return [info for info in self.infos.values() if info.cause is None]

    @property
    def failed(self) -> list[PluginInfo]:
        return [info for info in self.infos.values() if info.cause is not None]

    def call(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Call a hook of every working plugin. Gives (plugin, each thing it handed over), in load order.

        Raises:
            ConfigError: what a plugin needs is missing in the configuration.
            PluginError: a plugin raised, and `strict` is set.
        """
        answers: list[tuple[str, Any]] = []
        for info in self.loaded:
            plugin = self.manager.get_plugin(info.name)
            others = [other for other in self.manager.get_plugins() if other is not plugin]
            try:
                for given in self.manager.subset_hook_caller(hook, others)(**arguments):
                    answers += [(info.name, thing) for thing in given]
            except ConfigError:
                raise
            except Exception as error:
                self.fail(info, f"{hook}: {self.describe(error)}", error, hook)
        return answers

    def fail(self, info: PluginInfo, cause: str, error: Exception | None = None, hook: str | None = None) -> None:
        """Take a plugin out of service.

        Raises:
            PluginError: `strict` is set.
        """
        self.infos[info.name] = PluginInfo(info.name, info.distribution, info.version, cause)
        shown = None if self.redact is None else error
        log.error("plugin.failed", plugin=info.name, distribution=info.distribution, cause=cause, exc_info=shown)
        if self.strict:
            raise PluginError(info.name, cause, hook=hook) from error

    def describe(self, error: BaseException) -> str:
        """An error of a plugin, as it may be shown."""
        name = type(error).__name__
        return name if self.redact is None else self.redact(f"{name}: {error}")

    def settings(self) -> dict[str, type[BaseModel]]:
        """The sections that plugins declare.

        Raises:
            PluginError: two plugins declare the same one.
        """
        sections: dict[str, type[BaseModel]] = {}
        owners: dict[str, str] = {}
        for plugin, declared in self.call("plugin_settings"):
            section, model = _section(plugin, declared)
            if section in sections:
                raise PluginError(plugin, f"section [{section}] belongs to plugin {owners[section]} already")
            sections[section], owners[section] = model, plugin
        return sections


def _section(plugin: str, declared: Any) -> tuple[str, type[BaseModel]]:
    match declared:
        case (str(section), type() as model) if issubclass(model, BaseModel):
            return section, model
    raise PluginError(plugin, "gave no pair of a section's name and its model", hook="plugin_settings")


def load_plugins(
    builtin: Iterable[tuple[str, ModuleType]],
    *,
    disabled: Iterable[str] = (),
    strict: bool = False,
    redact: Callable[[str], str] | None = None,
) -> LoadedPlugins:
    """Load the built-in plugins, then those installed under the entry point group, by name.

    `redact`: see `LoadedPlugins`.

    Raises:
        PluginError: `strict` is set and one of them cannot be loaded.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    plugins = LoadedPlugins(manager, strict, redact)
    off = dict.fromkeys(disabled)
    builtin, points = list(builtin), entry_points(group=GROUP)
    plugins.unknown += [name for name in off if name not in {*dict(builtin), *points.names}]
    for name, module in builtin:
        if name not in off:
            manager.register(module, name)
            plugins.infos[name] = PluginInfo(name, "openab-kernel", "built in")
    for point in sorted(points, key=lambda point: point.name):
        if point.name not in off:
            _load(plugins, point)
    return plugins


def _load(plugins: LoadedPlugins, point: EntryPoint) -> None:
    distribution = point.dist.name if point.dist else "unknown"
    info = PluginInfo(point.name, distribution, point.dist.version if point.dist else "unknown")
    if point.name in plugins.infos:
        other = plugins.infos[point.name].distribution
        plugins.fail(PluginInfo(f"{point.name} ({distribution})", distribution, info.version), f"name taken by {other}")
        return
    try:
        plugins.manager.register(point.load(), point.name)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        cause = f"{point.value}: {plugins.describe(error)}"
        plugins.fail(info, cause, error if isinstance(error, Exception) else None)
        return
    plugins.infos[point.name] = info
    log.debug("plugin.loaded", plugin=point.name, distribution=distribution, version=info.version)
