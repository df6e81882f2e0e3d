"""The program behind `ScriptedAgent`: speaks ACP on stdin and stdout, exactly as its script says.

Run as `python -I -S acp_script.py FOLDER`. It imports the standard library alone, and little of that: a test may
start hundreds of it. `FOLDER/script.json` is the script. Whatever happens is appended to `FOLDER/journal`, one JSON
object a line, and then every FIFO in `FOLDER/watchers` is poked, so that a test waits for an event, not for a time.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Frame = dict[str, Any]
    Steps = list[dict[str, Any]]


class Journal:
    """What a test may look at, across all processes of one `ScriptedAgent`."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(f"{folder}/journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._watchers = f"{folder}/watchers"

    def note(self, event: str, **values: Any) -> None:
        os.write(self._file, json.dumps({"event": event, "pid": os.getpid(), **values}).encode() + b"\n")
        for name in os.listdir(self._watchers):
            try:
                fifo = os.open(f"{self._watchers}/{name}", os.O_WRONLY | os.O_NONBLOCK)
                os.write(fifo, b".")
                os.close(fifo)
            except OSError:
                continue  # nobody waits there any more


class Peer:
    """The kernel at the other end: frames to it, frames from it, and its answers to our own requests."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._unread = b""
        self._is_deaf = False
        self._is_alone = False
        self._answers: dict[Any, Frame] = {}
        self.requests: list[Frame] = []
        self.is_cancelled = False

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def send(self, frame: Frame) -> None:
        self.write(encode({"jsonrpc": "2.0", **frame}))

    def stop_reading(self) -> None:
        self._is_deaf = True

    def wait(self, is_over: Callable[[], bool], fifo: int | None = None) -> None:
        """Take frames in until `is_over`, or until `fifo` can be read. The program ends when stdin has."""
        sources = [fd for fd in (None if self._is_deaf else 0, fifo) if fd is not None]
        while not is_over():
            if self._is_alone:
                self._journal.note("eof")
                os._exit(0)
            ready = select.select(sources, [], [])[0]
            if 0 in ready:
                self._take_in()
            if fifo in ready:
                return

    def wait_answer(self, request_id: Any) -> Frame:
        self.wait(lambda: request_id in self._answers)
        return self._answers.pop(request_id)

    def look(self) -> None:
        """Take in what has come, without waiting."""
        while not self._is_deaf and not self._is_alone and select.select([0], [], [], 0)[0]:
            self._take_in()

    def _take_in(self) -> None:
        data = os.read(0, 1 << 20)
        self._is_alone = not data
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._sort(json.loads(line))

    def _sort(self, frame: Frame) -> None:
        self._journal.note("received", frame=frame)
        if "method" not in frame:
            self._answers[frame.get("id")] = frame
        elif frame["method"] == "session/cancel":
            self.is_cancelled = True
        else:
            self.requests.append(frame)


class Agent:
    """Answers one request after the other: by the steps the script has for its method, else in the ordinary way."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with open(f"{folder}/script.json", "rb") as file:
            self.script: dict[str, Any] = json.load(file)
        self.journal = Journal(folder)
        self.peer = Peer(self.journal)
        self._sessions = 0
        self._requests = 0

    def run(self) -> None:
        self.journal.note("started")
        Call(self, {"method": ""}).perform(self.script["at_start"])
        while True:
            self.peer.wait(lambda: bool(self.peer.requests))
            self._answer(Call(self, self.peer.requests.pop(0)))

    def next_request_id(self) -> str:
        self._requests += 1
        return f"agent-{self._requests}"

    def _answer(self, call: Call) -> None:
        ordinary = {
            "initialize": self._initialize,
            "session/new": self._new_session,
            "session/load": self._load_session,
            "session/prompt": self._prompt,
        }
        call.perform(self.script["on"].get(call.method, []))
        if not call.is_answered:
            ordinary.get(call.method, self._refuse)(call)

    def _refuse(self, call: Call) -> None:
        call.answer({"error": {"code": -32601, "message": "Method not found"}})

    def _initialize(self, call: Call) -> None:
        call.answer({"result": self.script["initialize"]})

    def _new_session(self, call: Call) -> None:
        self._sessions += 1
        session_id = f"session-{os.getpid()}-{self._sessions}"
        os.close(os.open(f"{self.folder}/sessions/{session_id}", os.O_CREAT))
        call.answer({"result": {"sessionId": session_id, **self.script["session"]}})

    def _load_session(self, call: Call) -> None:
        if os.path.exists(f"{self.folder}/sessions/{call.session_id}"):
            call.perform(self.script["replay"])
            call.answer({"result": self.script["session"]})
        else:
            call.answer({"error": {"code": -32002, "message": "Resource not found"}})

    def _prompt(self, call: Call) -> None:
        self.peer.is_cancelled = False
        call.perform(self._steps_for(call.prompt))
        if not call.is_answered:
            call.answer({"result": {"stopReason": "cancelled" if call.is_cut else "end_turn"}})

    def _steps_for(self, prompt: str) -> Steps:
        """By the text of the prompt; else the next turn of the script, and its last one again and again."""
        by_text: dict[str, Steps] = self.script["by_text"]
        if prompt in by_text:
            return by_text[prompt]
        prompts = os.open(f"{self.folder}/prompts", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(prompts, b".")
        turn = os.fstat(prompts).st_size - 1
        os.close(prompts)
        turns: list[Steps] = self.script["turns"]
        return turns[min(turn, len(turns) - 1)]


class Call:
    """One request of the kernel, while its steps are performed. Each `do_` method is a step."""

    def __init__(self, agent: Agent, frame: Frame) -> None:
        self.agent = agent
        self.peer = agent.peer
        self.id = frame.get("id")
        self.method = frame["method"]
        self.is_answered = False
        params = frame.get("params") or {}
        self.session_id = params.get("sessionId", "")
        texts = [block["text"] for block in params.get("prompt", ()) if block["type"] == "text"]
        self.prompt = texts[-1] if texts else ""

    @property
    def is_cut(self) -> bool:
        """Was the prompt cancelled, and does the script heed that?"""
        return bool(self.method == "session/prompt" and self.peer.is_cancelled and self.agent.script["heeds_cancel"])

    def perform(self, steps: Steps) -> None:
        for step in steps:
            self.peer.look()
            if self.is_cut:
                return
            getattr(self, f"do_{step['do']}")(**{key: value for key, value in step.items() if key != "do"})

    def answer(self, body: Frame) -> None:
        self.is_answered = True
        self.peer.send({"id": self.id, **body})

    def do_answer(self, body: Frame) -> None:
        self.answer(body)

    def do_update(self, update: Frame, times: int = 1, session_id: str | None = None) -> None:
        params = {"sessionId": session_id or self.session_id, "update": self._filled(update)}
        self.peer.write(encode({"jsonrpc": "2.0", "method": "session/update", "params": params}) * times)

    def _filled(self, value: Any) -> Any:
        """Put the text of the prompt where the script says `{prompt}`."""
        if isinstance(value, dict):
            return {key: self._filled(inner) for key, inner in value.items()}
        return value.replace("{prompt}", self.prompt) if isinstance(value, str) else value

    def do_frame(self, frame: Frame) -> None:
        self.peer.send(frame)

    def do_raw(self, hex_bytes: str, times: int = 1) -> None:
        self.peer.write(bytes.fromhex(hex_bytes).replace(b"{session}", self.session_id.encode()) * times)

    def do_stderr(self, text: str, times: int) -> None:
        os.write(2, text.encode() * times)

    def do_gate(self, name: str) -> None:
        """Wait for one byte in the FIFO of this name, or for a cancel. One byte lets one process pass."""
        name = self._filled(name)
        gate = open_gate(f"{self.agent.folder}/gates", name)
        self.agent.journal.note("gate", name=name)
        while not self.is_cut:
            self.peer.wait(lambda: self.is_cut, gate)
            try:
                os.read(gate, 1)
                break
            except BlockingIOError:
                continue  # somebody else took it
        os.close(gate)

    def do_hang(self) -> None:
        self.agent.journal.note("gate", name="hang")
        self.peer.wait(lambda: self.is_cut)

    def do_ask(self, method: str, params: Frame, same_id: bool = False, waits: bool = True) -> None:
        """Send a request of our own. `same_id`: under the id of the call that is being answered."""
        request_id = self.id if same_id else self.agent.next_request_id()
        params = {"sessionId": self.session_id, **params}
        self.peer.send({"id": request_id, "method": method, "params": params})
        if waits:
            self.agent.journal.note("answered", method=method, answer=self.peer.wait_answer(request_id))

    def do_say_environment(self, of_child: bool) -> None:
        environment = dict(os.environ)
        if of_child:
            show = "import json, os; print(json.dumps(dict(os.environ)))"
            with os.popen(f"exec '{sys.executable}' -I -S -c '{show}'") as output:
                environment = json.load(output)
        content = {"type": "text", "text": json.dumps(environment)}
        self.do_update({"sessionUpdate": "agent_message_chunk", "content": content})

    def do_fork(self, ignores_sigterm: bool, holds_pipes: bool) -> None:
        """Leave a child behind that does nothing for ten minutes."""
        child = os.fork()
        if child == 0:
            if ignores_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if not holds_pipes:
                os.closerange(0, 3)
            time.sleep(600)
            os._exit(0)
        self.agent.journal.note("forked", child=child)

    def do_ignore_sigterm(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def do_stop_reading(self) -> None:
        self.peer.stop_reading()

    def do_close_stdin(self) -> None:
        self.peer.stop_reading()
        os.close(0)

    def do_close_stdout(self) -> None:
        os.close(1)

    def do_exit(self, status: int) -> None:
        os._exit(status)

    def do_kill(self, signal_number: int) -> None:
        os.kill(os.getpid(), signal_number)


def encode(frame: Frame) -> bytes:
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def open_gate(folder: str, name: str) -> int:
    """Open the FIFO of a gate, made if it is missing, without waiting for anybody at its other end."""
    path = f"{folder}/{name.replace('/', '_')}"
    try:  # noqa: SIM105  # contextlib would cost milliseconds at each start
        os.mkfifo(path)
    except FileExistsError:
        pass
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


if __name__ == "__main__":
    Agent(sys.argv[1]).run()
