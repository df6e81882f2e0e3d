"""`[agent]` and `[pool]` (agent.md 1.1, 14)."""

import pytest
from pydantic import ValidationError

from openab_kernel.agent.settings import AgentSettings, PoolSettings, resolve_command, resolve_working_dir
from openab_kernel.errors import ConfigError


def test_defaults_are_those_of_the_specification():
    pool = PoolSettings()
    assert (pool.max_sessions, pool.session_ttl_hours, pool.shutdown_grace_secs) == (10, 4, 30)
    assert (pool.prompt_hard_timeout_secs, pool.liveness_check_secs, pool.hung_grace_secs) == (1800, 30, 120)
    assert AgentSettings().permission == "reject"


@pytest.mark.parametrize(
    ("written", "is_bubble_mode", "seconds"),
    [(None, False, 0), (None, True, 600), (0, True, 0), (90, False, 90), (90, True, 90)],
)
def test_inactivity_depends_on_the_mode_unless_it_is_written(written, is_bubble_mode, seconds):
    settings = PoolSettings(prompt_inactivity_timeout_secs=written)
    assert settings.inactivity_seconds(is_bubble_mode=is_bubble_mode) == seconds


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_sessions", 0),
        ("session_ttl_hours", 0),
        ("prompt_hard_timeout_secs", 0),
        ("prompt_inactivity_timeout_secs", -1),
        ("liveness_check_secs", 0),
        ("hung_grace_secs", -1),
        ("shutdown_grace_secs", -1),
        ("default_config_options", ["model"]),
        ("default_config_options", {"model": 5}),
        ("max_session", 5),
    ],
)
def test_pool_value_out_of_bounds_is_refused(key, value):
    with pytest.raises(ValidationError) as raised:
        PoolSettings(**{key: value})
    assert raised.value.errors()[0]["loc"][0] == key


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("command", " ", "a string that is not blank"),
        ("working_dir", "", "a string that is not blank"),
        ("args", "--acp", "an array of strings"),
        ("inherit_env", "PATH", "an array of strings"),
        ("env", ["A"], "a table of names and values"),
        ("permission", "ask", "allow_always"),
        ("comand", "x", "not permitted"),
    ],
)
def test_agent_value_is_refused_with_what_was_expected(key, value, expected):
    with pytest.raises(ValidationError, match=expected):
        AgentSettings(**{key: value})


def test_options_keep_their_type():
    assert PoolSettings(default_config_options={"a": True, "b": "true"}).default_config_options == {
        "a": True,
        "b": "true",
    }


@pytest.fixture
def own_agent(tmp_path):
    program = tmp_path / "openab-agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return {"PATH": str(tmp_path)}


@pytest.mark.parametrize(
    ("settings", "variable", "command"),
    [
        ({"command": "a b", "args": ("--c", "d e")}, "x", ["a b", "--c", "d e"]),
        ({"command": "a"}, "x y", ["a"]),
        ({}, "x 'y z' w", ["x", "y z", "w"]),
        ({}, " ", ["openab-agent"]),
        ({}, None, ["openab-agent"]),
    ],
)
def test_command_is_found(own_agent, settings, variable, command):
    environ = own_agent if variable is None else {**own_agent, "OPENAB_AGENT_COMMAND": variable}
    assert resolve_command(AgentSettings(**settings), environ) == command


@pytest.mark.parametrize(
    ("settings", "environ", "found"),
    [
        ({}, {"PATH": "/nowhere"}, "openab-agent is not on the PATH"),
        ({}, {"OPENAB_AGENT_COMMAND": "a 'b"}, "cannot be split"),
        ({"args": ("x",)}, {"OPENAB_AGENT_COMMAND": "a"}, "args are given"),
    ],
)
def test_missing_command_is_a_config_error_that_names_the_key(settings, environ, found):
    with pytest.raises(ConfigError, match=found) as raised:
        resolve_command(AgentSettings(**settings), environ)
    assert raised.value.problems[0].place == "agent.command"


@pytest.mark.parametrize(
    ("written", "environ", "found"), [("/w", {"HOME": "/h"}, "/w"), (None, {"HOME": "/h"}, "/h"), ("/w/../x", {}, "/x")]
)
def test_working_directory_is_absolute(written, environ, found):
    assert resolve_working_dir(AgentSettings(working_dir=written), environ) == found
