"""What a configuration file may hold, and how each fault of it is told."""

from datetime import datetime
from pathlib import Path
from typing import Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from openab_gateway_ws.settings import GatewaySettings
from openab_kernel.agent.settings import AgentSettings, PoolSettings
from openab_kernel.config import KERNEL_SECTIONS, PluginsSettings, glance, load
from openab_kernel.delivery.settings import DeliverySettings
from openab_kernel.errors import ConfigError
from openab_kernel.observability.settings import LogSettings
from openab_kernel.policies.channel_section import ChannelSection


def test_no_file_gives_every_section_its_defaults():
    config = load(None, {}, {})
    assert all(config.get(model) == model() for model in KERNEL_SECTIONS.values())
    assert (config.path, config.directory, config.channels, config.warnings) == (None, Path(), {}, ())


def test_channel_that_is_not_written_is_no_channel(load_text):
    assert load_text("").get(GatewaySettings) is None


def test_sections_are_found_by_their_class(load_text, tmp_path):
    config = load_text('[gateway]\nurl = "ws://h/"\n[agent]\ncommand = "cat"\n[pool]\nmax_sessions = 3')
    assert config.of(AgentSettings).command == "cat"
    assert config.of(PoolSettings).max_sessions == 3
    assert config.channels == {"gateway": config.of(GatewaySettings)}
    assert config.directory == tmp_path


def test_section_of_a_plugin_has_its_defaults_where_it_can_do_without_being_written(tmp_path):
    class Greeter(BaseModel):
        greeting: str = "hello"

    class Database(BaseModel):
        url: str

    path = tmp_path / "config.toml"
    path.touch()
    config = load(path, {}, {"greeter": Greeter, "database": Database})
    assert config.of(Greeter) == Greeter()
    assert config.get(Database) is None


