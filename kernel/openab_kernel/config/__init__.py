"""The configuration: a TOML file and the environment, read into the settings that stand beside their code."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openab_kernel.agent.environment import ToldMode, environment_problems
from openab_kernel.agent.settings import AgentSettings, PoolSettings
from openab_kernel.config.faults import Fault, looks_secret
from openab_kernel.config.openab import CHANNELS
from openab_kernel.config.reader import Notice, Reader, secrets_in
from openab_kernel.config.variables import Expander
from openab_kernel.delivery.settings import DeliverySettings, MarkdownSettings
from openab_kernel.errors import ConfigError, ConfigProblem
from openab_kernel.observability.settings import HttpSettings, LogSettings, MetricsSettings
from openab_kernel.outbound.settings import OutboundSettings, ReactionsSettings
from openab_kernel.policies.channel_section import ChannelSection
from openab_kernel.policies.triage_settings import TriageSettings
from openab_kernel.storage.settings import StoreSettings

__all__ = [
    "KERNEL_SECTIONS",
    "Config",
    "Document",
    "Notice",
    "PluginsSettings",
    "glance",
    "load",
    "load_document",
    "read_document",
]

Settings = TypeVar("Settings", bound=BaseModel)


class PluginsSettings(BaseModel):
    """Which plugins are loaded, and what becomes of a start when one cannot be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    disabled: tuple[str, ...] = Field(default=(), description="names of plugins that are left out")
    strict: bool = Field(default=False, description="a plugin that cannot be loaded stops the start")


KERNEL_SECTIONS: Mapping[str, type[BaseModel]] = {
    "agent": AgentSettings,
    "pool": PoolSettings,
    "delivery": DeliverySettings,
    "markdown": MarkdownSettings,
    "triage": TriageSettings,
    "reactions": ReactionsSettings,
    "outbound": OutboundSettings,
    "store": StoreSettings,
    "http": HttpSettings,
    "log": LogSettings,
    "metrics": MetricsSettings,
    "plugins": PluginsSettings,
}
"""The sections that are there without any plugin."""


@dataclass(frozen=True)
class Document:
    """A file as it was read, before anybody knows what its sections mean."""

    path: Path | None
    values: Mapping[str, Any] = field(repr=False)

    def plugins(self) -> PluginsSettings:
        """`[plugins]`, needed before a plugin is loaded. What is wrong with it, `load_document` will tell."""
        try:
            return PluginsSettings.model_validate(self.values.get("plugins", {}))
        except ValidationError:
            return PluginsSettings()

    def secrets(self, environ: Mapping[str, str]) -> set[str]:
        """Whatever may be a secret: what nobody must see while plugins are loaded, which hold it perhaps."""
        expander = Expander(environ)
        written = secrets_in(expander.expand(dict(self.values), ()), "")
        return {*written, *expander.values, *(value for name, value in environ.items() if looks_secret(name))}


@dataclass(frozen=True)
class Config:
    """Everybody's checked settings.

    Attributes:
        path: The file; None if there is none.
        channels: The channel sections that are written and that a plugin knows, by name.
        ignored: The sections that were passed over, in the order of the file.
        warnings: What to log at start.
    """

    path: Path | None
    channels: Mapping[str, ChannelSection]
    ignored: tuple[str, ...]
    warnings: tuple[Notice, ...]
    _settings: Mapping[type[BaseModel], BaseModel] = field(repr=False)
    _secrets: frozenset[str] = field(repr=False)

    def of(self, kind: type[Settings]) -> Settings:
        """The section of this class; its defaults if the file has none."""
        return self.get(kind) or kind()

    def get(self, kind: type[Settings]) -> Settings | None:
        """The section of this class; None if it is a channel's and the file has none."""
        found = self._settings.get(kind)
        return found if isinstance(found, kind) else None

    def secrets(self) -> frozenset[str]:
        """Every value that must not be seen: what a `Redactor` is made with."""
        return self._secrets

    @property
    def directory(self) -> Path:
        """Where relative paths of the file begin: its folder, or the one we are in if the file is a pipe."""
        return self.path.parent if self.path and not self.path.is_fifo() else Path()

    @property
    def ignored_channels(self) -> tuple[str, ...]:
        """Platforms that the file speaks of and no plugin serves."""
        return tuple(name for name in self.ignored if name in CHANNELS)


