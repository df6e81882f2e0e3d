"""What the scripted agent does in each scenario, and what a person should then see (delivery.md 12, row 35)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from openab_kernel.delivery.lines import FAILURE_LINES
from openab_kernel.delivery.settings import APOLOGY

QUESTION = "When does my flight leave?"
"""What the person writes, in every scenario."""


@dataclass(frozen=True, slots=True)
class Say:
    """A piece of the agent's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Bubble:
    """A deliberate message, `openab_message`."""

    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    """The agent works and says nothing."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fail:
    """The prompt is answered with an error."""


Step = Say | Bubble | Pause | Fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`delivery` is the section of the configuration file; `texts` are the messages that should arrive, in order."""

    name: str
    line: str
    delivery: Mapping[str, str | int]
    steps: tuple[Step, ...]
    texts: tuple[str, ...]
    outcome: Literal["done", "silent", "failed"] = field(default="done")


def envelope(*texts: str, next_type: str = "stop") -> str:
    """The text of a turn that is one envelope (delivery.md 2.1)."""
    messages = [{"id": f"bubble_{number}", "text": text} for number, text in enumerate(texts, 1)]
    turn = {"schema": "openab.turn.v1", "messages": messages, "next": {"type": next_type}}
    return json.dumps(turn, ensure_ascii=False, separators=(",", ":"))


STRUCTURED = {"mode": "structured"}
SEQUENTIAL = {"mode": "sequential"}

THREE = ("on it", "your flight moved to 8pm", "gate B12, have a good trip")
LINES = "your flight moved\nfrom 7pm to 8pm\ngate B12"
PROSE = 'Your flight leaves at 8pm. The airline sent {"gate": "B12"}, and that is all I know.'
APOLOGETIC = "sorry, one sec"
CUT_OFF = envelope(*THREE).partition(" moved")[0]
TOO_LONG = "8pm " * 300 + "!"
PARAGRAPHS = ("Your flight leaves at 8pm,", " from gate B12.\n\n", "Nothing else has changed.")

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="envelope",
            line="one envelope of three bubbles: three messages, 400 ms apart",
            delivery=STRUCTURED,
            steps=(Say(envelope(*THREE)),),
            texts=THREE,
        ),
        Scenario(
            name="multiline",
            line="one bubble of three lines: one message, since a line feed is no boundary",
            delivery=STRUCTURED,
            steps=(Say(envelope(LINES)),),
            texts=(LINES,),
        ),
        Scenario(
            name="silent",
            line="the agent chooses silence: nothing",
            delivery=STRUCTURED,
            steps=(Say(envelope(next_type="silent")),),
            texts=(),
            outcome="silent",
        ),
        Scenario(
            name="prose",
            line="plain text where an envelope was expected: one message, word for word",
            delivery=STRUCTURED,
            steps=(Say(PROSE),),
            texts=(PROSE,),
        ),
        Scenario(
            name="broken",
            line="a few words, then an envelope that breaks off: the words, and no machine text",
            delivery=STRUCTURED,
            steps=(Say(f"{APOLOGETIC}\n{CUT_OFF}"),),
            texts=(APOLOGETIC,),
        ),
        Scenario(
            name="toolong",
            line="a bubble of 1201 characters where 1200 are allowed: the apology, and nothing cut short",
            delivery=STRUCTURED,
            steps=(Say(envelope(TOO_LONG)),),
            texts=(APOLOGY,),
        ),
        Scenario(
            name="seqslow",
            line="a bubble, 2 s of work, a bubble, 2 s, a bubble: each arrives while the agent works on",
            delivery={**SEQUENTIAL, "bubble_delay_ms": 0},
            steps=(Bubble(THREE[0]), Pause(2), Bubble(THREE[1]), Pause(2), Bubble(THREE[2])),
            texts=THREE,
        ),
        Scenario(
            name="seqhalf",
            line="two bubbles, then the agent fails: they stay, and one line tells of the failure",
            delivery=SEQUENTIAL,
            steps=(Bubble(THREE[0]), Bubble(THREE[1]), Fail()),
            texts=(*THREE[:2], FAILURE_LINES["agent"]),
            outcome="failed",
        ),
        Scenario(
            name="sequential",
            line="three bubbles at once, then a text: the bubbles 400 ms apart, without the text",
            delivery=SEQUENTIAL,
            steps=(*map(Bubble, THREE), Say("I told you about your flight.")),
            texts=THREE,
        ),
        Scenario(
            name="text",
            line="plain text in pieces, with a blank line: one message, as it was written",
            delivery={"mode": "text"},
            steps=tuple(map(Say, PARAGRAPHS)),
            texts=("".join(PARAGRAPHS),),
        ),
    )
}
