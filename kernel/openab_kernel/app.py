"""The composition root: builds every object, opens them in order, closes them in reverse."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import structlog
from anyio.abc import TaskStatus

from openab_kernel import __version__
from openab_kernel.agent.settings import AgentSettings, PoolSettings, resolve_working_dir
from openab_kernel.clock import Clock, SystemClock
from openab_kernel.config import Config, Document, Notice, load_document
from openab_kernel.control import Control
from openab_kernel.default_plugins import builtin_plugins
from openab_kernel.delivery.pairing import mispairing
from openab_kernel.delivery.settings import DeliverySettings, MarkdownSettings
from openab_kernel.errors import ConfigError, ConfigProblem, PluginError
from openab_kernel.interfaces.agent import Agent
from openab_kernel.interfaces.channel import Channel
from openab_kernel.interfaces.observer import Observer
from openab_kernel.interfaces.store import Store
from openab_kernel.observability.blame import LagWatchdog
from openab_kernel.observability.observers import Observers
from openab_kernel.outbound.channels import Channels
from openab_kernel.outbound.live import Live
from openab_kernel.outbound.outbox import Outbox
from openab_kernel.outbound.settings import OutboundSettings, ReactionsSettings
from openab_kernel.pipeline import Pipeline
from openab_kernel.plugin_host.hookspecs import Services, StoreFactory
from openab_kernel.plugin_host.loader import LoadedPlugins, load_plugins
from openab_kernel.policies.channel_section import admits_nobody
from openab_kernel.redact import Redactor
from openab_kernel.restart import take_up
from openab_kernel.runtime import OpenChannel, TurnRuntime
from openab_kernel.stages.notices import HeldNotices
from openab_kernel.stages.parts import Parts
from openab_kernel.storage.settings import StoreSettings

log = structlog.get_logger("openab_kernel.app")

LAST_MARKS_SECONDS = 3.0
PERSONA_BYTES = 1024 * 1024
Run = Callable[..., Coroutine[Any, Any, None]]
Part = TypeVar("Part")


@dataclass
class Kernel:
    """Everything that was built for one service, before it runs. Tests put their own parts in its place.

    `interactive`: it serves one person in a terminal.
    """

    parts: Parts
    pool: PoolSettings
    interactive: bool = False

    def __post_init__(self) -> None:
        parts = self.parts
        self.pipeline = Pipeline(parts, Control(parts.agents, parts.notices, parts.outbox))
        self.turn = TurnRuntime(self.pipeline, parts.channels)
        self.open_channels = [OpenChannel(channel, self.pipeline, self.turn) for channel in parts.channels]
        self.stopping = anyio.Event()
        self._serving = len(self.open_channels)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stopping` is set or a one-person channel ends; then drain and close in reverse order."""
        parts = self.parts
        async with AsyncExitStack() as opened:
            for run in self._services():
                await opened.enter_async_context(running(run))
            await parts.notices.load()
            await take_up(parts.store, parts.outbox, self.pipeline.lanes)
            channels = await opened.enter_async_context(anyio.create_task_group())
            for channel, runtime in zip(parts.channels, self.open_channels, strict=True):
                channels.start_soon(self._run_channel, channel, runtime)
            warn_of_closed_doors(parts.channels)
            log.info("kernel.ready", channels=[channel.name for channel in parts.channels])
            task_status.started()
            await self.stopping.wait()
            await self._drain()
            channels.cancel_scope.cancel()
        log.info("kernel.stopped")

    def _services(self) -> list[Run]:
        """What runs below the channels, lowest first."""
        parts = self.parts
        agents = [agent.run for agent in parts.agents.values()]
        return [
            parts.store.run, LagWatchdog().run, parts.observers.run, *agents, parts.outbox.run, parts.live.run,
            self.pipeline.run,
        ]  # fmt: skip

    async def _run_channel(self, channel: Channel, runtime: OpenChannel) -> None:
        """One broken channel stops no other; when the last one has ended there is nothing left to serve.

        Raises:
            Exception: the person's own channel is broken: there is nobody to drain for.
        """
        try:
            await channel.run(runtime)
        except Exception as error:
            if self.interactive:
                raise
            log.error("channel.failed", channel=channel.name, exc_info=error)
        runtime.set_health("down", "ended")
        self._serving -= 1
        if not self._serving:
            self.stopping.set()

    async def _drain(self) -> None:
        """Take nothing on; let running turns end and what is owed go out, within the grace time."""
        parts = self.parts
        self.pipeline.is_draining = True
        self.pipeline.lanes.close()
        log.info("kernel.draining", turns=self.pipeline.lanes.active, sends=parts.outbox.open_intents)
        with parts.clock.move_on_after(self.pool.shutdown_grace_secs) as grace:
            await self.pipeline.lanes.wait_idle()
            await parts.outbox.wait_idle()
            with parts.clock.move_on_after(LAST_MARKS_SECONDS):
                await parts.live.wait_idle()
        if grace.cancelled_caught:
            log.warning("kernel.cut", turns=self.pipeline.lanes.active, sends=parts.outbox.open_intents)


