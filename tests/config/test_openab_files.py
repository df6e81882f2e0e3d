"""Files that were written for OpenAB: what they start with, and what is told of what this project has not."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from openab_gateway_ws.settings import GatewaySettings
from openab_kernel.config import KERNEL_SECTIONS, load
from openab_kernel.config.faults import keys_of
from openab_kernel.config.openab import CHANNELS, FREE, LEAF, SECTIONS
from openab_kernel.delivery.settings import DeliverySettings, MarkdownSettings
from openab_kernel.errors import ConfigError
from openab_kernel.outbound.settings import ReactionsSettings
from openab_kernel.policies.channel_section import ChannelSection

MODELS: dict[str, type[BaseModel]] = {**KERNEL_SECTIONS, "gateway": GatewaySettings}
OURS = {name: list(keys_of(model)) for name, model in MODELS.items()}

GATEWAY = """
[gateway]
url = "wss://gateway.example/ws"
platform = "telegram"
token = "${GATEWAY_TOKEN}"
bot_username = "my_bot"
allow_all_channels = true
allowed_channels = []
allow_all_users = false
allowed_users = ["42"]
allow_bot_messages = true
trusted_bot_ids = ["7"]
streaming = true
streaming_placeholder = false
telegram_rich_messages = true
gateway_ack_timeout_secs = 12
message_processing_mode = "Per_Thread"
max_buffered_messages = 10
max_batch_tokens = 24000

[agent]
command = "claude-agent-acp"
args = ["--verbose"]
working_dir = "/home/agent"
env = { MODEL = "large" }
inherit_env = ["LANG"]

[pool]
max_sessions = 10
session_ttl_hours = 24
preload_persisted_sessions = true
prompt_hard_timeout_secs = 1800
liveness_check_secs = 30
hung_grace_secs = 120
default_config_options = { mode = "plan" }

[reactions]
enabled = true
remove_after_reply = false
tool_display = "Hidden"
narration_display = false
[reactions.emojis]
queued = "👀"
thinking = "🤔"
tool = "🔥"
coding = "👨‍💻"
web = "⚡"
done = "🆗"
error = "😱"
[reactions.timing]
debounce_ms = 700
stall_soft_ms = 10000
stall_hard_ms = 30000
done_hold_ms = 1500
error_hold_ms = 2500
[reactions.mapping]
":thumbsup:" = "yes"

[markdown]
tables = "bullets"

[delivery]
mode = "Plain"
schema = "openab.turn.v1"
max_bubbles = 4
max_bubble_chars = 1200
bubble_delay_ms = 400
on_parse_error = "Drop"
parse_error_text = "Sorry."

[triage]
enabled = false
quiet_hours = "22:00-08:00"
timezone = "Asia/Taipei"
cooldown_secs = 900
daily_cap = 8
dedupe_window_secs = 3600
"""


def below(names: Any, way: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Give the way to every name of OpenAB; a name in an array of tables stands behind a `0`."""
    match names:
        case [inner]:
            yield from below(inner, (*way, "0"))
        case dict():
            for key, inner in names.items():
                yield (*way, key)
                yield from below(inner, (*way, key))


EVERY_KEY = [way for way in below(SECTIONS, ()) if len(way) > 1]


def write(way: tuple[str, ...], last: str) -> str:
    """A file that holds one key, `last`, where `way` leads to; its value is a table, so that nothing else is wrong."""
    document: Any = {last: {}}
    for key in reversed(way[:-1]):
        document = [document] if key == "0" else {key: document}
    return "\n".join(f"{key} = {inline(value)}" for key, value in document.items())


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {inline(inner)}" for key, inner in value.items()) + "}"
    return "[" + ", ".join(map(inline, value)) + "]"


def misspell(word: str) -> list[str]:
    """One letter left out, one doubled, one replaced, and two that changed places."""
    middle = len(word) // 2
    head, tail = word[:middle], word[middle:]
    return [head + tail[1:], f"{head}{tail[0]}{tail}", f"{head}q{tail[1:]}", f"{word[:-2]}{word[-1]}{word[-2]}"]


