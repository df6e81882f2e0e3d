"""`check`: what `serve` would do with this configuration, in words."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from openab_kernel.agent.acp.process import find_obstacle
from openab_kernel.agent.environment import ToldMode, agent_environment
from openab_kernel.agent.settings import AgentSettings, PoolSettings, resolve_command, resolve_working_dir
from openab_kernel.app import find_mispairing, make, set_up
from openab_kernel.cli.options import config_option, describe_plugin, exit_on_error, silence_logs
from openab_kernel.clock import SystemClock
from openab_kernel.config import Config, read_document
from openab_kernel.delivery.pairing import describe_pairing
from openab_kernel.delivery.settings import DeliverySettings
from openab_kernel.facts.policy import AccessPolicy, BatchPolicy, ChannelPolicy
from openab_kernel.policies.channel_section import EVERYONE, admits_nobody
from openab_kernel.storage.settings import SQLITE, StoreSettings

IDS_SHOWN = 10
BOTS = {"off": "none", "mentions": "those that mention this one", "all": "all"}


@click.command()
@config_option
@exit_on_error()
def check(path: Path) -> None:
    """Read everything that `serve` would read, and say what would happen. Status 2 if it would not start."""
    silence_logs()
    setup = set_up(read_document(path), os.environ)
    made = make(setup, SystemClock())
    command = resolve_command(setup.config.of(AgentSettings), os.environ)
    for info in setup.plugins.infos.values():
        _print("plugin", f"{info.name}: {describe_plugin(info)}")
    for subject, text in describe(setup.config, command, os.environ):
        _print(subject, text)
    for channel in made.channels:
        for text in describe_channel(channel.name, channel.policy):
            _print(channel.name, text)


def describe(config: Config, command: list[str], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Say what would run where, as pairs of a subject and a sentence."""
    agent, pool = config.of(AgentSettings), config.of(PoolSettings)
    directory = resolve_working_dir(agent, environ)
    yield "agent", f"{shlex.join(command)}, in {directory}, at most {pool.max_sessions} sessions"
    yield "agent", f"when it asks for permission: {agent.permission}"
    delivery = config.of(DeliverySettings)
    environment = agent_environment(agent, ToldMode.of(delivery), environ, is_windows=os.name == "nt")
    obstacle = find_obstacle(command[0], directory, environment)
    if obstacle is not None:
        yield "error", obstacle
    yield "pairing", describe_pairing(delivery)
    fix = find_mispairing(config, environ)
    if fix is not None:
        yield "warning", fix
    store = config.of(StoreSettings)
    is_file = store.url.startswith(SQLITE)
    yield "store", str(store.path(config.directory)) if is_file else without_login(store.url)
    for notice in config.warnings:
        yield "warning", " ".join((notice.event, *notice.fields.values()))


def without_login(url: str) -> str:
    """A URL as anybody may see it: no user, no password, no parameters."""
    return re.split("[?#]", re.sub("//.*@", "//", url))[0]


def describe_channel(name: str, policy: ChannelPolicy) -> Iterator[str]:
    """Say who is heard in a channel, and what a turn takes."""
    access = policy.access
    if admits_nobody(access):
        yield f"admits nobody: list users in {name}.allowed_users, or write {name}.allow_all_users = true"
    yield f"direct chats: {_direct(access)}"
    yield f"groups: {_group(access)}"
    yield f"bots: {_bots(access)}"
    yield f"a turn takes {_batch(policy.batch)}"


def _direct(access: AccessPolicy) -> str:
    if access.dm_policy == "disabled":
        return "nobody"
    if access.dm_policy == "open" and EVERYONE in access.allow_from:
        return "everyone"
    persons = _names(access.allow_from, "nobody")
    return f"{persons}, and who was paired" if access.dm_policy == "pairing" else persons


def _group(access: AccessPolicy) -> str:
    persons = "everyone" if access.group_policy == "open" else _names(access.group_allow_from, "nobody")
    if access.group_policy == "disabled":
        return "nobody"
    where = "every channel" if access.allowed_channels is None else _names(access.allowed_channels, "no channel")
    mention = "" if access.require_mention is False else ", where the bot is mentioned"
    return f"{persons}, in {where}{mention}"


def _bots(access: AccessPolicy) -> str:
    trusted = f", of {_names(access.trusted_bot_ids, 'none')}" if access.trusted_bot_ids else ""
    return BOTS[access.allow_bots] + (trusted if access.allow_bots != "off" else "")


def _batch(batch: BatchPolicy) -> str:
    if batch.mode == "per-message":
        return "one message"
    whose = "of all senders" if batch.mode == "per-thread" else "of one sender"
    return f"up to {batch.max_buffered_messages} waiting messages {whose}"


def _names(ids: Iterable[str], none: str) -> str:
    names = sorted(ids)
    rest = f" and {len(names) - IDS_SHOWN} more" if len(names) > IDS_SHOWN else ""
    return ", ".join(names[:IDS_SHOWN]) + rest if names else none


def _print(subject: str, text: str) -> None:
    click.echo(f"{subject:<12} {text}")
