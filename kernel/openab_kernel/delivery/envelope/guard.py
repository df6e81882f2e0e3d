"""The last look at a text before it is sent as prose (delivery.md 3.6): does it still hold an envelope?"""

from __future__ import annotations

import re

from openab_kernel.delivery.envelope.marks import GAP, HTML_QUOTE, QUOTES, STRAY_QUOTES

_ESCAPE = re.compile(r"\\++u00([2-7][0-9a-fA-F])")
_HTML_QUOTE = re.compile(HTML_QUOTE, re.IGNORECASE)
_SAME = {**dict.fromkeys(QUOTES + STRAY_QUOTES, '"'), "\\": "", ">": ""}

_SIGNS = [
    re.compile(pattern.replace(" ", GAP), re.IGNORECASE)
    for pattern in (
        r'schema "*+ : "*+openab\.turn\.',
        r'"messages"++ : \[ \{ "id"++ : (?:"++[^"]*+"++|[^,"]*+) , "text"',
        r'"next"++ : \{ "type"++ : "++(?:stop|wait|silent|tool)"',
    )
]


def leaks(text: str) -> bool:
    """Say whether `text` shows machine text, in whatever quotes, escaped or not."""
    seen = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text) if "\\u00" in text else text
    seen = _HTML_QUOTE.sub('"', seen) if "&" in text else seen
    for mark, meaning in _SAME.items():
        seen = seen.replace(mark, meaning)
    return any(sign.search(seen) for sign in _SIGNS)