def test_all_faults_are_told_at_once_in_the_order_of_the_file(problems_of):
    text = """
    loose = 1
    [delivery]
    max_bubble = 3
    mode = "x"
    [discrod]
    [pool]
    max_sessions = 0
    [gateway]
    url = "${GATEWAY}"
    streaming = "yes"
    allowed_users = [5]
    [log]
    level = "loud"
    """
    places = [line.partition(": ")[0] for line in problems_of(text)]
    assert places == [
        "loose",
        "delivery.max_bubble",
        "delivery.mode",
        "[discrod]",
        "pool.max_sessions",
        "gateway.url",
        "gateway.streaming",
        "gateway.allowed_users[0]",
        "log.level",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("mode = 1", "mode: a key outside of every section; write it below its [section]"),
        ("discord = 1", "[discord]: a number; must be a section [discord]"),
        ("[[pool]]", "[pool]: an array; must be a section [pool]"),
        ("[discrod]", "[discrod]: unknown section; did you mean discord?"),
        ('["a b"]', '["a b"]: unknown section; known: '),
        ("[triage]\nquiet_hour = 1", "triage.quiet_hour: unknown key; did you mean quiet_hours?"),
        ("[triage]\ncap = 1", "triage.cap: unknown key; did you mean daily_cap?"),
        ("[triage]\ncooldown = 1", "triage.cooldown: unknown key; did you mean cooldown_secs?"),
        ("[metrics]\nxyz = 1", "metrics.xyz: unknown key; known: enabled"),
        ("[reactions.emojis]\nqueud = 'x'", "reactions.emojis.queud: unknown key; did you mean queued?"),
        (
            "[reactions.timing]\ndebounce_ms = 'x'",
            'reactions.timing.debounce_ms: "x"; must be a whole number, 0 or more',
        ),
        ("[reactions]\nemojis = 1", "reactions.emojis: 1; "),
        ("[reactions.mapping]\nx = 1", "reactions.mapping.x: 1; "),
        (
            "[triage]\ncooldown_secs = -1",
            "triage.cooldown_secs: -1; must be a whole number, 0 or more, at most 31536000",
        ),
        (
            "[triage]\ncooldown_secs = 31536001",
            "triage.cooldown_secs: 31536001; must be a whole number, 0 or more, at most 31536000",
        ),
        (
            "[triage]\ncooldown_secs = 1.0",
            "triage.cooldown_secs: 1.0; must be a whole number, 0 or more, at most 31536000",
        ),
        (
            "[triage]\ncooldown_secs = nan",
            "triage.cooldown_secs: nan; must be a whole number, 0 or more, at most 31536000",
        ),
        ('[triage]\ndaily_cap = "8"', 'triage.daily_cap: "8"; must be a whole number, 0 or more, at most 1000000'),
        ("[triage]\ndaily_cap = true", "triage.daily_cap: true; must be a whole number, 0 or more, at most 1000000"),
        ('[triage]\nquiet_action = "later"', 'triage.quiet_action: "later"; must be one of "drop", "defer"'),
        ('[triage]\nquiet_hours = "22-08"', 'triage.quiet_hours: "22-08"; HH:MM-HH:MM, such as 22:00-08:00'),
        (
            '[triage]\ntimezone = "Taipei"',
            'triage.timezone: "Taipei"; must be an IANA time zone, did you mean "Asia/Taipei"?',
        ),
        ('[triage]\ntimezone = ""', "triage.timezone: an empty string; must be an IANA time zone, such as"),
        ("[triage]\nenabled = 1", "triage.enabled: 1; must be true or false"),
        ("[triage]\nenabled = true", "triage.enabled: true; not in this version"),
        (
            '[outbound]\nhook_timeout_seconds = "1"',
            'outbound.hook_timeout_seconds: "1"; must be a number, more than 0, at most 600',
        ),
        ("[log]\nlevel = 2020-01-01", "log.level: a date or time without quotes; put it in quotes"),
        ('[http]\nlisten = "8710"', 'http.listen: "8710"; host:port'),
        ("[gateway]", "gateway.url: missing; must be a string"),
        ('[gateway]\nurl = "http://h"', 'gateway.url: "http://h"; '),
        ('[gateway]\nurl = "ws://h"\nplatform = "a b"', 'gateway.platform: "a b"; match pattern'),
        ('[gateway]\nurl = "ws://h"\nallowed_users = [5]', "gateway.allowed_users[0]: 5; must be a string, in quotes"),
        ('[gateway]\nurl = "ws://h"\nallowed_users = "U"', "gateway.allowed_users: "),
        (
            '[gateway]\nurl = "ws://h"\nmessage_processing_mode = "batched"',
            'gateway.message_processing_mode: "batched"; must be one of "per-message", "per-thread", "per-lane"',
        ),
        (
            '[gateway]\nurl = "ws://h"\nallow_all_users = true\ndm_policy = "allowlist"',
            'gateway.dm_policy: "allowlist"; contradicts allow_all_users = true; take one of the two out',
        ),
        ("[delivery]\nmax_bubbles = 0", "delivery.max_bubbles: 0; must be a whole number"),
        ("[delivery]\nmax_bubble = 3", "delivery.max_bubble: unknown key; did you mean max_bubbles?"),
        ('[delivery]\nparse_error_text = " "', "delivery.parse_error_text: an empty string; "),
        ('[delivery]\nreply_tool = "inject"', 'delivery.reply_tool: "inject"; "off" with mode = "text"'),
        ('[delivery]\nmode = "x"', 'delivery.mode: "x"; '),
        (
            '[agent.env]\nOPENAB_AGENT_MAX_BUBBLES = "9"',
            'agent.env.OPENAB_AGENT_MAX_BUBBLES: "9"; [delivery] max_bubbles is 4',
        ),
        ("[agent]\nargs = 5", "agent.args: 5; "),
    ],
)
def test_fault_is_told_with_its_place_what_was_found_and_what_is_meant(problems_of, text, line):
    problems = problems_of(text)
    assert len(problems) == 1
    assert problems[0].startswith(line)
    assert "\n" not in problems[0]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = Field(default=1, lt=5)


