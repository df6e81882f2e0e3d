"""How long the search for envelopes takes on a megabyte of hostile text (delivery.md 3.4 and 12.25; the aim is 100 ms).

python benchmarks/envelope.py [--size 1000000] [--runs 3]
"""

from __future__ import annotations

import argparse
import time
from itertools import product

from openab_kernel.delivery.envelope import EnvelopeRules, find_envelopes, leaks

# What is repeated; and what comes after it, because most starts are not tried if no marker lies ahead.
HOSTILE = {
    "{": "{",
    "[": "[",
    '{"': '{"',
    '["': '["',
    "[{": "[{",
    '{"schema":': '{"schema":',
    "{'schema':": "{'schema':",
    '{"a":': '{"a":',
    "{/*": "{/*",
    "{//": "{//",
    "backslashes": "\\",
    "escaped quotes": '\\"',
    "white space": " ",
    "line feeds": "\n",
    "fences": "```\n",
    "</s>": "</s>",
    "digits": "7",
    "YAML lines": "- a: b\n",
    "YAML keys": "schema: openab.turn.v1\n",
    "YAML scraps": "schema: openab.turn.v1\nx\n",
    "values": '{"a":1}',
    "empty objects": "{}",
    "items": '["a",',
    "open quotes": '{"messages":["\\',
    "other quotes": "{\u201cmessages\u201d:[\u2018\\",
    "messages": '{"messages":[{"id":"1","text":"x"}]}',
    "silence": '{"schema":"openab.turn.v1","next":{"type":"silent"}}\n',
    "cut ones": '{"messages":[{"id":"b","text":"c"},',
    "no quotes": "{messages:[",
    "next": '{"next":',
    "tags": "<reply>",
}
MARKERS = {"no marker": "", "marker": ' "messages" '}
HEADS = {
    "": "",
    "in an array": "[{",
    "in an object": '{"a":',
    "in an envelope": '{"schema":"openab.turn.v1","messages":[{"id":"b","text":"',
    "in a tool": '{"schema":"openab.turn.v1","next":{"type":"tool","name":"n","arguments":[',
    "in a dict": "{'messages':['",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000, help="characters in each text")
    parser.add_argument("--runs", type=int, default=3, help="the fastest run of these counts")
    options = parser.parse_args()
    print(f"{'head':16}{'text':18}{'':12}{'search':>10}{'guard':>10}   milliseconds")
    worst = 0.0
    for (head, opening), (name, piece), (marker, word) in product(HEADS.items(), HOSTILE.items(), MARKERS.items()):
        text = opening + piece * (options.size // len(piece)) + word
        search_ms = measure(lambda text=text: find_envelopes(text, text, EnvelopeRules()), options.runs)
        guard_ms = measure(lambda text=text: leaks(text), options.runs)
        worst = max(worst, search_ms, guard_ms)
        print(f"{head:16}{name:18}{marker:12}{search_ms:10.1f}{guard_ms:10.1f}", flush=True)
    print(f"worst: {worst:.1f} ms")


def measure(run: object, runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        run()  # type: ignore[operator]  # a lambda
        best = min(best, time.perf_counter() - start)
    return best * 1000


if __name__ == "__main__":
    main()
