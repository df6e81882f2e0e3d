"""`envelope check`: what a person would see, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from openab_kernel.cli import main
from openab_kernel.cli.envelope import read_answer
from openab_kernel.delivery.settings import APOLOGY
from openab_kernel.testing.envelopes import envelope

Check = Callable[..., Result]
FIVE = envelope("1", "2", "3", "4", "5")


@pytest.fixture
def check(tmp_path: Path) -> Check:
    def run(text: str | bytes, config: str | None = None) -> Result:
        path = tmp_path / "answer.txt"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        options = []
        if config is not None:
            (tmp_path / "config.toml").write_text(config)
            options = ["-c", str(tmp_path / "config.toml")]
        return CliRunner().invoke(main, ["envelope", "check", str(path), *options])

    return run


@pytest.mark.parametrize(
    ("text", "status", "lines"),
    [
        (envelope("a\nb", "c"), 0, ["message 1 | a", "          | b", "message 2 | c", "next: stop"]),
        ("plain text", 0, ["message 1 | plain text"]),
        (FIVE, 1, [f"message 1 | {APOLOGY}", "rejected: too_many_bubbles, counted 5"]),
        (
            envelope("a", "\u200b"),
            1,
            [f"message 1 | {APOLOGY}", "rejected: empty_bubble, bubble 2"],
        ),
        ("sorry\n" + envelope("a")[:40], 1, ["message 1 | sorry", "rejected: truncated"]),
        (
            envelope("a", next_type="silent"),
            0,
            ["nothing is shown", "silent: the agent chose to say nothing; bubbles that came with it: 1"],
        ),
        (
            "hello\n" + envelope("a") + envelope("b"),
            0,
            [
                "message 1 | a",
                "message 2 | b",
                "joined: 2 envelopes",
                "next: stop",
                "next: stop",
                "left out: 5 characters of text (bubbles)",
            ],
        ),
        ("a\tb\x1b[2J\u2028c 👨\u200d💻", 0, [r"message 1 | a   b\x1b[2J\u2028c 👨" + "\u200d💻"]),
        ("[[reply_to:55]]\nplain", 0, ["message 1 | plain", "header: a reply to 55"]),
        (" \n", 1, [f"message 1 | {APOLOGY}", "rejected: not_structured, and [delivery] on_parse_error decides about"]),
    ],
)
def test_what_a_person_sees_is_printed_with_the_reason(check: Check, text: str, status: int, lines: list[str]) -> None:
    result = check(text)
    assert (result.exit_code, result.stderr) == (status, "")
    found = result.stdout.splitlines()
    assert len(found) == len(lines)
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=True))


def test_the_settings_of_a_file_hold(check: Check) -> None:
    agent = '[agent]\ncommand = "cat"\n'
    assert check(FIVE, f'{agent}[delivery]\nmode = "structured"\nmax_bubbles = 5').exit_code == 0
    broken = envelope("a").replace("]", ",]")
    repaired = check(broken, f'{agent}[delivery]\nmode = "structured"\nrepair = true')
    assert "repaired: trailing_comma" in repaired.stdout
    assert check(FIVE, f"{agent}[delivery]\nmax_bubbles = 0").exit_code == 2
    assert check(FIVE, agent).stdout.startswith("mode is text: a person sees this text as it is.")


def test_sequential_mode_shows_plain_text_whatever_the_policy(check: Check) -> None:
    config = '[agent]\ncommand = "cat"\n[delivery]\nmode = "{}"\non_parse_error = "error_message"'
    assert check("plain", config.format("sequential")).stdout == "message 1 | plain\n"
    assert check("", config.format("sequential")).stdout == "nothing is shown\n"
    rejected = check("plain", config.format("structured"))
    assert rejected.stdout.startswith(f"message 1 | {APOLOGY}\nrejected: not_structured")
    assert rejected.exit_code == 1


def test_a_file_that_cannot_be_used_is_named_with_the_reason(check: Check, tmp_path: Path) -> None:
    assert "byte 1 is not UTF-8" in check(b"a\xff").stderr
    assert "longer than" in check(b"a" * (5 * 1024 * 1024 + 1)).stderr
    absent = CliRunner().invoke(main, ["envelope", "check", str(tmp_path / "absent")])
    assert absent.exit_code == 2
    assert "absent" in absent.stderr


def test_closed_standard_input_is_a_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="standard input is closed"):
        read_answer(Path("-"))


def test_standard_input_is_read_too() -> None:
    result = CliRunner().invoke(main, ["envelope", "check", "-"], input=envelope("a"))
    assert result.stdout.startswith("message 1 | a\n")
