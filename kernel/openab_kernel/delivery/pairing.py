"""Which agent fits which mode, and what a person then sees (delivery.md 8)."""

from __future__ import annotations

from openab_kernel.delivery.settings import DeliverySettings

_PLAIN = {"fallback_text": "one message", "error_message": "the apology", "silent": "nothing"}


def describe_pairing(settings: DeliverySettings) -> str:
    """The row of the pairing table that is in force, as a sentence."""
    told = f"the agent is told so, and of at most {settings.max_bubbles} bubbles"
    match settings.mode:
        case "text":
            return "text: the answer is one message, as it was written; the agent is told to write no envelope"
        case "structured":
            plain = _PLAIN[settings.on_parse_error]
            return f"structured: bubbles at the end of the turn; plain text is {plain}; {told}"
        case _:
            return f"sequential: each bubble as it comes; an answer without one is read as a whole; {told}"


def mispairing(settings: DeliverySettings, persona: str) -> str | None:
    """The setting to change if the agent's own instructions, `persona`, make it write envelopes that nobody reads."""
    if settings.mode == "text" and settings.schema_id in persona:
        return f'take {settings.schema_id} out of AGENTS.md, or set [delivery] mode = "structured"'
    return None
