import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.redact import MASK, Redactor, printable

TOKEN = 'hunter22/"+=é'


@pytest.mark.parametrize(
    "spelling",
    [
        TOKEN,
        quote(TOKEN, safe=""),
        quote_plus(TOKEN),
        json.dumps(TOKEN)[1:-1],
        json.dumps(TOKEN, ensure_ascii=False)[1:-1],
    ],
)
def test_secret_is_masked_in_every_spelling(spelling):
    assert Redactor([TOKEN])(f"<{spelling}>") == f"<{MASK}>"


def test_longer_of_two_secrets_is_masked_whole():
    assert Redactor(["secret-1", "secret-1-and-more"])("secret-1-and-more, secret-1") == f"{MASK}, {MASK}"


def test_secret_of_several_lines_is_masked_line_by_line():
    redact = Redactor(["-----BEGIN KEY-----\nabcdefgh\nxyz\n"])
    assert redact("agent.stderr abcdefgh") == f"agent.stderr {MASK}"


@pytest.mark.parametrize("short", ["", " ", "a", "abcde", " abc  "])
def test_secret_that_would_be_found_in_ordinary_words_is_not_masked(short):
    assert Redactor([short])("abcde and a word") == "abcde and a word"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abc.def-123", f"Authorization: Bearer {MASK}"),
        ("b'bearer   abcdef=='", f"b'bearer   {MASK}'"),
        ("wss://h/ws?token=abc&x=1", f"wss://h/ws?token={MASK}&x=1"),
        ("https://h/?a=1&access_token=abc#top", f"https://h/?a=1&access_token={MASK}#top"),
        (r'{"url": "https://h/?API_KEY=abc\""}', rf'{{"url": "https://h/?API_KEY={MASK}\""}}'),
        ("postgresql://me:pass@db/x", f"postgresql://me:{MASK}@db/x"),
        ("slack says xoxb-12345-67890 and xapp-1-ABCDEF", f"slack says {MASK} and {MASK}"),
        (f"discord {'M' + 23 * 'x'}.abcdef.{38 * 'y'}!", f"discord {MASK}!"),
    ],
)
def test_shape_of_a_credential_is_masked_though_nobody_named_it(text, masked):
    assert Redactor()(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "a bearer of news",
        "http://127.0.0.1:8710/healthz",
        "http://[::1]:80/a@b",
        "the token=abc of a sentence",
        "user@example.org",
        "2026-11-30T22:23:22.031719Z",
        "agent:main:gateway:direct:42",
        "Mississippi.river.delta",
    ],
)
def test_ordinary_text_stays(text):
    assert Redactor(["hunter22"])(text) == text


@given(
    secrets=st.lists(st.text(min_size=6, max_size=40).filter(lambda text: "*" not in text), max_size=5),
    around=st.tuples(st.text(max_size=20), st.text(max_size=20)),
)
def test_no_secret_is_left_in_any_text(secrets, around):
    redact = Redactor(secrets)
    for secret in secrets:
        text = redact(f"{around[0]}{secret}{around[1]}")
        if len(secret.strip()) >= 6:
            assert secret not in text


@pytest.mark.parametrize("unit", ["M", "M" * 23 + ".", "bearer ", "bearer", " ", "?a", "://", "://a:", "xoxa-", "&"])
def test_hostile_text_of_a_megabyte_is_gone_through_once(unit):
    """Quadratic work would take hours here, not a wall-clock limit."""
    Redactor(["hunter22"])(unit * (1_000_000 // len(unit)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 🙂", "plain ünïcode 🙂"),
        ("a\x1b[1mb\r\n\tc\x00\x7f\x9b", r"a\x1b[1mb\r\n\tc\x00\x7f\x9b"),
        ("left\u202eright\u200b\u2028\ufeff", r"left\u202eright\u200b\u2028\ufeff"),
        ("half \udc80", r"half \udc80"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert printable(text, 100) == shown


@pytest.mark.parametrize(
    ("text", "limit_chars", "shown"),
    [("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…"), ("a\x1bbc", 6, "a\\x1b…"), ("", 6, ""), ("ab", 1, "…")],
)
def test_text_is_cut_to_the_limit_with_escapes_counted(text, limit_chars, shown):
    assert printable(text, limit_chars) == shown


@given(text=st.text(), limit_chars=st.integers(1, 50))
def test_printable_text_is_printable_and_no_longer_than_its_limit(text, limit_chars):
    shown = printable(text, limit_chars)
    assert len(shown) <= limit_chars
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
