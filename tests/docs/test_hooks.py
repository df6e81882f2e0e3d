"""Each hook does what docs/hooks.md says, shown by the example that stands there."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from openab_kernel import SystemClock, __version__, hookimpl
from openab_kernel.app import Setup, build
from openab_kernel.config import Config
from openab_kernel.config import load as load_config
from openab_kernel.errors import ConfigError
from openab_kernel.facts.conversation import RouteFacts
from openab_kernel.plugin_host import hookspecs
from openab_kernel.plugin_host.hookspecs import Services
from openab_kernel.plugin_host.loader import LoadedPlugins, load_plugins
from openab_kernel.redact import Redactor
from openab_kernel.testing.agent import StubAgent, says
from openab_kernel.testing.channel import FakeChannel, FakeTurnAdapter, event
from openab_kernel.testing.clock import ManualClock, settle
from openab_kernel.testing.harness import running_kernel
from openab_kernel.testing.memory_store import MemoryStore
from tests.docs.pages import DOCS, EXAMPLES, headings, load

HOOKS = [name for name, value in vars(hookspecs).items() if hasattr(value, f"{hookspecs.PROJECT}_spec")]
INSTALLED = ("gateway_ws", "terminal")


def loaded(*plugins: Any) -> LoadedPlugins:
    """These plugins and no other."""
    named: Any = [(f"example{number}", plugin) for number, plugin in enumerate(plugins)]
    return load_plugins(named, disabled=INSTALLED, strict=True)


def configured(folder: Path, plugins: LoadedPlugins, text: str) -> Config:
    path = folder / "config.toml"
    path.write_text(text)
    return load_config(path, {}, plugins.settings())


def call(plugins: LoadedPlugins, hook: str, config: Config) -> list[Any]:
    services = Services(clock=SystemClock(), version=__version__)
    return [thing for _, thing in plugins.call(hook, settings=config, services=services)]


def test_hook_plugin_settings(tmp_path: Path) -> None:
    stopwatch = load(EXAMPLES / "stopwatch.py")
    plugins = loaded(stopwatch)
    assert configured(tmp_path, plugins, "").of(stopwatch.StopwatchSettings).slow_ms == 60_000
    assert configured(tmp_path, plugins, "[stopwatch]\nslow_ms = 5").of(stopwatch.StopwatchSettings).slow_ms == 5
    with pytest.raises(ConfigError, match="did you mean slow_ms"):
        configured(tmp_path, plugins, "[stopwatch]\nslow_m = 5")


class Fakes:
    """A plugin that brings what a kernel cannot do without."""

    def __init__(self) -> None:
        self.agent = StubAgent()
        self.channel = FakeChannel()

    @hookimpl
    def register_agents(self) -> list[StubAgent]:
        return [self.agent]

    @hookimpl
    def register_channels(self) -> list[FakeChannel]:
        return [self.channel]


async def test_hook_register_stores(tmp_path: Path) -> None:
    plugins = loaded(Fakes(), load(EXAMPLES / "forgetful_store.py"))
    config = configured(tmp_path, plugins, '[store]\nurl = "sqlite:///forgotten.db"')
    kernel = build(Setup(config, plugins, Redactor(), {}), clock=ManualClock())
    assert isinstance(kernel.parts.store, MemoryStore)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            await group.start(kernel.run)
            assert (await kernel.turn.run("fake", event("hi"), account_id="a1")).dispatched
            group.cancel_scope.cancel()
    assert os.listdir(tmp_path) == ["config.toml"]


class RoutedToParrot(FakeTurnAdapter):
    def resolve_turn(self, *facts: Any) -> Any:
        return super().resolve_turn(*facts).model_copy(update={"route": RouteFacts(agent_id="parrot")})


async def test_hook_register_agents(tmp_path: Path) -> None:
    plugins = loaded(load(EXAMPLES / "parrot_agent.py"))
    (parrot,) = call(plugins, "register_agents", configured(tmp_path, plugins, ""))
    channel = FakeChannel(turn_adapter=RoutedToParrot())
    with anyio.fail_after(5):
        async with running_kernel(agent=parrot, channel=channel) as kernel:
            await kernel.run(event("Polly"))
            await kernel.run(event("/agents", id="e2"))
            assert await kernel.outbound.wait_for(2) == ["Polly", "parrot 1.0"]


def test_hook_register_channels(tmp_path: Path, echo: ModuleType) -> None:
    plugins = loaded(echo)
    assert call(plugins, "register_channels", configured(tmp_path, plugins, "")) == []
    written = f"[echo]\nfolder = '{tmp_path}'\nallowed_users = [\"alice\"]"
    (channel,) = call(plugins, "register_channels", configured(tmp_path, plugins, written))
    assert (channel.name, channel.account_id) == ("echo", tmp_path.name)
    assert channel.policy.access.allow_from == {"alice"}


async def test_hook_register_turn_observers(tmp_path: Path) -> None:
    plugins = loaded(load(EXAMPLES / "stopwatch.py"))
    (stopwatch,) = call(
        plugins, "register_turn_observers", configured(tmp_path, plugins, "[stopwatch]\nslow_ms = 1000")
    )
    clock = ManualClock()
    agent = StubAgent(says("quick"), [lambda: clock.advance(2), *says("slow")])
    with anyio.fail_after(5), capture_logs() as logs:
        async with running_kernel(agent=agent, clock=clock, observers=[("stopwatch", stopwatch)]) as kernel:
            await kernel.run(event(id="e1"))
            slow = await kernel.run(event(id="e2"))
            await settle()
    lagged = [line for line in logs if line["event"] == "turn.lagged"]
    assert [(line["turn_id"], line["elapsed_ms"]) for line in lagged] == [(slow.turn_id, 2000)]


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_has_a_section_and_a_test(hook: str) -> None:
    assert hook in headings(DOCS / "hooks.md")
    assert f"test_hook_{hook}" in globals()


def test_no_section_and_no_test_is_about_a_hook_that_is_gone() -> None:
    tested = {name.removeprefix("test_hook_") for name in globals() if name.startswith("test_hook_")}
    assert tested == set(HOOKS)
    assert {name for name in headings(DOCS / "hooks.md") if "_" in name} == set(HOOKS)
