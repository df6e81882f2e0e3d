"""`envelope check`: what a person would see of an agent's output, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from openab_kernel.cli.options import exit_on_error, lines_for_terminal, silence_logs
from openab_kernel.delivery.bubbles import BubblePlan, plan_bubbles
from openab_kernel.delivery.directives import take_header
from openab_kernel.delivery.envelope import EnvelopeRules, find_envelopes
from openab_kernel.delivery.settings import DeliverySettings
from openab_kernel.delivery.text import TurnText

MAX_BYTES = 5 * 1024 * 1024


@click.group()
def envelope() -> None:
    """Look at envelopes."""


@envelope.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-c", "--config", "path", type=click.Path(path_type=Path), help="Take [delivery] from this file.")
@exit_on_error()
def check(file: Path, path: Path | None) -> None:
    """Read FILE, all text of one turn ("-": standard input), and say what a person would see of it and why.

    Without a configuration: in structured mode, by the default settings. Status 1 if something was rejected, 2 if FILE
    cannot be used.
    """
    silence_logs()
    settings = _settings(path)
    text = TurnText()
    text.feed(read_answer(file))
    header = take_header(text.buffer, text.answer)
    rules = EnvelopeRules(settings.schema_id, settings.max_bubbles, settings.max_bubble_chars, repair=settings.repair)
    found = find_envelopes(header.buffer, header.answer, rules)
    plan = plan_bubbles(found, (), settings, is_fall_through=settings.mode == "sequential")
    if settings.mode == "text":
        click.echo("mode is text: a person sees this text as it is. In structured mode:")
    for line in describe(plan, settings.parse_error_text):
        click.echo(line)
    if header.reply_to is not None:
        click.echo(f"header: a reply to {header.reply_to}")
    sys.exit(1 if plan.rejections or plan.is_unstructured or plan.is_guarded else 0)


def describe(plan: BubblePlan, apology: str) -> Iterator[str]:
    """What is shown, then what was found, a line each."""
    shown = [bubble.text for bubble in plan.bubbles] or ([plan.text] if plan.text else [])
    if plan.has_apology:
        shown = [apology]
    for number, text in enumerate(shown, 1):
        first, *rest = lines_for_terminal(text)
        yield f"message {number} | {first}"
        yield from (f"{'':9} | {line}" for line in rest)
    if not shown:
        yield "nothing is shown"
    yield from _findings(plan)


def _findings(plan: BubblePlan) -> Iterator[str]:
    if plan.is_silent:
        yield f"silent: the agent chose to say nothing; bubbles that came with it: {plan.silenced_bubbles}"
    for rejection in plan.rejections:
        where = "" if rejection.index is None else f", bubble {rejection.index + 1}"
        number = "" if rejection.number is None else f", counted {rejection.number}"
        yield f"rejected: {rejection.kind}{where}{number}"
    if plan.is_unstructured:
        yield "rejected: not_structured, and [delivery] on_parse_error decides about plain text too"
    if plan.joined > 1:
        yield f"joined: {plan.joined} envelopes"
    if plan.fixes:
        yield f"repaired: {', '.join(plan.fixes)}"
    for step in plan.steps:
        yield f"next: {step.type}{', recorded and not executed' if step.type == 'tool' else ''}"
    if plan.is_guarded:
        yield "guarded: what was left still looked like an envelope"
    elif plan.dropped_chars:
        yield f"left out: {plan.dropped_chars} characters of text ({plan.dropped_reason})"


def _settings(path: Path | None) -> DeliverySettings:
    """`[delivery]` of the file as `serve` would read it; without one the defaults, in structured mode."""
    from openab_kernel.app import set_up  # much to import, and only a file needs it
    from openab_kernel.config import read_document

    if path is None:
        return DeliverySettings(mode="structured")
    return set_up(read_document(path), os.environ).config.of(DeliverySettings)


def read_answer(file: Path) -> str:
    """The text of a file.

    Raises:
        click.UsageError: it cannot be read, is too long or no UTF-8.
    """
    if str(file) == "-" and sys.stdin is None:
        raise click.UsageError("standard input is closed: give a file, or a pipe")
    try:
        with click.open_file(str(file), "rb") as stream:
            data: bytes = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"{file}: {(error.strerror or 'cannot be read').lower()}; name another file") from error
    if len(data) > MAX_BYTES:
        raise click.UsageError(f"{file}: longer than the {MAX_BYTES} bytes that a turn may have")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file}: byte {error.start} is not UTF-8; save it as UTF-8") from error
