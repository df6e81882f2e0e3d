"""Variables < the section < the platform's own section, and never more than was written."""

import pytest

from openab_kernel.facts.policy import AccessPolicy

URL = 'url = "ws://h"\n'


@pytest.fixture
def access_of(load_text):
    def find(text: str, environ: dict[str, str] | None = None) -> AccessPolicy:
        access: AccessPolicy = load_text(text, environ).channels["gateway"].policy().access
        return access

    return find


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"GATEWAY_ALLOW_ALL_USERS": "true"}, {"dm_policy": "open", "group_policy": "open"}),
        ({"GATEWAY_ALLOW_ALL_USERS": "0"}, {"dm_policy": "allowlist", "allow_from": set()}),
        ({"GATEWAY_ALLOWED_USERS": "1, 2"}, {"allow_from": {"1", "2"}}),
        ({"GATEWAY_ALLOWED_USERS": " "}, {"allow_from": set()}),
        ({"GATEWAY_ALLOWED_CHANNELS": "a,b"}, {"allowed_channels": {"a", "b"}}),
        ({"GATEWAY_ALLOW_ALL_CHANNELS": "FALSE"}, {"allowed_channels": set()}),
        ({"GATEWAY_ALLOW_BOT_MESSAGES": "1", "GATEWAY_TRUSTED_BOT_IDS": "b"}, {"allow_bots": "all"}),
    ],
)
def test_variable_fills_what_the_section_leaves_open(access_of, environ, expected):
    found = access_of(f"[gateway]\n{URL}", environ)
    assert {key: getattr(found, key) for key in expected} == expected


@pytest.mark.parametrize("written", ['allowed_users = ["1"]', "allow_all_users = false", 'dm_policy = "allowlist"'])
def test_variable_opens_nothing_that_the_section_speaks_of(access_of, written):
    found = access_of(f"[gateway]\n{URL}{written}", {"GATEWAY_ALLOW_ALL_USERS": "true"})
    assert (found.dm_policy, found.group_policy) == ("allowlist", "allowlist")


def test_variable_alone_makes_no_channel(load_text):
    assert load_text("", {"GATEWAY_ALLOW_ALL_USERS": "true"}).channels == {}


def test_variable_that_cannot_be_read_is_the_place_of_the_fault(problems_of):
    (problem,) = problems_of(f"[gateway]\n{URL}", {"GATEWAY_ALLOW_ALL_USERS": "perhaps"})
    assert problem == 'GATEWAY_ALLOW_ALL_USERS: "perhaps"; must be true or false'


def test_own_section_of_the_platform_overrules_the_gateway(access_of):
    found = access_of(
        f"""
        [gateway]
        {URL}platform = "Telegram"
        allow_all_users = true
        group_policy = "open"
        allow_bot_messages = true
        [telegram]
        allowed_users = ["7"]
        """
    )
    assert (found.dm_policy, found.allow_from) == ("allowlist", {"7"})
    assert (found.group_policy, found.group_allow_from) == ("allowlist", {"7"})
    assert found.allow_bots == "all"


def test_own_section_of_another_platform_changes_nothing(access_of):
    text = f'[gateway]\n{URL}platform = "telegram"\nallowed_users = ["1"]\n[line]\nallow_all_users = true'
    assert access_of(text).allow_from == {"1"}


def test_own_section_is_read_with_its_variables(load_text, problems_of):
    text = f'[gateway]\n{URL}[telegram]\nallowed_users = ["${{ME}}"]'
    assert load_text(text, {"ME": "7"}).channels["gateway"].policy().access.allow_from == {"7"}
    assert problems_of(text) == ["telegram.allowed_users[0]: ${ME} is not set; set ME, or write ${ME:-default}"]


def test_fault_of_the_own_section_is_placed_there(problems_of):
    problems = problems_of(f"[gateway]\n{URL}[telegram]\nallow_all_users = 3")
    assert problems == ["telegram.allow_all_users: 3; must be true or false"]


@pytest.mark.parametrize(
    ("platform", "line"),
    [
        ("telegram", "trusted_source_only = true"),
        ("teams", 'allowed_tenants = ["x"]'),
        ("teams", "allow_personal = false"),
        ("feishu", 'allowed_groups = ["x"]'),
        ("feishu", 'allow_user_messages = "mentions"'),
    ],
)
def test_key_that_would_narrow_and_cannot_be_followed_stops_the_start(problems_of, platform, line):
    text = f'[gateway]\n{URL}platform = "{platform}"\n[{platform}]\n{line}'
    (problem,) = problems_of(text)
    assert problem.startswith(f"{platform}.{line.partition(' ')[0]}: narrows who is heard")
    assert problems_of(text.replace(f'platform = "{platform}"', 'platform = "line"')) == []


def test_own_section_that_is_no_table_is_told(problems_of):
    assert problems_of(f"telegram = 1\n[gateway]\n{URL}") == ["[telegram]: a number; must be a section [telegram]"]
