"""How much work a search may do (delivery.md 3.4): counted, so that hostile text costs no more than honest text."""

from __future__ import annotations

from dataclasses import dataclass

# Brackets inside brackets. JSON's own reader recurses, and each Python allows it another depth.
MAX_NESTING = 64

# Starts at which no value could be read; all starts at which one was tried; and brackets in all of these values.
MAX_FAILED_READS = 256
MAX_READS = 5_000
MAX_BRACKETS = 20_000

# Envelopes that are judged. What comes after them is not looked at.
MAX_ENVELOPES = 1_000

# What the tolerant reader does in one search, for whole objects and for cut ones.
MAX_TOLERANT_READS = 64
MAX_TOKENS = 20_000
MAX_TOKEN_CHARS = 8 * 1024 * 1024

# Where a cut envelope is looked for: so many characters at the end, and so many starts there.
TAIL_CHARS = 65_536
MAX_CUT_STARTS = 64

# The longest number that Python turns into an integer by default.
MAX_DIGITS = 4300


class Exhausted(Exception):
    """A bound of the search is reached."""


@dataclass(slots=True)
class Budget:
    """What one search has used so far. Owned by that search.

    Each `spend` raises `Exhausted` once its bound is reached.
    """

    reads: int = 0
    failed_reads: int = 0
    brackets: int = 0
    envelopes: int = 0
    tolerant_reads: int = 0
    tokens: int = 0
    token_chars: int = 0

    def spend_read(self) -> None:
        self.reads += 1
        _check(self.reads, MAX_READS)

    def spend_failed_read(self) -> None:
        self.failed_reads += 1
        _check(self.failed_reads, MAX_FAILED_READS)

    def spend_bracket(self) -> None:
        self.brackets += 1
        _check(self.brackets, MAX_BRACKETS)

    def spend_envelope(self) -> None:
        self.envelopes += 1
        _check(self.envelopes, MAX_ENVELOPES)

    def spend_tolerant_read(self) -> None:
        self.tolerant_reads += 1
        _check(self.tolerant_reads, MAX_TOLERANT_READS)

    def spend_token(self, chars: int) -> None:
        self.tokens += 1
        self.token_chars += chars
        if self.tokens > MAX_TOKENS or self.token_chars > MAX_TOKEN_CHARS:
            raise Exhausted


def _check(used: int, bound: int) -> None:
    if used > bound:
        raise Exhausted
