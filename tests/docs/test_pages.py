"""What stands on the pages is so."""

from __future__ import annotations

import re
import tomllib
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints
from urllib.parse import urlsplit

import pytest

from openab_gateway_ws.settings import GatewaySettings
from openab_kernel.agent import environment
from openab_kernel.agent.settings import Permission
from openab_kernel.cli import main as command_line
from openab_kernel.cli.check import describe_channel
from openab_kernel.config import load
from openab_kernel.config.openab import VARIABLES
from openab_kernel.delivery.lines import FAILURE_LINES
from openab_kernel.errors import ConfigError, FailureCause
from openab_kernel.facts.access import AccessFacts, MentionFacts
from openab_kernel.facts.outbound import PartOutcome
from openab_kernel.facts.policy import AccessPolicy
from openab_kernel.facts.turn import Stage, TurnOutcome, TurnSummary
from openab_kernel.policies.admission import AdmissionFacts, decide
from openab_kernel.policies.commands import control_command
from tests.docs.pages import DOCS, PAGES, ROOT, code_blocks, generator, headings, in_code, links, read, rows_below

ENVIRON = {"GATEWAY_TOKEN": "canary"}


# ── All pages ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = (page.parent / parts.path).resolve() if parts.path else page
        assert target.exists(), link
        assert not parts.fragment or parts.fragment in map(slug, headings(target)), link


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_index_names_every_page() -> None:
    listed = {(DOCS / link).resolve() for link in links(DOCS / "index.md")}
    assert {page for page in PAGES if page.parent != DOCS / "decisions"} - listed == {DOCS / "index.md"}


def test_lines_fit_the_screen_but_for_tables() -> None:
    long = [
        f"{page.name}:{number}"
        for page in PAGES
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if len(line) > 120 and not line.startswith(("|", "<!--"))
    ]
    assert long == []


@pytest.mark.parametrize(
    ("page", "number"),
    [(ROOT / "README.md", 0), (DOCS / "configuration.md", 0), (DOCS / "agents.md", 0), (DOCS / "plugins.md", 1)],
)
def test_configuration_on_a_page_can_be_used(page: Path, number: int, tmp_path: Path, echo: ModuleType) -> None:
    path = tmp_path / "config.toml"
    path.write_text(code_blocks(page, "toml")[number])
    assert load(path, ENVIRON, {**generator().sections(), **dict(echo.plugin_settings())}).warnings == ()


def test_readme_begins_with_the_two_commands() -> None:
    commands = code_blocks(ROOT / "README.md", "console")[0]
    assert re.findall(r"^\$ python3 dev\.py (\w+)", commands, re.MULTILINE) == ["demo", "test"]