class Foreign(BaseModel):
    """A section as somebody else might write it."""

    model_config = ConfigDict(extra="forbid")

    names: list[str] = []
    numbers: set[int] = set()
    either: int | str = 0
    share: float = Field(default=0, le=1)
    maybe: Part | None = None
    parts: list[Part] = []
    by_name: dict[str, Part] = {}
    home: Path = Path()
    moment: datetime | None = None
    low: int = 0
    high: int = Field(default=9, ge=-5, json_schema_extra={})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError("low is above high; make it smaller")
        if self.low == self.high:
            raise ValueError("low is high")
        return self


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("names = 5", "foreign.names: 5; must be an array"),
        ("names = [5]", "foreign.names[0]: 5; must be a string, in quotes"),
        ("numbers = 'x'", 'foreign.numbers: "x"; must be an array'),
        ("either = []", "foreign.either: an array; must be a valid integer"),
        ("share = 2", "foreign.share: 2; must be a number, at most 1"),
        ("share = true", "foreign.share: true; must be a number, at most 1"),
        ("maybe = 5", "foreign.maybe: 5; must be a table"),
        ("maybe = {size = '1'}", 'foreign.maybe.size: "1"; must be a whole number, less than 5'),
        ("parts = [{siz = 1}]", "foreign.parts[0].siz: unknown key; did you mean size?"),
        ("by_name = {x = {size = 7}}", "foreign.by_name.x.size: 7; must be a whole number, less than 5"),
        ("by_name = {x = {siz = 7}}", "foreign.by_name.x.siz: unknown key; did you mean size?"),
        ("by_name = {x = 5}", "foreign.by_name.x: 5; must be a table"),
        ("home = 5", "foreign.home: 5; "),
        ("low = 10", "[foreign]: low is above high; make it smaller"),
        ("low = 9", "[foreign]: low is high; change one of them"),
        ("high = -6", "foreign.high: -6; must be a whole number, -5 or more"),
        ("moment = 2026-01-01", "foreign.moment: a date or time without quotes; put it in quotes"),
    ],
)
def test_fault_in_the_section_of_any_plugin_is_told_in_the_same_words(tmp_path, line, problem):
    path = tmp_path / "config.toml"
    path.write_text(f"[foreign]\n{line}")
    with pytest.raises(ConfigError) as caught:
        load(path, {}, {"foreign": Foreign})
    assert str(caught.value).startswith(problem)
    assert len(caught.value.problems) == 1


def test_unknown_key_hides_no_fault_of_the_whole_section(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("[foreign]\nlow = 10\nmaybe = {siz = 7, size = 7}")
    with pytest.raises(ConfigError) as caught:
        load(path, {}, {"foreign": Foreign})
    assert [problem.place for problem in caught.value.problems] == [
        "[foreign]",
        "foreign.maybe.siz",
        "foreign.maybe.size",
    ]


def test_section_of_any_plugin_may_hold_whatever_its_class_takes(tmp_path):
    path = tmp_path / "config.toml"
    lines = ["names = ['a']", "numbers = [1, 2]", "share = 1", "parts = [{}]", "home = '/x'", "either = 'x'"]
    path.write_text("\n".join(["[foreign]", *lines, "moment = '2026-01-01T00:00:00Z'"]))
    found = load(path, {}, {"foreign": Foreign}).of(Foreign)
    assert (found.numbers, found.home, found.parts) == ({1, 2}, Path("/x"), [Part()])


def test_faults_of_switched_off_triage_are_told(problems_of):
    assert len(problems_of('[triage]\nenabled = false\ntimezone = "x"\ndaily_cap = -1')) == 2


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("[delivery]\nmax_bubble = 3\n[agent.env]\nOPENAB_AGENT_SEQUENTIAL_BUBBLES = '1'", ["max_bubble", "env"]),
        (
            "[delivery]\npace = 'x'\n[agent]\narg = 1\nenv = { OPENAB_AGENT_TURN_ENVELOPE = 'x' }",
            ["pace", "arg", "env"],
        ),
        ("[triage]\nquiet_hour = 'x'\nenabled = true", ["quiet_hour", "enabled"]),
        ("[triage]\ntimezone = 5\nenabled = true", ["timezone", "enabled"]),
        (
            "[gateway]\nurl = 'ws://h'\ntokn = 'x'\nallow_all_users = true\ndm_policy = 'allowlist'",
            ["tokn", "dm_policy"],
        ),
    ],
)
def test_fault_of_a_key_hides_none_of_several_keys_together(problems_of, text, places):
    problems = problems_of(text)
    assert len(problems) == len(places)
    assert all(place in problem.partition(": ")[0] for place, problem in zip(places, problems, strict=True))


