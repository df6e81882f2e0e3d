"""Finding plugins (cases P-01, P-02): those that cannot be loaded are named, the others work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from openab_kernel import SystemClock, hookimpl
from openab_kernel.errors import ConfigError, ConfigProblem, PluginError
from openab_kernel.plugin_host.hookspecs import Services
from openab_kernel.plugin_host.loader import LoadedPlugins, load_plugins

SERVICES = Services(clock=SystemClock(), version="1")


class Section(BaseModel):
    """A section of a plugin."""


def plugin(name: str, **hooks: Any) -> tuple[str, ModuleType]:
    module = ModuleType(name)
    for hook, implementation in hooks.items():
        setattr(module, hook, hookimpl(implementation))
    return name, module


def install(folder: Path, name: str, source: str | None) -> None:
    """An installed distribution with one plugin; without source its module is missing."""
    if source is not None:
        (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}_dist-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[openab_kernel.plugins]\n{name} = {name}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("z_good", "z_missing", "z_raising"):
        sys.modules.pop(name, None)


GOOD = """
from openab_kernel import hookimpl

@hookimpl
def register_turn_observers(settings, services):
    return ["observer"]
"""


def names(plugins: LoadedPlugins) -> list[str]:
    return [info.name for info in plugins.loaded]


def test_broken_plugins_are_named_with_package_and_cause_and_the_good_one_works(site: Path) -> None:
    """case P-01"""
    install(site, "z_good", GOOD)
    install(site, "z_missing", None)
    install(site, "z_raising", "raise RuntimeError('no luck')")
    with capture_logs() as logs:
        plugins = load_plugins([], redact=str)
    assert "z_good" in names(plugins)
    failed = {info.name: info for info in plugins.failed}
    assert failed["z_missing"].distribution == "z_missing-dist"
    assert "No module named 'z_missing'" in (failed["z_missing"].cause or "")
    assert "RuntimeError: no luck" in (failed["z_raising"].cause or "")
    told = {entry["plugin"]: entry for entry in logs if entry["event"] == "plugin.failed"}
    assert told["z_raising"]["distribution"] == "z_raising-dist"
    assert ("z_good", "observer") in plugins.call("register_turn_observers", settings=None, services=SERVICES)


def test_of_an_error_only_the_class_is_told_while_nobody_knows_the_secrets(site: Path) -> None:
    install(site, "z_raising", "raise RuntimeError('canary-5f1c')")
    with capture_logs() as logs:
        plugins = load_plugins([])
    assert plugins.infos["z_raising"].cause == "z_raising: RuntimeError"
    (told,) = [entry for entry in logs if entry.get("plugin") == "z_raising"]
    assert told["exc_info"] is None


def test_an_operator_may_ask_for_a_hard_stop(site: Path) -> None:
    """case P-01"""
    install(site, "z_missing", None)
    with pytest.raises(PluginError, match=r"plugin z_missing: .*No module named"):
        load_plugins([], strict=True, redact=str)


def test_plugins_that_are_not_wanted_are_not_imported(site: Path) -> None:
    install(site, "z_raising", "raise RuntimeError('no luck')")
    plugins = load_plugins([plugin("one"), plugin("two")], disabled=["z_raising", "two", "three"])
    assert plugins.unknown == ["three"]
    assert "one" in names(plugins)
    assert {"two", "z_raising"}.isdisjoint(plugins.infos)


def test_a_hook_that_raises_takes_its_own_plugin_out_and_no_other() -> None:
    """case P-02"""

    def broken(settings: Any, services: Any) -> list[Any]:
        raise RuntimeError("boom")

    plugins = load_plugins(
        [
            plugin("a", register_agents=lambda settings, services: ["agent a"]),
            plugin("b", register_agents=broken, register_channels=lambda settings, services: ["channel b"]),
            plugin("c", register_agents=lambda settings, services: ["agent c", "agent d"]),
        ],
        redact=str,
    )
    with capture_logs() as logs:
        answers = plugins.call("register_agents", settings=None, services=SERVICES)
    assert answers == [("a", "agent a"), ("c", "agent c"), ("c", "agent d")]
    assert [(entry["plugin"], entry["cause"]) for entry in logs] == [("b", "register_agents: RuntimeError: boom")]
    assert ("b", "channel b") not in plugins.call("register_channels", settings=None, services=SERVICES)


def test_a_hook_that_misses_a_setting_is_a_fault_of_the_configuration() -> None:
    def unset(settings: Any, services: Any) -> list[Any]:
        raise ConfigError([ConfigProblem("agent.command", "not set", "set it")])

    plugins = load_plugins([plugin("a", register_agents=unset)])
    with pytest.raises(ConfigError, match=r"agent\.command"):
        plugins.call("register_agents", settings=None, services=SERVICES)


def test_a_plugin_names_its_section() -> None:
    plugins = load_plugins([plugin("a", plugin_settings=lambda: [("mine", Section)])])
    assert plugins.settings()["mine"] is Section


def test_two_plugins_that_name_one_section_are_both_named() -> None:
    plugins = load_plugins(
        [
            plugin("a", plugin_settings=lambda: [("mine", Section)]),
            plugin("b", plugin_settings=lambda: [("mine", Section)]),
        ]
    )
    with pytest.raises(PluginError, match=r"plugin b.*section \[mine\] belongs to plugin a"):
        plugins.settings()


@pytest.mark.parametrize("declared", ["mine", ("mine",), ("mine", int), (1, Section)])
def test_a_section_that_is_no_pair_of_name_and_model_is_refused(declared: Any) -> None:
    plugins = load_plugins([plugin("a", plugin_settings=lambda: [declared])])
    with pytest.raises(PluginError, match="plugin a"):
        plugins.settings()


def test_of_two_plugins_of_one_name_the_second_is_refused(site: Path) -> None:
    install(site, "z_good", GOOD)
    plugins = load_plugins([plugin("z_good")])
    assert [info.cause for info in plugins.failed] == ["name taken by openab-kernel"]