def test_contributing_and_readme_name_what_dev_does() -> None:
    text = (ROOT / "README.md").read_text("utf-8") + (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    commands = re.findall(r"^python3 dev\.py (\w+)", (ROOT / "dev.py").read_text("utf-8"), re.MULTILINE)
    assert commands
    assert all(f"dev.py {command}" in text for command in commands)


def test_words_of_the_glossary_are_in_order() -> None:
    words = [row[0] for row in rows_below("glossary.md", "Glossary")[1:]]
    assert words == sorted(words, key=str.lower)


# ── configuration.md ──────────────────────────────────────────────────────────────────────────────


def test_every_section_of_the_configuration_has_its_keys_on_the_page() -> None:
    parts = re.findall(r"<!-- generated: settings (\w+) -->", read("configuration.md"))
    assert sorted(parts) == sorted(["channel", *generator().sections()])
    assert all(f"[{section}]" in headings(DOCS / "configuration.md") for section in generator().sections())


@pytest.mark.parametrize("row", rows_below("configuration.md", "Who is let in")[1:], ids=lambda row: row[0])
def test_what_is_written_lets_in_whom_the_page_says(row: list[str]) -> None:
    _, written, told = row
    section = tomllib.loads("\n".join(in_code(written)))
    policy = GatewaySettings(url="ws://127.0.0.1/ws", **section).policy()
    assert told in describe_channel("gateway", policy)


def test_faults_are_told_as_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[gateway]\nurl = "ws://h/ws"\nallowed_user = ["1"]\ntoken = "${GATEWAY_TOKEN}"')
    with pytest.raises(ConfigError) as raised:
        load(path, {}, generator().sections())
    told = "".join(f"error: {problem}\n" for problem in raised.value.problems)
    assert told in code_blocks(DOCS / "configuration.md", "text")


def test_variables_that_fill_in_keys_are_named() -> None:
    assert {f"GATEWAY_{key.upper()}" for key in VARIABLES["gateway"]} <= set(in_code(read("configuration.md")))


# ── running.md ────────────────────────────────────────────────────────────────────────────────────


def test_every_command_is_on_the_page() -> None:
    found = [name for name, _ in generator().find_commands("openab-kernel", command_line)]
    assert set(found) <= set(headings(DOCS / "running.md"))


def test_every_field_of_the_line_that_tells_a_turn_is_named() -> None:
    assert TurnSummary.model_fields.keys() <= set(in_code(read("running.md")))


def test_events_that_are_worth_an_alert_exist() -> None:
    named = [code for row in rows_below("running.md", "Worth an alert")[1:] for code in in_code(row[0])]
    assert {name for name in named if "=" not in name} <= set(generator().find_events())


# ── life-of-a-message.md ──────────────────────────────────────────────────────────────────────────

SENDERS: list[dict[str, Any]] = [
    {"sender_id": "1"},
    {"sender_id": "2"},
    {"sender_id": " "},
    {"sender_id": "9", "is_bot": True},
    {"sender_id": "1", "is_self": True},
]
POLICIES: list[dict[str, Any]] = [
    {},
    {"dm_policy": "disabled", "group_policy": "disabled"},
    {"dm_policy": "open", "allow_from": {"*"}, "group_policy": "open", "allow_bots": "all"},
    {"allow_from": {"1"}, "group_allow_from": {"1"}, "observe_only": True},
    {"allow_from": {"1"}, "group_allow_from": {"1"}, "allowed_channels": {"c2"}},
]
UNMENTIONED = AccessFacts(mentions=MentionFacts(can_detect_mention=True, was_mentioned=False, has_any_mention=True))


def refusals() -> set[str]:
    """The codes of all decisions that tables of senders, places and policies lead to."""
    found = set()
    for sender, kind, access, command, policy in product(
        SENDERS, ("direct", "group"), (AccessFacts(), UNMENTIONED), (False, True), POLICIES
    ):
        facts = AdmissionFacts(kind=kind, channel_id="c1", access=access, has_control_command=command, **sender)
        decision = decide(facts, AccessPolicy(**policy))
        found |= {decision.reason_code, decision.admission.reason or "allowed"}
    return found


def test_every_code_of_a_refusal_is_explained() -> None:
    codes = refusals()
    assert len(codes) > 10
    assert codes <= set(in_code(read("life-of-a-message.md")))


def test_every_stage_is_on_the_page() -> None:
    rows = rows_below("life-of-a-message.md", "The stages")[1:]
    assert [row[0] for row in rows] == [f"{number} {stage}" for number, stage in enumerate(get_args(Stage), 1)]


def test_every_ending_of_a_turn_is_explained() -> None:
    rows = rows_below("life-of-a-message.md", "The turn")
    told = {in_code(row[0])[0]: row[1] for row in rows if in_code(row[0])}
    assert told.keys() == {*get_args(TurnOutcome), *get_args(FailureCause)}
    assert all(told[cause] == line for cause, line in FAILURE_LINES.items())


def test_every_ending_of_a_part_is_explained() -> None:
    rows = rows_below("life-of-a-message.md", "A send")[1:]
    statuses = get_args(get_type_hints(PartOutcome)["status"])
    assert sorted(in_code(row[0])[0] for row in rows) == sorted(statuses)


# ── agents.md and architecture.md ─────────────────────────────────────────────────────────────────


def test_commands_in_the_chat_are_those_of_the_page() -> None:
    named = [code for row in rows_below("agents.md", "Commands in the chat")[1:] for code in in_code(row[0])]
    assert {control_command(name) for name in named} == {"cancel", "reset", "models", "agents"}


def test_what_an_agent_sees_and_may_do_is_named() -> None:
    named = set(in_code(read("agents.md")))
    told = {environment.ENVELOPE, environment.SEQUENTIAL, environment.MAX_BUBBLES, *environment.POSIX_NAMES}
    assert told <= named
    assert {f'"{value}"' for value in get_args(Permission)} <= named


def test_every_dependency_has_its_reason_on_a_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.match(r"[\w-]+", dependency)[0] for dependency in project["dependencies"]}  # type: ignore[index]  # it matches
    assert names <= set(in_code(read("architecture.md")))