def load(
    path: Path | None,
    environ: Mapping[str, str],
    sections: Mapping[str, type[BaseModel]],
    *,
    demo: bool = False,
    has_failed_plugins: bool = False,
) -> Config:
    """Read a file and check everything at once: `read_document` and `load_document`. `demo`: it may be missing."""
    document = read_document(path, may_be_missing=demo)
    return load_document(document, environ, sections, has_failed_plugins=has_failed_plugins)


def load_document(
    document: Document,
    environ: Mapping[str, str],
    sections: Mapping[str, type[BaseModel]],
    *,
    has_failed_plugins: bool = False,
) -> Config:
    """Check everything at once.

    Args:
        environ: The environment: for `${NAME}`, and for variables that stand in for keys.
        sections: The sections that plugins declared.
        has_failed_plugins: A section that nobody knows may be one of theirs: it is passed over, unless its name is
            near to one that is known.

    Raises:
        ConfigError: it cannot be used. Holds every fault there is, in the order of the file.
    """
    reader = Reader({**sections, **KERNEL_SECTIONS}, environ, spares_unknown_sections=has_failed_plugins)
    reader.read(dict(document.values))
    _check_together(reader, environ)
    problems = reader.problems()
    if problems:
        raise ConfigError(problems)
    return Config(
        path=document.path,
        channels={name: part for name, part in reader.settings.items() if isinstance(part, ChannelSection)},
        ignored=tuple(reader.ignored),
        warnings=tuple(reader.warnings),
        _settings={type(part): part for part in reader.settings.values()},
        _secrets=reader.secrets() | _inherited_secrets(reader, environ),
    )


def glance(path: Path | None) -> Document:
    """What can be read of a file without asking more of it; empty if it is not there or broken."""
    try:
        return read_document(path)
    except ConfigError:
        return Document(path, {})


def read_document(path: Path | None, *, may_be_missing: bool = False) -> Document:
    """Read a file once: it may be a pipe.

    Args:
        path: None: there is none, and everything has its default.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    if path is None or (may_be_missing and not path.exists()):
        return Document(path, {})
    try:
        return Document(path, tomllib.loads(path.read_bytes().decode("utf-8-sig")))
    except OSError as error:
        problem = ConfigProblem(str(path), (error.strerror or "cannot be read").lower(), "name another with -c FILE")
    except UnicodeDecodeError as error:
        problem = ConfigProblem(str(path), f"byte {error.start} is not UTF-8", "save it as UTF-8")
    except tomllib.TOMLDecodeError as error:
        problem = ConfigProblem(str(path), f"no TOML: {error}", "mend it there or just before")
    raise ConfigError([problem])


def _check_together(reader: Reader, environ: Mapping[str, str]) -> None:
    """Check what concerns several sections, and what this version does not have yet.

    A fault elsewhere in a section hides none of these; one in what they depend on does.
    """
    agent, delivery, triage = map(reader.sound.get, ("agent", "delivery", "triage"))
    if isinstance(triage, TriageSettings) and triage.enabled:
        reader.add(Fault(("triage", "enabled"), "true", "not in this version, the next one brings it; write false"))
    if not isinstance(delivery, DeliverySettings) or reader.has_fault("delivery", "mode", "schema", "max_bubbles"):
        return
    if isinstance(agent, AgentSettings):
        for problem in environment_problems(agent, ToldMode.of(delivery), environ):
            reader.add(Fault(tuple(problem.place.split(".")), problem.found, problem.expected))


def _inherited_secrets(reader: Reader, environ: Mapping[str, str]) -> set[str]:
    """What the agent inherits, it may write to stderr."""
    agent = reader.settings.get("agent")
    names = agent.inherit_env if isinstance(agent, AgentSettings) else ()
    return {environ[name] for name in names if looks_secret(name) and name in environ}