@asynccontextmanager
async def running(run: Run) -> AsyncIterator[None]:
    """Run a service beside the block, from the moment it is ready until the block ends."""
    async with anyio.create_task_group() as group:
        await group.start(run)
        yield
        group.cancel_scope.cancel()


@dataclass(frozen=True)
class Setup:
    """Configuration and plugins, read and checked; nothing is opened yet."""

    config: Config
    plugins: LoadedPlugins
    redact: Redactor
    environ: Mapping[str, str]


def find_plugins(document: Document, environ: Mapping[str, str]) -> LoadedPlugins:
    """Load the built-in and the installed plugins, as far as `[plugins]` of this file wants them.

    A file that says nothing names no secrets either: then only the class of a plugin's error is told.

    Raises:
        PluginError: `[plugins] strict = true` and one cannot be loaded.
    """
    wanted = document.plugins()
    redact = Redactor(document.secrets(environ)) if document.values else None
    return load_plugins(builtin_plugins(), disabled=wanted.disabled, strict=wanted.strict, redact=redact)


def set_up(document: Document, environ: Mapping[str, str]) -> Setup:
    """Load the plugins, then the configuration with the sections they declare.

    Raises:
        ConfigError: with every fault of the file.
        PluginError: plugins contradict each other, or one fails and `[plugins] strict = true`.
    """
    plugins = find_plugins(document, environ)
    sections = plugins.settings()
    config = load_document(document, environ, sections, has_failed_plugins=bool(plugins.failed))
    unknown = [Notice("plugin.unknown", {"plugin": name, "setting": "[plugins] disabled"}) for name in plugins.unknown]
    config = replace(config, warnings=(*config.warnings, *unknown))
    plugins.redact = Redactor(config.secrets() | document.secrets(environ))
    return Setup(config, plugins, Redactor(config.secrets()), environ)


def build(setup: Setup, *, interactive: bool = False, clock: Clock | None = None) -> Kernel:
    """Build the kernel that this configuration describes. Opens nothing.

    Raises:
        ConfigError: nothing is left to listen to, no store or no agent.
        PluginError: what plugins handed over does not fit together.
    """
    clock = clock or SystemClock()
    config, plugins = setup.config, setup.plugins
    services, store, agents, channels = make(setup, clock, interactive=interactive)
    observers: list[tuple[str, Observer]] = plugins.call("register_turn_observers", settings=config, services=services)
    outbound, reactions = config.of(OutboundSettings), config.of(ReactionsSettings)
    parts = Parts(
        agents=agents,
        channels=channels,
        store=store,
        outbox=Outbox(channels, clock, max_retries=outbound.max_retries),
        observers=Observers(observers, clock, timeout_seconds=outbound.hook_timeout_seconds),
        live=Live(channels, clock, reactions),
        notices=HeldNotices(store),
        clock=clock,
        delivery=config.of(DeliverySettings),
        reactions=reactions,
        markdown=config.of(MarkdownSettings),
    )
    return Kernel(parts, config.of(PoolSettings), interactive=interactive)


class Made(NamedTuple):
    """What plugins made for a kernel, and what they were offered for it."""

    services: Services
    store: Store
    agents: dict[str, Agent]
    channels: Channels


def make(setup: Setup, clock: Clock, *, interactive: bool = False) -> Made:
    """Have the store, the agents and the channels made. Opens nothing.

    Raises:
        ConfigError: with all that is missing of the three.
        PluginError: what plugins handed over does not fit together.
    """
    config, plugins = setup.config, setup.plugins
    services = Services(
        clock=clock,
        version=__version__,
        mode=config.of(DeliverySettings).mode,
        interactive=interactive,
        environ=setup.environ,
        redact=setup.redact,
    )
    faults: list[ConfigProblem] = []
    store = _try(lambda: _store(plugins, config, services), faults)
    services = replace(services, stores=() if store is None else (store,))
    agents = _try(lambda: _agents(plugins, config, services), faults)
    channels = _try(lambda: _channels(plugins, config, services), faults)
    if store is None or agents is None or channels is None:
        raise ConfigError(faults)
    return Made(services, store, agents, channels)


def _try(make: Callable[[], Part], faults: list[ConfigProblem]) -> Part | None:
    try:
        return make()
    except ConfigError as error:
        faults += error.problems
        return None


