"""Masks secrets in text that is about to be printed or logged. Pure, and linear in the length of the text.

Two nets: the secrets this service was configured with, in every spelling they take on their way into a text;
and the shapes of well-known credentials, for those it was never told about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MASK = "***"
SHORTEST_SECRET_CHARS = 6
"""Anything shorter would be found, and masked, inside ordinary words."""

# What stands in group 1 stays. Repeats are bounded, or cannot run past the next start: no input is quadratic.
SHAPES = (
    ("bearer", re.compile(r"(\bbearer\s{1,9})[\w.~+/=-]{6,}", re.IGNORECASE)),
    (
        "=",
        re.compile(r"([?&][\w.-]{0,40}?(?:token|secret|password|key|ticket)=)[^\s&#\\\"'<>]+", re.IGNORECASE),
    ),
    ("@", re.compile(r"(://[^/\s:@]*:)[^/\s@\\\"']+(?=@)")),
    ("xox", re.compile(r"()(?<![\w-])xox[a-z]-[\w-]{8,}")),
    ("xapp-", re.compile(r"()(?<![\w-])xapp-[\w-]{8,}")),
    (".", re.compile(r"()(?<![\w-])[MNO][\w-]{22,29}\.[\w-]{5,7}\.[\w-]{25,45}")),
)
"""Shapes of credentials, each behind a part that it cannot do without: `Bearer …`, `?token=…`,
`scheme://user:password@`, the tokens of Slack, that of a Discord bot."""

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
"""What could move a terminal's cursor, hide text or turn it round."""


class Redactor:
    """Callable: text in, text without secrets out.

    Args:
        secrets: Values to mask wherever they stand, also quoted for a URL or escaped for JSON. Those of fewer
            than six characters are left out. A secret of several lines is masked line by line too.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets for spelling in _spell(secret)}
        self._spellings = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))
        self._known = re.compile("|".join(map(re.escape, self._spellings)))

    def __call__(self, text: str) -> str:
        if any(spelling in text for spelling in self._spellings):
            text = self._known.sub(MASK, text)
        folded = text.lower()
        for part, shape in SHAPES:
            if part in folded:
                text = shape.sub(rf"\g<1>{MASK}", text)
        return text


def printable(text: str, limit_chars: int) -> str:
    """Escape control characters and cut to `limit_chars`; a cut ends in `…`.

    Redact first: half a secret is found by nobody.
    """
    shown = CONTROL.sub(_escape, text[: limit_chars + 1])
    return shown if len(shown) <= limit_chars else shown[: limit_chars - 1] + "…"


def _spell(secret: str) -> Iterator[str]:
    for part in {secret, secret.strip(), *map(str.strip, secret.splitlines())}:
        if len(part) >= SHORTEST_SECRET_CHARS:
            yield part
            yield quote(part, safe="", errors="replace")
            yield quote_plus(part, errors="replace")
            yield json.dumps(part)[1:-1]
            yield json.dumps(part, ensure_ascii=False)[1:-1]


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
