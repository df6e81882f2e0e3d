"""`check`: what would happen, in words, and what would stop the start."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openab_kernel.cli import main
from openab_kernel.cli.check import describe_channel, without_login
from openab_kernel.facts.policy import AccessPolicy, BatchPolicy, ChannelPolicy
from openab_kernel.policies.channel_section import ChannelSection

GOOD = f"""
[gateway]
url = "ws://127.0.0.1:1/"
token = "canary-5f1c"
allowed_users = ["42", ""]
[agent]
command = '{sys.executable}'
args = ["-c", "two words"]
working_dir = "."
[store]
url = "sqlite:///state.db"
[stt]
enabled = true
"""


@pytest.fixture
def run_check(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(text: str, **environ: str) -> Result:
        Path("config.toml").write_text(text)
        return CliRunner(env=environ).invoke(main, ["check"])

    return run


def test_what_would_happen_is_told_in_words(run_check, tmp_path):
    result = run_check(GOOD)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert [
        f"agent {sys.executable} -c 'two words', in {tmp_path}, at most 10 sessions",
        "agent when it asks for permission: reject",
        "pairing text: the answer is one message, as it was written; the agent is told to write no envelope",
        "store state.db",
        "warning config.ignored stt",
        "warning access.blank_ignored gateway allowed_users",
        "gateway direct chats: 42",
        "gateway groups: 42, in every channel, where the bot is mentioned",
        "gateway bots: none",
        "gateway a turn takes one message",
    ] == [line for line in lines if not line.startswith("plugin ")]
    assert any(line.startswith("plugin gateway_ws: openab-kernel ") for line in lines)
    assert "canary" not in result.output


def test_plugin_that_is_left_out_and_not_there_is_warned_of(run_check):
    result = run_check(f'{GOOD}[plugins]\ndisabled = ["nosuch", "turn_log"]')
    (line,) = [line for line in result.stdout.splitlines() if "plugin.unknown" in line]
    assert line.split() == ["warning", "plugin.unknown", "nosuch", "[plugins]", "disabled"]


def test_nothing_is_opened_or_written(run_check, tmp_path):
    run_check(GOOD)
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_persona_that_asks_for_envelopes_is_warned_of(run_check, tmp_path):
    (tmp_path / "AGENTS.md").write_text("Answer as openab.turn.v1 please.")
    result = run_check(GOOD)
    assert "take openab.turn.v1 out of AGENTS.md, or set [delivery] mode" in result.stdout


def test_every_problem_is_one_line_on_stderr_and_the_status_is_2(run_check):
    result = run_check('[gateway]\nurl = "ws://h"\ntokn = "canary"\n[triage]\nquiet_hour = "x"\n[agent]\nargs = 5')
    assert result.exit_code == 2
    assert result.stdout == ""
    assert [line.partition(": ")[2].partition(":")[0] for line in result.stderr.splitlines()] == [
        "gateway.tokn",
        "triage.quiet_hour",
        "agent.args",
    ]
    assert "canary" not in result.output


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('mode = "x"', 'delivery.mode: "x"; '),
        ("max_bubbles = 0", "delivery.max_bubbles: 0; "),
        ('parse_error_text = " "', "delivery.parse_error_text: an empty string; "),
        ("max_bubble = 3", "delivery.max_bubble: unknown key; did you mean max_bubbles?"),
        ('reply_tool = "inject"', 'delivery.reply_tool: "inject"; '),
        ('schema = "${secrets.x}"', "delivery.schema: ${secrets.x}; "),
    ],
)
def test_key_that_cannot_be_used_is_named_and_the_status_is_2(run_check, line, problem):
    result = run_check(f"{GOOD}[delivery]\n{line}")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {problem}")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[agent]\ncommand = 'cat'", "nothing to listen to"),
        ("[agent]\ncommand = 'cat'\n[discord]\nbot_token = 'x'", "nothing to listen to; no plugin serves [discord]"),
        ("[gateway]\nurl = 'ws://h'", "agent.command: not set"),
    ],
)
def test_start_that_could_not_be_is_told_with_status_2(run_check, text, words):
    result = run_check(text, PATH="")
    assert result.exit_code == 2, result.output
    assert words in result.stderr


@pytest.mark.parametrize("command", ["check", "serve"])
def test_all_that_is_missing_is_told_at_once(run_check, command):
    run_check("[store]\nurl = 'other://h'", PATH="")
    result = CliRunner(env={"PATH": ""}).invoke(main, [command])
    assert result.exit_code == 2
    places = [line.removeprefix("error: ").partition(":")[0] for line in result.stderr.splitlines()]
    assert places == ["store.url", "agent.command", "channels"]


def test_file_may_be_a_pipe(tmp_path):
    command = [sys.executable, "-m", "openab_kernel", "check", "-c", "/dev/stdin"]
    run = subprocess.run(command, input=GOOD, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (run.returncode, run.stderr) == (0, "")
    assert "store        state.db" in run.stdout


def test_file_that_is_not_there_is_named(tmp_path):
    result = CliRunner().invoke(main, ["check", "-c", str(tmp_path / "absent.toml")])
    assert result.exit_code == 2
    assert result.stderr == f"error: {tmp_path / 'absent.toml'}: no such file or directory; name another with -c FILE\n"


@pytest.mark.parametrize(
    ("keys", "sentences"),
    [
        ({"allow_all_users": True}, ["direct chats: everyone", "groups: everyone, in every channel"]),
        ({}, ["admits nobody: list users in chat.allowed_users, or write chat.allow_all_users = true"]),
        ({"dm_policy": "disabled"}, ["direct chats: nobody"]),
        ({"dm_policy": "pairing"}, ["direct chats: nobody, and who was paired"]),
        ({"dm_policy": "open", "allowed_users": ["U"]}, ["direct chats: U", "groups: U"]),
        ({"group_policy": "disabled"}, ["groups: nobody"]),
        ({"allow_all_channels": False}, ["groups: nobody, in no channel"]),
        ({"group_policy": "open", "allowed_channels": ["B", "A"]}, ["groups: everyone, in A, B"]),
        ({"allow_bot_messages": "all", "trusted_bot_ids": ["B1"]}, ["bots: all, of B1"]),
        ({"allow_bot_messages": "mentions"}, ["bots: those that mention this one"]),
        ({"trusted_bot_ids": ["B1"]}, ["bots: none"]),
        ({"message_processing_mode": "per-thread"}, ["a turn takes up to 10 waiting messages of all senders"]),
        ({"message_processing_mode": "per-lane"}, ["a turn takes up to 10 waiting messages of one sender"]),
        ({"allowed_users": [f"U{number:02}" for number in range(12)]}, ["U08, U09 and 2 more"]),
    ],
)
def test_channel_is_described_by_who_is_heard_and_how(keys, sentences):
    text = "\n".join(describe_channel("chat", ChannelSection(**keys).policy()))
    assert [sentence for sentence in sentences if sentence not in text] == []


def test_mention_is_not_spoken_of_where_none_is_needed():
    policy = ChannelPolicy(access=AccessPolicy(group_policy="open", require_mention=False), batch=BatchPolicy())
    assert "groups: everyone, in every channel" in list(describe_channel("chat", policy))


def test_a_store_that_no_plugin_serves_is_refused_as_serve_would_and_its_password_is_not_shown(run_check):
    result = run_check(re.sub(r'(?<=url = )"sqlite[^"]*"', '"postgres://u:canary-pw@h/db"', GOOD))
    assert result.exit_code == 2
    assert "no store for postgres:" in result.stderr
    assert "canary-pw" not in result.output + result.stderr


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (sys.executable, "no-such-agent", "cannot start no-such-agent: there is no such program on the agent's PATH"),
        (sys.executable, "./agent", "cannot start ./agent: there is no such program there"),
        ('"."', '"absent"', "absent does not exist; set [agent] working_dir"),
    ],
)
def test_an_agent_that_could_not_start_now_is_an_error_that_serve_lives_with(run_check, old, new, told):
    result = run_check(GOOD.replace(old, new))
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("error ")]
    assert told in line


def test_the_agent_is_looked_for_where_it_would_run(run_check, tmp_path):
    agent = tmp_path / "work" / "agent"
    agent.parent.mkdir()
    agent.write_text("")
    agent.chmod(0o700)
    for command, more in (("./agent", ""), ("agent", f"env = {{ PATH = '{agent.parent}' }}")):
        text = GOOD.replace(sys.executable, command).replace('working_dir = "."', f'working_dir = "work"\n{more}')
        result = run_check(text, PATH="")
        assert "error" not in result.stdout, result.output


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("other://h/db", "other://h/db"),
        ("other://me:canary/p@w?x@h:1/db?password=canary#x", "other://h:1/db"),
        ("other:", "other:"),
    ],
)
def test_store_of_a_plugin_is_shown_without_its_login(url, shown):
    assert without_login(url) == shown