def _store(plugins: LoadedPlugins, config: Config, services: Services) -> Store:
    """The store of `[store] url`, made by the plugin that serves its scheme."""
    url = config.of(StoreSettings).url
    scheme = url.partition(":")[0]
    factories: dict[str, StoreFactory] = {}
    for plugin, (name, factory) in plugins.call("register_stores", settings=config, services=services):
        if name in factories:
            raise PluginError(plugin, f"a store for {name}: is registered already", hook="register_stores")
        factories[name] = factory
    if scheme not in factories:
        known = ", ".join(sorted(factories)) or "none"
        raise ConfigError([ConfigProblem("store.url", f"no store for {scheme}:", f"known schemes: {known}")])
    store: Store = factories[scheme](url, config.directory, services.clock)
    return store


def _agents(plugins: LoadedPlugins, config: Config, services: Services) -> dict[str, Agent]:
    agents: dict[str, Agent] = {}
    for plugin, agent in plugins.call("register_agents", settings=config, services=services):
        if agent.name in agents:
            raise PluginError(plugin, f"agent {agent.name} is registered already", hook="register_agents")
        agents[agent.name] = agent
    if not agents:
        raise ConfigError(
            [ConfigProblem("agent", "no plugin provides an agent", "look at `openab-kernel plugins list`")]
        )
    return agents


def _channels(plugins: LoadedPlugins, config: Config, services: Services) -> Channels:
    owners: dict[tuple[str, str | None], str] = {}
    channels: list[Channel] = []
    for plugin, channel in plugins.call("register_channels", settings=config, services=services):
        key = (channel.name, channel.account_id)
        if key in owners:
            raise PluginError(plugin, f"channel {key} is registered by {owners[key]} already", hook="register_channels")
        owners[key] = plugin
        if not services.interactive or channel.name == "terminal":
            channels.append(channel)
    if not channels:
        ignored = ", ".join(f"[{name}]" for name in config.ignored_channels)
        cause = f"; no plugin serves {ignored}" if ignored else ""
        expected = "write a section such as [gateway], or look at `openab-kernel plugins list`"
        raise ConfigError([ConfigProblem("channels", f"nothing to listen to{cause}", expected)])
    return Channels(channels)


def warn_of_closed_doors(channels: Channels) -> None:
    """Say in words where nobody is admitted; that is the default, and seldom what was meant."""
    for channel in channels:
        if admits_nobody(channel.policy.access):
            log.warning(
                "access.nobody_admitted",
                channel=channel.name,
                account_id=channel.account_id,
                fix="name people in allowed_users, or write allow_all_users = true",
            )


def tell_at_start(config: Config, environ: Mapping[str, str]) -> None:
    """Log what the configuration said that will not happen, and what does not fit together."""
    for notice in config.warnings:
        log.warning(notice.event, **notice.fields)
    fix = find_mispairing(config, environ)
    if fix is not None:
        log.warning("pairing.mismatch", fix=fix)


def find_mispairing(config: Config, environ: Mapping[str, str]) -> str | None:
    """The setting to change if the agent's `AGENTS.md` asks for envelopes that nobody reads; None: there is none."""
    persona = Path(resolve_working_dir(config.of(AgentSettings), environ), "AGENTS.md")
    try:
        text = persona.read_bytes()[:PERSONA_BYTES].decode("utf-8", "replace") if persona.is_file() else ""
    except OSError:
        return None
    return mispairing(config.of(DeliverySettings), text)


async def serve(kernel: Kernel, on_stop: Callable[[], object] = lambda: None) -> bool:
    """Run until SIGTERM, SIGINT or SIGHUP, then drain. False: a second signal cut that off.

    `on_stop` is called at the first signal if there is something to wait for.
    """
    async with anyio.create_task_group() as group:
        await group.start(_stop_on_signal, kernel, group.cancel_scope, on_stop)
        await kernel.run()
        group.cancel_scope.cancel()
        return True
    return False


async def _stop_on_signal(
    kernel: Kernel, everything: anyio.CancelScope, on_stop: Callable[[], object], *, task_status: TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(*_stop_signals()) as signals:
        task_status.started()
        async for number in signals:
            log.info("kernel.signalled", signal=signal.Signals(number).name)
            if kernel.stopping.is_set():
                everything.cancel()
            elif kernel.pipeline.lanes.active or kernel.parts.outbox.open_intents:
                on_stop()
            kernel.stopping.set()


def _stop_signals() -> list[signal.Signals]:
    """SIGHUP is a terminal that was closed; `nohup` has it ignored, and Windows has none."""
    has_hangup = hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if has_hangup else [])]