@pytest.mark.parametrize("line", ["mode = 'x'", "mode = '${ABSENT}'", "max_bubbles = 0", "schema = 5"])
def test_mode_that_cannot_be_read_contradicts_nothing(problems_of, line):
    assert len(problems_of(f"[delivery]\n{line}\n[agent.env]\nOPENAB_AGENT_MAX_BUBBLES = '99'")) == 1


def test_value_is_shown_on_one_line_and_cut(problems_of):
    (problem,) = problems_of(f'[log]\nlevel = "a\\n\\u001b{"b" * 200}"')
    assert problem.startswith(r'log.level: "a\n\x1bbbb')
    assert len(problem) < 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[agent\n", "no TOML: Expected ']' at the end of a table declaration (at line 1, column 7)"),
        (b"[agent]\nargs = [\n", "no TOML: "),
        (b"[agent]\ncommand = '\xff'", "byte 19 is not UTF-8; save it as UTF-8"),
    ],
)
def test_file_that_is_no_toml_is_told_with_the_place(tmp_path, text, words):
    path = tmp_path / "config.toml"
    path.write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        load(path, {}, {})
    assert str(caught.value).startswith(f"{path}: {words}")


def test_mark_of_byte_order_is_no_fault(tmp_path):
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbf[log]\nlevel = 'DEBUG'")
    assert load(path, {}, {}).of(LogSettings).level == "debug"


def test_file_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    for path, reason in ((tmp_path / "absent.toml", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(ConfigError, match=reason) as caught:
            load(path, {}, {})
        assert str(path) in str(caught.value)


def test_demo_needs_no_file(tmp_path):
    assert load(tmp_path / "absent.toml", {}, {}, demo=True).of(DeliverySettings).mode == "text"


def test_plugins_section_is_read_before_the_rest_whatever_that_holds(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[plugins]\ndisabled = ["a"]\nstrict = true\n[nobody]\nx = 1')
    assert glance(path).plugins() == PluginsSettings(disabled=("a",), strict=True)


@pytest.mark.parametrize("text", ["[plugins]\nstrict = 5", "[plugins", "plugins = 3", ""])
def test_plugins_section_that_cannot_be_read_is_the_default_for_now(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert glance(path).plugins() == PluginsSettings() == glance(tmp_path / "absent").plugins()


@pytest.mark.parametrize("token", ["", "  "])
def test_required_secret_that_is_blank_is_told_with_the_variable_to_set(tmp_path, token):
    class Chat(ChannelSection):
        bot_token: SecretStr

    path = tmp_path / "config.toml"
    path.write_text('[chat]\nbot_token = "${TOKEN}"')
    with pytest.raises(ConfigError) as caught:
        load(path, {"TOKEN": token}, {"chat": Chat})
    assert str(caught.value) == "chat.bot_token: empty; set CHAT_BOT_TOKEN or remove [chat]"


def test_blank_id_is_dropped_and_told(load_text):
    config = load_text('[gateway]\nurl = "ws://h"\nallowed_users = ["U", ""]')
    assert config.channels["gateway"].policy().access.allow_from == {"U"}
    assert config.warnings == (("access.blank_ignored", {"section": "gateway", "key": "allowed_users"}),)
