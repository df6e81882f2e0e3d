"""An agent that says what a test tells it to: a real program, on real pipes.

```python
agent = ScriptedAgent(tmp_path, turns=[[chunk("on it"), gate("go"), chunk(", done")], [die()]])
...                                 # run `agent.command` as [agent] command and args, or in an AcpAgent
await agent.until_at("go")          # the agent has come that far
agent.release("go")                 # and may go on
assert agent.prompts[0] == [...]    # what it was asked
```

A turn is a list of steps, performed in order; a prompt whose steps hold no `stop` or `fail` is answered `end_turn`.
More prompts than turns: the last turn is repeated; no turns at all: the prompt comes back as an echo. Turns are counted
over all sessions and processes of the agent, in the order the prompts came; where that order is open, use `by_text`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal

import anyio

from openab_kernel.testing import acp_script

Step = dict[str, Any]
CancelHabit = Literal["answer", "ignore"]


def chunk(text: str, *, times: int = 1) -> Step:
    """A piece of the answer. `{prompt}` stands for the text of the prompt (its last text block)."""
    return update("agent_message_chunk", content={"type": "text", "text": text}, times=times)


def thought(text: str) -> Step:
    """A piece of thinking aloud."""
    return update("agent_thought_chunk", content={"type": "text", "text": text})


def tool_call(tool_call_id: str, title: str, *, status: str = "pending", kind: str = "other", **more: Any) -> Step:
    """A tool call is announced."""
    values = {"toolCallId": tool_call_id, "title": title, "status": status, "kind": kind, **more}
    return update("tool_call", **values)


def tool_update(tool_call_id: str, **changes: Any) -> Step:
    """A tool call moves on, for instance `status="completed"`."""
    return update("tool_call_update", toolCallId=tool_call_id, **changes)


def bubble(text: str, bubble_id: str = "") -> Step:
    """One deliberate message (`openab_message`)."""
    return update("openab_message", id=bubble_id, content={"type": "text", "text": text})


def update(session_update: str, /, *, times: int = 1, session_id: str | None = None, **values: Any) -> Step:
    """Any `session/update`, of the session that is prompted or of another."""
    update = {"sessionUpdate": session_update, **values}
    return {"do": "update", "update": update, "times": times, "session_id": session_id}


def stop(reason: str | None = "end_turn", **more: Any) -> Step:
    """Answer the prompt. None: without a stop reason."""
    return answer(result={**({} if reason is None else {"stopReason": reason}), **more})


def fail(code: int = -32603, message: str = "Internal error") -> Step:
    """Answer the call with an error."""
    return answer(error={"code": code, "message": message})


def answer(**body: Any) -> Step:
    """Answer the call with these members: `result`, `error`, both or neither."""
    return {"do": "answer", "body": body}


def frame(**members: Any) -> Step:
    """Any JSON-RPC frame."""
    return {"do": "frame", "frame": members}


def raw(data: bytes, *, times: int = 1) -> Step:
    """Bytes as they are, without a line end. `{session}` stands for the id of the session."""
    return {"do": "raw", "hex_bytes": data.hex(), "times": times}


def noise(text: str) -> Step:
    """A line on stdout that is no frame."""
    return raw(text.encode() + b"\n")


def stderr(text: str, *, times: int = 1, end: str = "\n") -> Step:
    """A line on stderr."""
    return {"do": "stderr", "text": text + end, "times": times}


def gate(name: str) -> Step:
    """Wait until the test calls `release(name)`, or for a cancel. `{prompt}` as in `chunk`."""
    return {"do": "gate", "name": name}


def hang() -> Step:
    """Wait for ever, or for a cancel. A test waits for it with `until_at("hang")`."""
    return {"do": "hang"}


def ask_permission(
    *kinds: str, title: str = "a tool", kind: str = "execute", raw_input: Any = None, waits: bool = True
) -> Step:
    """Ask for permission and wait for the answer. The options have these kinds and are called `option-1` and so on."""
    options = [{"optionId": f"option-{n}", "name": k, "kind": k} for n, k in enumerate(kinds, 1)]
    call = {"toolCallId": "asked", "title": title, "kind": kind, "rawInput": raw_input}
    return ask("session/request_permission", toolCall=call, options=options, waits=waits)


def ask(method: str, *, same_id: bool = False, waits: bool = True, **params: Any) -> Step:
    """Send a request to the kernel and wait for the answer. `same_id`: under the id of the call being answered."""
    return {"do": "ask", "method": method, "params": params, "same_id": same_id, "waits": waits}


def say_environment(*, of_child: bool = False) -> Step:
    """A chunk that holds the environment as JSON: the agent's own, or what a child of it sees."""
    return {"do": "say_environment", "of_child": of_child}


def fork(*, ignores_sigterm: bool = True, holds_pipes: bool = True) -> Step:
    """Start a child that lives for ten minutes; its pid is in `children`."""
    return {"do": "fork", "ignores_sigterm": ignores_sigterm, "holds_pipes": holds_pipes}


def ignore_sigterm() -> Step:
    """Be hard to stop."""
    return {"do": "ignore_sigterm"}


def stop_reading() -> Step:
    """Read nothing from stdin any more."""
    return {"do": "stop_reading"}