def test_file_with_every_key_of_the_gateway_starts(load_text):
    config = load_text(GATEWAY, {"GATEWAY_TOKEN": "hunter22"})
    access = config.channels["gateway"].policy().access
    assert (access.allow_from, access.allow_bots, access.allowed_channels) == ({"42"}, "all", None)
    assert config.channels["gateway"].policy().batch.mode == "per-thread"
    assert config.of(ReactionsSettings).tool_display == "none"
    assert config.of(DeliverySettings).mode == "text"
    assert config.of(DeliverySettings).on_parse_error == "silent"
    assert config.of(MarkdownSettings).tables == "bullets"
    assert config.warnings == (("config.ignored", {"section": "pool", "key": "preload_persisted_sessions"}),)


def test_sample_file_holds_every_key_of_its_sections():
    written = {line.partition(" = ")[0] for line in GATEWAY.splitlines() if " = " in line}
    for name in ("gateway", *KERNEL_SECTIONS):
        leaves = {way[-1] for way in below(SECTIONS.get(name, {}), (name,)) if len(way) > 1}
        assert leaves - {"emojis", "timing", "mapping"} <= written


@pytest.mark.parametrize(
    ("key", "spellings"),
    [
        ("delivery.mode", ["text", "plain", "off", "TEXT", "Off"]),
        ("delivery.on_parse_error", ["fallback_text", "fallback", "text", "error_message", "error", "silent", "DROP"]),
        ("reactions.tool_display", ["full", "compact", "none", "off", "hidden", "HIDDEN"]),
        ("markdown.tables", ["code", "bullets", "off"]),
        ("gateway.message_processing_mode", ["per-message", "per-thread", "per-lane", "PER_LANE", "Per-Message"]),
        ("discord.allow_bot_messages", ["off", "none", "false", "mentions", "all", "true", "All"]),
        ("discord.allow_user_messages", ["involved", "mentions", "multibot-mentions", "Multibot_Mentions"]),
    ],
)
def test_every_spelling_of_a_value_is_read(problems_of, key, spellings):
    section, name = key.split(".")
    rest = 'url = "ws://h"\n' if section == "gateway" else ""
    for spelling in spellings:
        assert problems_of(f'[{section}]\n{rest}{name} = "{spelling}"') == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("markdown.tables", '"Code"'),
        ("gateway.allow_bot_messages", '"mentions"'),
        ("gateway.message_processing_mode", '"batched"'),
        ("reactions.tool_display", '"some"'),
        ("delivery.on_parse_error", '"ignore"'),
    ],
)
def test_value_that_is_none_of_the_spellings_is_refused(problems_of, key, value):
    section, name = key.split(".")
    rest = 'url = "ws://h"\n' if section == "gateway" else ""
    (problem,) = problems_of(f"[{section}]\n{rest}{name} = {value}")
    assert problem.startswith(f"{key}: {value}; ")


@pytest.mark.parametrize("section", sorted(SECTIONS.keys() - OURS.keys() - {"secrets"}))
def test_section_that_nothing_here_serves_is_told_once_and_passed_over(load_text, section):
    lines = [f"{section}.{'.'.join(json.dumps(key) for key in way[1:])} = 1" for way in leaves_of(section)]
    config = load_text("\n".join(lines))
    assert config.warnings == (("config.ignored", {"section": section}),)
    assert config.ignored_channels == ((section,) if section in CHANNELS else ())
    assert config.channels == {}


def leaves_of(section: str) -> list[tuple[str, ...]]:
    """The ways to the keys of a section that are in no array."""
    ways = [way for way in below(SECTIONS[section], (section,)) if "0" not in way]
    return [way for way in ways if not any(other[: len(way)] == way and other != way for other in ways)]


def test_array_of_tables_is_passed_over_with_its_section(load_text):
    text = '[cron]\nusercron_enabled = true\n[[cron.jobs]]\nschedule = "* * * * *"\nmessage = "x"\n'
    assert load_text(text).warnings == (("config.ignored", {"section": "cron"}),)


@pytest.mark.parametrize("section", sorted(CHANNELS - OURS.keys()))
def test_keys_that_all_channels_share_are_known_in_sections_without_a_plugin(problems_of, section):
    keys = "\n".join(f"{key} = 1" for key in ChannelSection.model_fields)
    assert problems_of(f"[{section}]\n{keys}") == []


