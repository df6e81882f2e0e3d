"""X-01: no secret of a file or of the environment is shown, and each is known to the redactor."""

import pytest

from openab_gateway_ws.settings import GatewaySettings
from openab_kernel.config.faults import looks_secret
from openab_kernel.redact import Redactor

CANARY = "canary-5f1c"

ALL_SECRETS = f"""
[gateway]
url = "wss://me:{CANARY}-url@h/ws"
token = "{CANARY}-token"
[agent]
inherit_env = ["INHERITED_KEY", "LANG", "ABSENT_TOKEN"]
[agent.env]
PROVIDER_API_KEY = "{CANARY}-provider"
MODEL = "large"
[http]
token = "${{CONSOLE}}"
[discord]
bot_token = "{CANARY}-discord"
[hooks.pre_seed]
endpoint_url = "${{PASSWORD_NOT_SET}}"
[[mcp.acp_servers]]
name = "${{X}}"
"""


def test_every_secret_is_known_to_the_redactor(load_text):
    environ = {"CONSOLE": f"{CANARY}-http", "INHERITED_KEY": f"{CANARY}-inherited", "LANG": "C.UTF-8"}
    config = load_text(ALL_SECRETS, environ)
    names = ("url", "token", "provider", "http", "inherited", "discord")
    assert config.secrets() == {f"{CANARY}-{name}" for name in names}
    assert CANARY not in Redactor(config.secrets())(" ".join(config.secrets()))


def test_shown_configuration_shows_no_token(load_text):
    config = load_text(f'[gateway]\nurl = "ws://h"\ntoken = "{CANARY}"')
    assert CANARY not in repr(config)
    token = config.of(GatewaySettings).token
    assert token is not None
    assert token.get_secret_value() == CANARY


@pytest.mark.parametrize(
    "text",
    [
        f'[gateway]\nurl = "ws://h"\ntoken = ["{CANARY}"]',
        f'[gateway]\nurl = "ws://h"\ntoken = {{ x = "{CANARY}" }}',
        f'[gateway]\nurl = "ws://h"\ntoken = "{CANARY}\\u0001"',
        f'[gateway]\nurl = "http://me:{CANARY}@h"',
        f'[gateway]\nurl = "http://h?token={CANARY}"',
        '[gateway]\nurl = "http://h?t=${THE_TOKEN}"',
        '[gateway]\nurl = "ws://h"\nmax_batch_tokens = "${THE_TOKEN}"',
        '[gateway]\nurl = "ws://h"\nallow_all_users = "${THE_TOKEN}"',
        '[log]\nlevel = "${THE_TOKEN}"',
        '[triage]\ntimezone = "${THE_TOKEN}"',
        '[delivery]\nmode = "${THE_TOKEN}"',
        f'[http]\ntokn = "{CANARY}"',
        f'[http]\nlisten = 5\ntoken = "{CANARY}"',
        f'[agent.env]\nX = ["{CANARY}"]',
        f'[agent]\npermission = 3\nenv = {{ A = "{CANARY}" }}',
        f'[store]\nurl = "sqlite://me:{CANARY}@h/x"',
        f'[discord]\nbot_token = "{CANARY}"\nbot_tokn = "{CANARY}"',
        f'bot_token = "{CANARY}"',
        f'[gateway]\ntoken = "{CANARY}',
        f'[gateway]\ntoken = "{CANARY}" x',
        f'token = "{CANARY}"\ntoken = "{CANARY}"',
    ],
)
def test_fault_shows_no_secret(problems_of, text):
    problems = problems_of(text, {"THE_TOKEN": CANARY})
    assert problems
    assert CANARY not in "\n".join(problems)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("bot_token", True),
        ("DISCORD_BOT_TOKEN", True),
        ("channel_secret", True),
        ("encoding_aes_key", True),
        ("APIKEY", True),
        ("PGPASSWORD", True),
        ("db-password", True),
        ("credentials", True),
        ("private_key_file", True),
        ("max_batch_tokens", False),
        ("keyboard", False),
        ("timezone", False),
        ("allowed_users", False),
    ],
)
def test_name_of_a_secret_is_known_by_its_words(name, secret):
    assert looks_secret(name) is secret


def test_text_that_only_looks_like_a_url_is_no_fault(load_text):
    assert load_text("[agent]\nargs = ['http://[broken']").secrets() == frozenset()