def close_stdin() -> Step:
    """Close stdin and go on."""
    return {"do": "close_stdin"}


def close_stdout() -> Step:
    """Close stdout and go on."""
    return {"do": "close_stdout"}


def leave(status: int = 0) -> Step:
    """End the program with this exit status."""
    return {"do": "exit", "status": status}


def die(signal_number: int = signal.SIGKILL) -> Step:
    """End the program by a signal."""
    return {"do": "kill", "signal_number": int(signal_number)}


class ScriptedAgent:
    """See the module. One object stands for all processes that are started with its `command`.

    Args:
        folder: An empty or missing folder; what the processes and the test tell each other lies there.
        turns: The steps for the first prompt, the second and so on.
        by_text: The steps for a prompt of exactly this text; they come before `turns` and are not counted there.
        on: Steps before the ordinary answer to a method, such as `{"session/new": [gate("new")]}`. If they answer
            the call (`fail`, `answer`), the ordinary answer is left out.
        at_start: Steps before anything is read.
        replay: Steps of a successful `session/load`, before its answer.
        on_cancel: `answer`: a cancel cuts the steps, and the prompt is answered `cancelled`. `ignore`: they go on.
        loads_sessions: Whether `loadSession` is advertised.
        initialize: Members to put into the answer to `initialize`.
        session: Members to put into the answers to `session/new` and `session/load`, such as `configOptions`.
    """

    def __init__(
        self,
        folder: Path,
        turns: Sequence[Sequence[Step]] = (),
        *,
        by_text: Mapping[str, Sequence[Step]] | None = None,
        on: Mapping[str, Sequence[Step]] | None = None,
        at_start: Sequence[Step] = (),
        replay: Sequence[Step] = (),
        on_cancel: CancelHabit = "answer",
        loads_sessions: bool = True,
        initialize: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self._gates: dict[str, int] = {}
        self._watcher_numbers = count()
        for name in ("gates", "sessions", "watchers"):
            (folder / name).mkdir(parents=True)
        script = {
            "turns": turns or [[chunk("{prompt}")]],
            "by_text": by_text or {},
            "on": on or {},
            "at_start": at_start,
            "replay": replay,
            "heeds_cancel": on_cancel == "answer",
            "session": session or {},
            "initialize": {
                "protocolVersion": 1,
                "agentInfo": {"name": "scripted-agent", "version": "1.0"},
                "agentCapabilities": {"loadSession": loads_sessions},
                **(initialize or {}),
            },
        }
        (folder / "script.json").write_text(json.dumps(script))
        (folder / "journal").touch()
        weakref.finalize(self, _close_all, self._gates)

    @property
    def command(self) -> list[str]:
        """What to run."""
        return [sys.executable, "-I", "-S", acp_script.__file__, str(self._folder)]

    @property
    def journal(self) -> list[dict[str, Any]]:
        """All that happened: `started`, `received` (frame), `gate` (name), `answered`, `forked`, `eof`; with `pid`."""
        return [json.loads(line) for line in (self._folder / "journal").read_bytes().splitlines()]

    def _noted(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.journal if entry["event"] == event]

    @property
    def pids(self) -> list[int]:
        """Every process there was, in order of start."""
        return [entry["pid"] for entry in self._noted("started")]

    @property
    def pid(self) -> int:
        """The process that was started last."""
        return self.pids[-1]

    @property
    def children(self) -> list[int]:
        """The pids that `fork` made."""
        return [entry["child"] for entry in self._noted("forked")]

    def received(self, method: str | None = None) -> list[dict[str, Any]]:
        """The frames that came, of this method or all."""
        frames = [entry["frame"] for entry in self._noted("received")]
        return frames if method is None else [frame for frame in frames if frame.get("method") == method]

    @property
    def prompts(self) -> list[list[dict[str, Any]]]:
        """The content blocks of each prompt."""
        return [frame["params"]["prompt"] for frame in self.received("session/prompt")]

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The kernel's answers to what the agent asked, whole frames."""
        return [entry["answer"] for entry in self._noted("answered")]

    def release(self, name: str, *, times: int = 1) -> None:
        """Let so many processes pass a gate, now or when they come to it."""
        if name not in self._gates:
            self._gates[name] = acp_script.open_gate(str(self._folder / "gates"), name)
        os.write(self._gates[name], b"." * times)

    async def until_at(self, name: str, *, times: int = 1) -> None:
        """Wait until a gate of this name was reached so many times."""
        await self.until(lambda: sum(entry["name"] == name for entry in self._noted("gate")) >= times)

    async def until_received(self, method: str, *, times: int = 1) -> None:
        """Wait until so many frames of this method came."""
        await self.until(lambda: len(self.received(method)) >= times)

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until a condition on the journal holds. Wrap it in `fail_after`."""
        path = self._folder / "watchers" / str(next(self._watcher_numbers))
        os.mkfifo(path)
        fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        try:
            while not is_so():
                await anyio.wait_readable(fifo)
                os.read(fifo, 65536)
        finally:
            path.unlink()
            os.close(fifo)


def _close_all(gates: dict[str, int]) -> None:
    for gate in gates.values():
        os.close(gate)
