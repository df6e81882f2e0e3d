"""What a search for envelopes found (delivery.md 2.1, 3.5). Values only: no string of a rejected envelope is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from openab_kernel.facts.turn import NextStep as NextStep
from openab_kernel.facts.turn import NextType as NextType

# Why an envelope is not sent.
RejectionKind = Literal[
    "malformed",
    "truncated",
    "schema_mismatch",
    "too_many_bubbles",
    "blank_bubble_id",
    "duplicate_bubble_id",
    "empty_bubble",
    "bubble_too_long",
    "empty_turn",
]

# What `repair` accepted that the schema does not (delivery.md 3.7).
Fix = Literal[
    "raw_control",
    "trailing_comma",
    "string_messages",
    "string_next",
    "missing_id",
    "missing_schema",
    "bare_array",
]


@dataclass(frozen=True, slots=True)
class EnvelopeRules:
    """What of `[delivery]` decides about an envelope. `max_bubble_chars` counts code points; 0 is no check."""

    schema_id: str = "openab.turn.v1"
    max_bubbles: int = 4
    max_bubble_chars: int = 1200
    repair: bool = False


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message that the agent wants seen as one. `text` is what is delivered, not blank (2.1.1)."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A valid envelope. `fixes`: what had to be repaired, each name once, in the order of `Fix`."""

    bubbles: tuple[Bubble, ...]
    next: NextStep
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """An envelope that is not sent, and why.

    `index` is that of the first bubble at fault, from 0. `number` is what was counted: bubbles, or characters.
    """

    kind: RejectionKind
    index: int | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that was found in the text of one turn.

    `envelopes` and `rejections` are each in order of position; repeats are still there. Neither is filled when
    `is_silent`: then `silenced_bubbles` counts the bubbles that came with the silence. `rest` is the prose with every
    piece of machine text cut out and outer white space removed, "" if nothing but debris is left; where nothing was
    recognised it is the prose, byte for byte.
    """

    envelopes: tuple[Envelope, ...]
    rejections: tuple[Rejection, ...]
    is_silent: bool
    silenced_bubbles: int
    rest: str

    @property
    def is_structured(self) -> bool:
        """Whether anything was recognised as an envelope."""
        return self.is_silent or bool(self.envelopes or self.rejections)
