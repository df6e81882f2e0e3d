"""The pages about delivery: what they show and claim is put to the code that reads an agent's answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import get_args

import pytest
import structlog
from click.testing import CliRunner

from openab_kernel.agent import environment
from openab_kernel.agent.acp.mapping import UpdateMapper
from openab_kernel.agent.environment import ToldMode
from openab_kernel.cli import main as command_line
from openab_kernel.delivery.bubbles import DroppedReason, plan_bubbles
from openab_kernel.delivery.envelope import EnvelopeRules, RejectionKind, find_envelopes
from openab_kernel.delivery.settings import DeliveryMode, DeliverySettings, ParseErrorPolicy
from openab_kernel.facts.agent_update import BubbleMessage
from openab_kernel.testing.envelopes import bubble_notification, envelope
from tests.docs.pages import DOCS, code_blocks, generator, in_code, parse, rows_below

WRITING = DOCS / "writing-envelopes.md"
GATE = envelope("gate B12")
SLIPS = {
    '`"next": "stop"`': [GATE.replace('{"type": "stop"}', '"stop"')],
    '`"messages": [': ['{"schema": "openab.turn.v1", "messages": ["on it", "gate B12"]}'],
    "without `id`": [
        GATE.replace('"id": "bubble_1", ', ""),
        GATE.replace('"schema": "openab.turn.v1", ', ""),
        '[{"id": "b1", "text": "gate B12"}]',
    ],
    "a comma": [GATE.replace("}]", "},]"), GATE.replace("gate B12", "gate\nB12")],
    "quotes": [
        GATE.replace('"', "'"),
        GATE.replace('"', "”"),
        GATE.replace('"schema"', "schema"),
        GATE.replace("schema", "Schema"),
        GATE.replace("{", "{ // reply\n", 1),
        "schema: openab.turn.v1\nmessages:\n  - id: b1\n    text: gate B12",
    ],
    "of your own": [
        GATE.replace('"messages"', '"mood": "good", "messages"'),
        GATE.replace('"text"', '"mood": "good", "text"'),
    ],
}
ANSWERS = {"plain text": "gate B12", "an envelope that cannot be used": f"gate B12\n{GATE[:-30]}", "empty": " "}
SHOWN = {"the text": "gate B12", "the words": "gate B12", "the apology": "apology", "nothing": ""}


@pytest.fixture(autouse=True)
def _keep_the_logs_of_others() -> Iterator[None]:
    """The command silences those of its process."""
    old = structlog.get_config()
    yield
    structlog.configure(**old)


# ── writing-envelopes.md ──────────────────────────────────────────────────────────────────────────


def examples() -> list[tuple[str, str]]:
    """Each envelope of the page, with the block of text below it."""
    blocks = [token for token in parse(WRITING) if token.type == "fence"]
    return [(block.content, below.content) for block, below in pairwise(blocks) if block.info == "json envelope"]


@pytest.mark.parametrize(("written", "told"), examples())
def test_the_command_tells_of_an_example_what_the_page_says(written: str, told: str) -> None:
    result = CliRunner().invoke(command_line, ["envelope", "check", "-"], input=written)
    assert result.stdout == told
    assert result.exit_code == int("rejected: " in told)


def test_every_block_of_json_on_the_page_is_read_by_a_test() -> None:
    kinds = [token.info for token in parse(WRITING) if token.info.startswith("json")]
    assert kinds.count("json envelope") == len(examples()) == 10
    assert set(kinds) == {"json envelope", "json openab_message"}


def test_notification_on_the_page_is_a_bubble() -> None:
    (written,) = map(json.loads, code_blocks(WRITING, "json openab_message"))
    assert written == bubble_notification("s1", "on it", "bubble_1")
    assert UpdateMapper().map(written["params"]["update"]) == BubbleMessage("bubble_1", "on it")


@pytest.mark.parametrize("row", rows_below("writing-envelopes.md", "Common mistakes")[1:], ids=lambda row: row[0][:30])
def test_slip_is_judged_and_mended_as_the_page_says(row: list[str]) -> None:
    slip, kind, mended = row
    (samples,) = [samples for words, samples in SLIPS.items() if words in slip]
    for sample in samples:
        found = find_envelopes(sample, sample, EnvelopeRules())
        assert [f"`{rejection.kind}`" for rejection in found.rejections] == [kind], sample
        repaired = find_envelopes(sample, sample, EnvelopeRules(repair=True))
        assert ("sent" if repaired.envelopes else "not sent") == mended, sample


@pytest.mark.parametrize("mode", get_args(DeliveryMode))
def test_variables_are_told_as_on_the_page(mode: DeliveryMode) -> None:
    head, *rows = rows_below("writing-envelopes.md", "Which is wanted")
    told = {in_code(row[0])[0]: row[head.index(f"`{mode}`")] for row in rows}
    variables = ToldMode(mode, "openab.turn.v1", 4).variables()
    assert told.keys() == variables.keys()
    assert in_code(told[environment.SEQUENTIAL]) == [variables[environment.SEQUENTIAL]]
    assert told[environment.ENVELOPE].startswith("blank") is (variables[environment.ENVELOPE] == "")


# ── delivery-modes.md ─────────────────────────────────────────────────────────────────────────────


def test_every_mode_and_every_key_is_on_the_page() -> None:
    chosen = [in_code(row[0])[0] for row in rows_below("delivery-modes.md", "Which one")[1:]]
    assert chosen == list(get_args(DeliveryMode))
    told = [row[0] for row in rows_below("delivery-modes.md", "The settings") if re.fullmatch("`[a-z_]+`", row[0])]
    assert told == [f"`{field.alias or name}`" for name, field in DeliverySettings.model_fields.items()]


@pytest.mark.parametrize("policy", get_args(ParseErrorPolicy))
@pytest.mark.parametrize("answer", ANSWERS)
def test_answer_without_an_envelope_is_shown_as_the_page_says(answer: str, policy: ParseErrorPolicy) -> None:
    rows = {row[0]: row for row in rows_below("delivery-modes.md", "The settings")}
    (column,) = [number for number, head in enumerate(rows["the answer"]) if f"`{policy}`" in head]
    told = rows[answer][column]
    found = find_envelopes(ANSWERS[answer], ANSWERS[answer], EnvelopeRules())
    plan = plan_bubbles(found, (), DeliverySettings(mode="structured", on_parse_error=policy))
    (shown,) = [shown for words, shown in SHOWN.items() if told.startswith(words)]
    assert (plan.text or ("apology" if plan.has_apology else "")) == shown


def test_every_kind_of_rejection_is_explained() -> None:
    rows = rows_below("delivery-modes.md", "Why an envelope is rejected")[1:]
    assert [kind for row in rows for kind in in_code(row[0])][-1] == "not_structured"
    assert {kind for row in rows for kind in in_code(row[0])} == {*get_args(RejectionKind), "not_structured"}


def test_events_on_the_page_exist_and_every_reason_is_explained() -> None:
    rows = {in_code(row[0])[0]: row for row in rows_below("delivery-modes.md", "What is logged")[1:]}
    assert rows.keys() <= generator().find_events().keys()
    assert {*get_args(DroppedReason), "too_long"} <= set(in_code(rows["text.dropped"][1]))
