"""The environment of an agent (agent.md 1.2, 1.3)."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.agent.environment import ToldMode, agent_environment, environment_problems
from openab_kernel.agent.settings import AgentSettings
from openab_kernel.facts.agent_update import TextChunk
from openab_kernel.testing.scripted_agent import say_environment

SCHEMA = "openab.turn.v1"
MODES = ("text", "structured", "sequential")
ENVELOPE = "OPENAB_AGENT_TURN_ENVELOPE"
SEQUENTIAL = "OPENAB_AGENT_SEQUENTIAL_BUBBLES"
MAX_BUBBLES = "OPENAB_AGENT_MAX_BUBBLES"
TOKENS = ("DISCORD_BOT_TOKEN", "SLACK_APP_TOKEN", "LINE_CHANNEL_SECRET", "GATEWAY_TOKEN")


def told(mode):
    return ToldMode(mode, SCHEMA, 4)


@pytest.mark.parametrize(
    ("mode", "envelope", "sequential"),
    [("text", "", "0"), ("structured", SCHEMA, "0"), ("sequential", SCHEMA, "1")],
)
def test_agent_is_told_the_mode(mode, envelope, sequential):
    found = agent_environment(AgentSettings(), told(mode), {})
    assert found == {ENVELOPE: envelope, SEQUENTIAL: sequential, MAX_BUBBLES: "4"}


def test_environment_is_the_base_the_listed_names_and_the_mode():
    environ = {"HOME": "/h", "PATH": "/p", "USER": "u", "LISTED": "l", "OTHER": "o", "SystemRoot": "c:"}
    settings = AgentSettings(inherit_env=("LISTED", "MISSING", "OTHER"), env={"OTHER": "mine", "HOME": "/mine"})
    found = agent_environment(settings, told("text"), environ)
    assert {name: found[name] for name in found if not name.startswith("OPENAB")} == {
        "HOME": "/mine",
        "PATH": "/p",
        "USER": "u",
        "LISTED": "l",
        "OTHER": "mine",
    }


def test_windows_has_a_base_of_its_own():
    environ = {"HOME": "/h", "PATH": "p", "USERPROFILE": "c:/u", "USERNAME": "u", "SystemRoot": "r", "SystemDrive": "c"}
    found = agent_environment(AgentSettings(), told("text"), environ, is_windows=True)
    assert "HOME" not in found
    assert {"PATH", "USERPROFILE", "USERNAME", "SystemRoot", "SystemDrive"} < found.keys()


AGREEING = {
    "text": [(ENVELOPE, ""), (ENVELOPE, "  "), (SEQUENTIAL, "0"), (SEQUENTIAL, ""), (SEQUENTIAL, "False")],
    "structured": [(ENVELOPE, SCHEMA), (SEQUENTIAL, "0"), (SEQUENTIAL, "off")],
    "sequential": [(ENVELOPE, SCHEMA), (SEQUENTIAL, "1"), (SEQUENTIAL, "TRUE"), (SEQUENTIAL, "on")],
}
AGAINST = {
    "text": [(ENVELOPE, SCHEMA), (SEQUENTIAL, "1"), (SEQUENTIAL, "maybe")],
    "structured": [(ENVELOPE, ""), (ENVELOPE, "other.v1"), (ENVELOPE, f" {SCHEMA}"), (SEQUENTIAL, "1")],
    "sequential": [(ENVELOPE, " "), (SEQUENTIAL, "0"), (SEQUENTIAL, ""), (SEQUENTIAL, "2")],
}
CAPS_AGREEING = [(MAX_BUBBLES, "4"), (MAX_BUBBLES, " 2 "), (MAX_BUBBLES, "1"), (MAX_BUBBLES, "")]
CAPS_AGAINST = [(MAX_BUBBLES, value) for value in ("5", "0", "-1", "four", "1.5", "²", "9" * 5000)]


def listed(how, name, value):
    """The variable as an operator may list it, and the environment beside it."""
    if how == "env":
        return AgentSettings(env={name: value}), {}
    return AgentSettings(inherit_env=(name,)), {name: value}


@pytest.mark.parametrize("how", ["env", "inherit_env"])
@pytest.mark.parametrize(
    ("mode", "name", "value"), [(mode, *pair) for mode in MODES for pair in (*AGREEING[mode], *CAPS_AGREEING)]
)
def test_variable_that_agrees_with_the_mode_is_allowed(how, mode, name, value):
    settings, environ = listed(how, name, value)
    assert environment_problems(settings, told(mode), environ) == []
    expected = value.strip() if name == MAX_BUBBLES and value else told(mode).variables()[name]
    assert agent_environment(settings, told(mode), environ)[name] == expected


@pytest.mark.parametrize("how", ["env", "inherit_env"])
@pytest.mark.parametrize(
    ("mode", "name", "value"), [(mode, *pair) for mode in MODES for pair in (*AGAINST[mode], *CAPS_AGAINST)]
)
def test_variable_against_the_mode_is_a_problem_that_names_both_settings(how, mode, name, value):
    settings, environ = listed(how, name, value)
    [problem] = environment_problems(settings, told(mode), environ)
    assert problem.place == f"agent.{how}.{name}"
    assert ("[delivery] max_bubbles is 4" if name == MAX_BUBBLES else f"[delivery] mode is {mode}") in str(problem)
    assert len(str(problem)) < 300


def test_variable_that_is_not_listed_is_no_problem_whatever_it_says():
    environ = {ENVELOPE: "other", SEQUENTIAL: "1", MAX_BUBBLES: "99"}
    assert environment_problems(AgentSettings(), told("text"), environ) == []
    assert agent_environment(AgentSettings(), told("text"), environ)[MAX_BUBBLES] == "4"


def test_pair_wins_over_an_inherited_name():
    settings = AgentSettings(inherit_env=(SEQUENTIAL,), env={SEQUENTIAL: "0"})
    assert environment_problems(settings, told("text"), {SEQUENTIAL: "1"}) == []


@given(st.sampled_from(MODES), st.sampled_from([ENVELOPE, SEQUENTIAL, MAX_BUBBLES]), st.text(max_size=5))
def test_no_value_gives_the_agent_another_mode(mode, name, value):
    settings = AgentSettings(env={name: value})
    if not environment_problems(settings, told(mode), {}):
        found = agent_environment(settings, told(mode), {})
        assert {key: found[key] for key in (ENVELOPE, SEQUENTIAL)} == {
            key: told(mode).variables()[key] for key in (ENVELOPE, SEQUENTIAL)
        }
        assert 1 <= int(found[MAX_BUBBLES]) <= 4


@pytest.mark.parametrize("of_child", [False, True])
async def test_agent_and_its_child_see_no_token_of_ours(kit, monkeypatch, of_child):
    for name in TOKENS:
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("LISTED", "yes")
    monkeypatch.setenv("HOME", "/somewhere")
    environment = agent_environment(AgentSettings(inherit_env=("LISTED",)), told("text"), os.environ)
    script = kit.script([[say_environment(of_child=of_child)]])
    async with kit.running(kit.pool(script, environment=environment)) as pool:
        [said, _] = await kit.ask(pool)
    assert isinstance(said, TextChunk)
    seen = json.loads(said.text)
    assert {name: value for name, value in seen.items() if name not in ("PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE")} == (
        environment
    )
    assert environment.keys() <= {"HOME", "PATH", "USER", "LISTED", ENVELOPE, SEQUENTIAL, MAX_BUBBLES}
    assert environment["LISTED"] == "yes"
    assert "canary" not in said.text