@pytest.mark.parametrize("way", EVERY_KEY, ids=".".join)
def test_misspelt_key_is_refused_with_the_key_that_was_meant(problems_of, way):
    names = set(OURS.get(way[0], ())) | {other[-1] for other in EVERY_KEY if other[:-1] == way[:-1]}
    for wrong in misspell(way[-1]):
        if wrong in names or len(wrong) < 2:
            continue
        problems = problems_of(write(way, wrong))
        expected = f"unknown key; did you mean {way[-1]}?"
        assert any(problem.endswith(expected) for problem in problems), (wrong, problems)


@pytest.mark.parametrize("section", sorted(SECTIONS.keys() | OURS.keys()))
def test_misspelt_section_is_refused_with_the_section_that_was_meant(problems_of, section):
    for wrong in misspell(section):
        if wrong not in SECTIONS and len(wrong) > 2:
            assert problems_of(f"[{wrong}]") == [f"[{wrong}]: unknown section; did you mean {section}?"]


def test_free_tables_take_any_name(problems_of):
    ways = [way for way in EVERY_KEY if look_up(way) is FREE]
    assert len(ways) == 5
    assert [problems_of(f'[{".".join(way)}]\nANY_thing = "x"') for way in ways] == [[]] * 5


def look_up(way: tuple[str, ...]) -> Any:
    names: Any = SECTIONS
    for key in way:
        names = names[0] if key == "0" else names[key]
    return names


def test_every_leaf_is_a_leaf():
    assert {look_up(way) for way in EVERY_KEY if not isinstance(look_up(way), dict | list)} == {LEAF, FREE}


@pytest.mark.parametrize(
    "text",
    [
        '[gateway]\nurl = "ws://h"\ntoken = "${secrets.gateway}"',
        '[discord]\nbot_token = "${secrets.discord}"',
        '[stt]\napi_key = "${secrets.a}"\n[secrets.refs]\na = "aws-sm://x"',
        '[[cron.jobs]]\nmessage = "${secrets.a}"',
    ],
)
def test_value_that_depends_on_a_provider_of_secrets_stops_the_start(problems_of, text):
    (problem,) = problems_of(text)
    assert "${secrets." in problem
    assert problem.endswith("write ${NAME} and set NAME in the environment")


def test_provider_of_secrets_that_nothing_depends_on_is_passed_over(load_text):
    config = load_text('[secrets.refs]\na = "aws-sm://x"\n[secrets.aws]\nregion = "eu"')
    assert config.warnings == (("config.ignored", {"section": "secrets"}),)


def test_variables_of_a_section_that_is_passed_over_need_not_be_set(problems_of):
    assert problems_of('[stt]\napi_key = "${GROQ_API_KEY}"\n[hooks.pre_boot]\ninline = "echo ${x%y}"') == []


def test_section_of_ours_whose_plugin_is_missing_is_passed_over(load_text):
    assert load_text("[web]\nanything = 1").warnings == (("config.ignored", {"section": "web"}),)


def test_section_of_the_gateway_is_known_where_its_plugin_is_not_loaded(tmp_path):
    path = tmp_path / "config.toml"
    keys = "\n".join(f"{key} = 1" for key in keys_of(GatewaySettings))
    path.write_text(f"[gateway]\n{keys}")
    config = load(path, {}, {})
    assert (config.ignored_channels, config.channels) == (("gateway",), {})


def test_misspelt_key_never_widens_access_and_no_secret_is_shown(problems_of):
    """F-01."""
    text = """
    [discord]
    bot_token = "canary-bot-token"
    allowd_users = ["1"]
    [triage]
    quiet_hour = "22:00-08:00"
    [nobodyknows]
    x = "canary-unknown"
    """
    problems = problems_of(text)
    assert problems[:2] == [
        "discord.allowd_users: unknown key; did you mean allowed_users?",
        "triage.quiet_hour: unknown key; did you mean quiet_hours?",
    ]
    assert problems[2].startswith("[nobodyknows]: unknown section; known: ")
    assert "canary" not in "".join(problems)


def test_error_holds_all_problems_on_lines_of_their_own(load_text):
    with pytest.raises(ConfigError) as caught:
        load_text("[x1y2z3]\n[log]\nlevel = 1")
    assert str(caught.value).splitlines() == [str(problem) for problem in caught.value.problems]


def test_section_whose_access_is_in_force_has_only_its_other_keys_ignored(load_text):
    text = '[gateway]\nurl = "ws://h"\n[telegram]\nallow_all_users = true\nbot_token = "x"'
    assert load_text(text).warnings == (("config.ignored", {"section": "telegram", "key": "bot_token"}),)
