"""Text mode: one message, as the agent wrote it (delivery.md 3.1, 7)."""

from __future__ import annotations

from dataclasses import dataclass

from openab_kernel.delivery.characters import fit, is_blank, join_halves, measure, trim
from openab_kernel.delivery.directives import take_header
from openab_kernel.delivery.envelope import EnvelopeRules, find_envelopes
from openab_kernel.delivery.splitter import split
from openab_kernel.delivery.tables import TableStyle, convert_tables
from openab_kernel.facts.outbound import TextLimit

# Of one turn this much is kept, in UTF-8. The rest is counted and thrown away.
MAX_TEXT_BYTES = 5 * 1024 * 1024


class TurnText:
    """The text of one turn as it arrives. Owned by the loop that reads the agent's updates.

    Surrogate halves that meet, in two chunks as well, are joined; one that stays alone becomes U+FFFD.
    """

    def __init__(self) -> None:
        self.dropped_chars = 0
        self._pieces: list[str] = []
        self._chars = 0
        self._room = MAX_TEXT_BYTES
        self._half = ""
        self._answer_start = 0

    def feed(self, chunk: str) -> None:
        """Append a chunk of the answer."""
        text = self._half + chunk
        self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        self._keep(join_halves(text.removesuffix(self._half)))

    def begin_answer(self) -> None:
        """Note that a new tool call was announced: what comes now is the answer, what came was narration."""
        self._answer_start = self._chars

    @property
    def buffer(self) -> str:
        """All text, in order of arrival."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0] + ("\ufffd" if self._half else "")

    @property
    def answer(self) -> str:
        """The text after the last newly announced tool call; may be blank where `buffer` is not."""
        return self.buffer[self._answer_start :]

    def _keep(self, text: str) -> None:
        size = measure(text, "bytes")
        if size > self._room:
            kept = text[: fit(text, 0, self._room, "bytes")]
            self.dropped_chars += len(text) - len(kept)
            text, size = kept, self._room
        self._room -= size
        self._chars += len(text)
        self._pieces.append(text)


@dataclass(frozen=True, slots=True)
class TextPlan:
    """What a turn in text mode sends: `parts`, none blank, in order, the first as a reply to `reply_to`.

    `is_empty`: there is nothing to say. `chars` counts the code points of the text before tables were
    converted and the text was cut. `delivery` and `unknown_directives` are for the log (`directives.Header`), and so is
    `is_envelope`: all of the text is an envelope, or was meant to be, and it is delivered as it is.
    """

    parts: tuple[str, ...]
    reply_to: str | None
    is_empty: bool
    chars: int
    delivery: str | None
    unknown_directives: int
    is_envelope: bool = False


def plan_text(
    text: TurnText,
    *,
    narration: bool,
    tool_lines: str | None,
    limit: TextLimit,
    tables: TableStyle,
    schema_id: str = "openab.turn.v1",
) -> TextPlan:
    """Plan the final messages of a turn.

    Text before the last newly announced tool call is left out unless `narration`, or unless there is no
    other. The tool lines stand above the text; without text they are not sent. Blank lines at the start of
    the text and white space at its end are removed; where limit and tables do not ask for it, nothing else is
    changed.

    Raises:
        ValueError: `limit.size` is under 10.
    """
    header = take_header(text.buffer, text.answer)
    chosen = header.buffer if narration or is_blank(header.answer) else header.answer
    body = trim(chosen)
    shown = convert_tables(body, tables)
    parts = split(f"{tool_lines}\n\n{shown}" if body and tool_lines else shown, limit)
    return TextPlan(
        parts=tuple(parts),
        reply_to=header.reply_to,
        is_empty=not parts,
        chars=len(body),
        delivery=header.delivery,
        unknown_directives=header.unknown,
        is_envelope=_is_envelope(body, schema_id),
    )


def _is_envelope(body: str, schema_id: str) -> bool:
    if "{" not in body:
        return False
    found = find_envelopes(body, body, EnvelopeRules(schema_id))
    return found.is_structured and not found.rest
