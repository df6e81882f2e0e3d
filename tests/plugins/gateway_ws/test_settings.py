from __future__ import annotations

import pytest
from pydantic import ValidationError

from openab_gateway_ws.settings import GatewaySettings

CANARY = "s3cret-canary"


def make(**keys: object) -> GatewaySettings:
    return GatewaySettings.model_validate({"url": "ws://gateway:8080/ws"} | keys)


def test_only_the_address_must_be_written() -> None:
    settings = make()
    assert (settings.platform, settings.token, settings.hello, settings.gateway_ack_timeout_secs) == (
        "telegram",
        None,
        "auto",
        12,
    )
    assert settings.policy().access.allow_bots == "off"
    assert settings.address() == settings.shown_address() == "ws://gateway:8080/ws"
    assert settings.headers() == {}


@pytest.mark.parametrize(
    ("keys", "address"),
    [
        ({}, "ws://gateway:8080/ws?token=a%20b%26%C3%B6"),
        ({"url": "wss://gateway/ws?v=1#top"}, "wss://gateway/ws?v=1&token=a%20b%26%C3%B6"),
        ({"token_query": False}, "ws://gateway:8080/ws"),
        ({"gateway_url": "ws://127.0.0.1:1/"}, "ws://127.0.0.1:1/?token=a%20b%26%C3%B6"),
    ],
)
def test_the_token_goes_into_the_query_and_the_header(keys: dict[str, object], address: str) -> None:
    settings = make(token=" a b&ö\n", **keys)
    assert settings.address() == address
    assert settings.headers() == {"Authorization": "Bearer a b&ö"}


def test_the_address_for_logs_has_no_query_and_no_user() -> None:
    settings = make(url=f"wss://user:{CANARY}@gateway:1/ws?token={CANARY}", token=CANARY)
    assert settings.shown_address() == "wss://gateway:1/ws"
    assert CANARY not in repr(make(token=CANARY))


def test_a_blank_token_is_none() -> None:
    assert make(token="  ").token is None


@pytest.mark.parametrize("url", ["http://gateway/", "gateway:8080", "ws://", "ws://h:port/", "ws://h:0/", "ws://[::1"])
@pytest.mark.parametrize("key", ["url", "gateway_url"])
def test_an_address_that_cannot_be_dialled_is_refused(key: str, url: str) -> None:
    with pytest.raises(ValidationError, match=r"such as ws|begins with"):
        make(**{key: url})


@pytest.mark.parametrize("token", [f"{CANARY}\nX: y", f"{CANARY}\x00"])
def test_a_token_that_cannot_be_sent_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ValidationError, match="one line of printable text") as raised:
        make(token=token)
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(("written", "policy"), [(True, "all"), (False, "off")])
def test_bots_are_heard_or_not(written: bool, policy: str) -> None:
    assert make(allow_bot_messages=written).policy().access.allow_bots == policy


@pytest.mark.parametrize("written", ["mentions", "all", "true", 1, None])
def test_there_is_nothing_between_hearing_bots_and_not(written: object) -> None:
    with pytest.raises(ValidationError, match="true or false"):
        make(allow_bot_messages=written)


def test_the_schema_says_that_bots_are_heard_or_not() -> None:
    schema = GatewaySettings.model_json_schema()["properties"]["allow_bot_messages"]
    assert (schema["type"], schema["default"]) == ("boolean", False)


@pytest.mark.parametrize(("written", "name"), [("@my_bot", "my_bot"), (" my_bot ", "my_bot"), ("", None), ("@", None)])
def test_the_bots_name_is_read_without_the_at_sign(written: str, name: str | None) -> None:
    assert make(bot_username=written).bot_username == name


def test_a_misspelt_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="allowd_users"):
        make(allowd_users=[])
