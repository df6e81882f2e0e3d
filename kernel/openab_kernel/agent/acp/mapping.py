"""What the parts of ACP mean to us (agent.md 3.2, 4.1, 5.1). PURE.

Lenient: agents are of many versions. A field nobody here knows is passed over; an update that lacks what its kind needs
is activity of an unknown kind, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from openab_kernel.agent.settings import Permission
from openab_kernel.facts.agent_update import (
    AgentUpdate,
    BubbleIgnored,
    BubbleMessage,
    ConfigOptions,
    Stopped,
    TextChunk,
    Thought,
    ToolActivity,
    UnknownUpdate,
)

Object = dict[str, Any]

REMEMBERED_TOOL_CALLS = 4096


class UpdateMapper:
    """Makes updates of what one prompt brings. Remembers the tool calls it has seen, the last 4,096 of them."""

    def __init__(self) -> None:
        self._tool_calls: dict[str, None] = {}
        self._by_kind: dict[str, Callable[[Object], AgentUpdate | None]] = {
            "agent_message_chunk": _text_chunk,
            "agent_thought_chunk": lambda update: Thought(),
            "tool_call": self._tool_activity,
            "tool_call_update": self._tool_activity,
            "openab_message": _bubble,
            "config_option_update": _config_options,
        }

    def map(self, update: object) -> AgentUpdate:
        """Give the update for `params.update` of a `session/update`, whatever it holds."""
        if not isinstance(update, dict):
            return UnknownUpdate("")
        kind = update.get("sessionUpdate")
        if not isinstance(kind, str):
            return UnknownUpdate("")
        read = self._by_kind.get(kind)
        return (read and read(update)) or UnknownUpdate(kind)

    def _tool_activity(self, update: Object) -> ToolActivity | None:
        call_id = update.get("toolCallId")
        if not isinstance(call_id, str):
            return None
        is_new = call_id not in self._tool_calls
        if is_new:
            self._remember(call_id)
        return ToolActivity(
            tool_call_id=call_id,
            title=_text_or_none(update.get("title")),
            status=_text_or_none(update.get("status")),
            tool_kind=_text_or_none(update.get("kind")),
            is_new=is_new,
        )

    def _remember(self, call_id: str) -> None:
        self._tool_calls[call_id] = None
        if len(self._tool_calls) > REMEMBERED_TOOL_CALLS:
            del self._tool_calls[next(iter(self._tool_calls))]


def _text_chunk(update: Object) -> TextChunk | None:
    content = update.get("content")
    if not isinstance(content, dict) or content.get("type", "text") != "text":
        return None
    text = content.get("text")
    return TextChunk(text) if isinstance(text, str) else None


def _bubble(update: Object) -> BubbleMessage | BubbleIgnored:
    content = update.get("content")
    text = content.get("text") if isinstance(content, dict) else None
    if not isinstance(text, str):
        return BubbleIgnored("no_text")
    return BubbleMessage(_text_or_none(update.get("id")) or "", text)


def _config_options(update: Object) -> ConfigOptions | None:
    options = update.get("configOptions")
    return ConfigOptions(objects_of(options)) if isinstance(options, list) else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def objects_of(values: object) -> tuple[Object, ...]:
    """The objects of a list, in order; nothing if it is no list."""
    return tuple(value for value in values if isinstance(value, dict)) if isinstance(values, list | tuple) else ()


REFUSING = ("reject_once", "reject_always")
WANTED_OPTIONS: dict[Permission, tuple[str, ...]] = {
    "reject": REFUSING,
    "allow_once": ("allow_once", *REFUSING),
    "allow_always": ("allow_always", "allow_once", *REFUSING),
}
"""The kinds of option that answer a permission request, the best first."""


def choose_option(wanted: Iterable[str], options: object) -> tuple[str, str] | None:
    """Give kind and id of the first offered option of the first kind wanted. None: answer `cancelled`."""
    offered = [option for option in objects_of(options) if isinstance(option.get("optionId"), str)]
    for kind in wanted:
        for option in offered:
            if option.get("kind") == kind:
                return kind, option["optionId"]
    return None


StopKind = Literal["ordinary", "cut_short", "refused", "cancelled", "unknown"]

STOP_KINDS: dict[str, StopKind] = {
    "end_turn": "ordinary",
    "max_tokens": "cut_short",
    "max_turn_requests": "cut_short",
    "refusal": "refused",
    "cancelled": "cancelled",
}


def read_stop(result: object) -> tuple[StopKind, Stopped]:
    """Read the answer to a prompt: what its stop reason means, and what the turn is told."""
    answer = result if isinstance(result, dict) else {}
    reason = _text_or_none(answer.get("stopReason"))
    usage = answer.get("usage")
    tokens = usage.get("outputTokens") if isinstance(usage, dict) else None
    stopped = Stopped(reason, output_tokens=tokens if type(tokens) is int and tokens >= 0 else None)
    return STOP_KINDS.get(reason or "", "unknown"), stopped


def login_hint(auth_methods: object) -> str:
    """How the agent itself says one logs in: a command if it names one, else its words; "" if it says nothing."""
    return "; ".join(hint for method in objects_of(auth_methods) if (hint := _login_of(method)))


def _login_of(method: Object) -> str:
    meta = method.get("_meta")
    terminal = meta.get("terminal-auth") if isinstance(meta, dict) else None
    if isinstance(terminal, dict) and isinstance(terminal.get("command"), str):
        args = terminal.get("args")
        words = [terminal["command"], *(args if isinstance(args, list) else ())]
        return " ".join(str(word) for word in words)
    return _text_or_none(method.get("description")) or _text_or_none(method.get("name")) or ""
