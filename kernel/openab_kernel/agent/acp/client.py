"""Our side of ACP with one agent process (agent.md 3-5): one session, one prompt at a time.

A prompt that runs has a task of its own, which holds the watchdogs and, when the prompt was given up, the fence: until
the agent has answered the cancel, or is gone, no other prompt is sent, so that late chunks of an abandoned turn never
open the next answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from openab_kernel.agent.acp.connection import Answer, Connection
from openab_kernel.agent.acp.jsonrpc import AUTH_REQUIRED, METHOD_NOT_FOUND, Failure, Object, error_kind
from openab_kernel.agent.acp.mapping import WANTED_OPTIONS, UpdateMapper, choose_option, login_hint, read_stop
from openab_kernel.agent.acp.process import AgentProcess, Redact, for_log, log_stderr
from openab_kernel.agent.acp.prompt import Outcome, Prompt
from openab_kernel.agent.models import ModelChoice, models_in_options, models_in_session
from openab_kernel.agent.settings import Permission
from openab_kernel.clock import Clock
from openab_kernel.errors import (
    AgentError,
    AgentGone,
    AgentProtocolError,
    AgentRefused,
    AgentSpawnError,
    AgentTimeout,
)
from openab_kernel.facts.agent_update import ConfigOptions, Stopped

PROTOCOL_VERSION = 1
INITIALIZE_SECONDS = 30
NEW_SESSION_SECONDS = 120
LOAD_SESSION_SECONDS = 30
SET_OPTION_SECONDS = 30
FENCE_SECONDS = 10
LAST_WORDS_SECONDS = 0.5

SHOWN_CHARS = 80
MESSAGE_CHARS = 200


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """What all connections to one agent have in common.

    `meta` goes into `clientCapabilities._meta`. `inactivity_seconds` 0: an agent may be silent as long as it likes.
    """

    clock: Clock
    redact: Redact
    permission: Permission
    client_version: str
    meta: Object = field(default_factory=dict)
    liveness_seconds: float = 30
    hard_limit_seconds: float = 1800
    inactivity_seconds: float = 0


@asynccontextmanager
async def acp_client(process: AgentProcess, options: ClientOptions, log: Any) -> AsyncIterator[AcpClient]:
    """Connect to a process that was just started. At the end every call and prompt fails with `AgentGone`.

    `log` is bound to the session; of what the agent says it sees noise, stderr and titles, masked and cut.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        client = AcpClient(process, options, log, tasks)
        listener = tasks.start_soon(log_stderr, process, log, options.redact, options.clock)
        try:
            yield client
        except Exception as error:
            failure = error  # raised below: the task group would wrap it
        finally:
            client.connection.end(AgentGone("the agent was stopped"))
            client.connection.noise.report()
            if process.exit_status is not None:
                with anyio.move_on_after(LAST_WORDS_SECONDS, shield=True):
                    await listener.wait()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class AcpClient:
    """Made by `acp_client`. Every method may be called from any task of the loop."""

    def __init__(self, process: AgentProcess, options: ClientOptions, log: Any, tasks: TaskGroup) -> None:
        self.connection = Connection(process, self, tasks, options.clock, options.redact, log)
        self.session_id: str | None = None
        self.name = ""
        self.version = ""
        self.can_load = False
        self.models: ModelChoice | None = None
        self._options = options
        self._clock = options.clock
        self._log = log
        self._tasks = tasks
        self._login = ""
        self._prompt: Prompt | None = None
        self._warned: set[str] = set()

    @property
    def is_alive(self) -> bool:
        return self.connection.failure is None and self.connection.process.exit_status is None

    # Calls

    async def initialize(self) -> None:
        """Say hello.

        Raises:
            AgentSpawnError: no answer, or another version of ACP.
            AgentProtocolError: the answer is an error.
        """
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {"_meta": self._options.meta} if self._options.meta else {},
            "clientInfo": {"name": "openab-kernel", "version": self._options.client_version},
        }
        try:
            answer = await self._call("initialize", params, INITIALIZE_SECONDS)
        except (AgentTimeout, AgentGone) as error:
            lines = self.connection.noise.lines
            raise AgentSpawnError(f"{error}; {lines} lines of its output were not JSON") from error
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            found = self._shown(repr(answer.get("protocolVersion")))
            raise AgentSpawnError(f"the agent speaks ACP version {found}, the kernel {PROTOCOL_VERSION}")
        info, capabilities = _object(answer.get("agentInfo")), _object(answer.get("agentCapabilities"))
        self.name, self.version = (self._shown(info.get(key)) for key in ("name", "version"))
        self.can_load = capabilities.get("loadSession") is True
        self._login = self._shown(login_hint(answer.get("authMethods")), MESSAGE_CHARS)

    async def new_session(self, cwd: str) -> str:
        """Open a session and give the agent's id for it."""
        answer = await self._call("session/new", {"cwd": cwd, "mcpServers": []}, NEW_SESSION_SECONDS)
        session_id = answer.get("sessionId")
        if not isinstance(session_id, str):
            raise AgentProtocolError("the answer to session/new has no sessionId")
        self.session_id = session_id
        self.models = models_in_session(answer)
        return session_id

    async def load_session(self, session_id: str, cwd: str) -> None:
        """Open a session the agent knows. The history it replays is dropped: no turn is running."""
        params = {"sessionId": session_id, "cwd": cwd, "mcpServers": []}
        self.session_id = session_id
        answer = await self._call("session/load", params, LOAD_SESSION_SECONDS)
        self.models = models_in_session(answer) or self.models

    async def set_option(self, config_id: str, value: str | bool) -> bool:
        """Set an option of the session. False: this agent knows no such call. That it refuses the option is logged."""
        params: Object = {"sessionId": self.session_id, "configId": config_id, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"
        try:
            answer = await self._call("session/set_config_option", params, SET_OPTION_SECONDS)
        except AgentProtocolError as error:
            if error.code == METHOD_NOT_FOUND:
                return False
            self._log.warning("config_option.refused", option=config_id)
        else:
            self.models = models_in_session(answer) or self.models
        return True

    async def _call(self, method: str, params: Object, timeout_seconds: float) -> Object:
        """Give the result; `{}` if it is no object.

        Raises:
            AgentTimeout, AgentGone: no answer came.
            AgentProtocolError: it is an error, or no valid answer.
        """
        answer = await self.connection.call(method, params, timeout_seconds)
        if isinstance(answer, Failure):
            raise self._failed(method, answer)
        return _object(answer.value)

    def _failed(self, method: str, failure: Failure) -> AgentProtocolError:
        """Log an error answer, and make the error for whoever called. The agent's words are shown at debug alone."""
        self._log.warning("call.failed", method=method, code=failure.code, error_kind=error_kind(failure.code))
        self._log.debug("call.failure_told", method=method, text=self._shown(failure.message, MESSAGE_CHARS))
        if failure.code == AUTH_REQUIRED and self._login:
            self._log.error("agent.login_required", way_out=self._login)
        if failure.code is None:
            return AgentProtocolError(f"{method}: {failure.message}")
        return AgentProtocolError(f"the agent answered {method} with error {failure.code}", code=failure.code)

    # Prompts

    def prompt(self, blocks: list[Object]) -> Prompt:
        """Begin a prompt. The one before must be settled: see `wait_settled`."""
        if self._prompt is not None:
            raise RuntimeError("the prompt before is not settled")
        prompt = Prompt(self._clock)
        params = {"sessionId": self.session_id, "prompt": blocks}
        self.connection.request("session/prompt", params, lambda answer: self._settle(prompt, answer))
        if not prompt.settled.is_set():
            self._prompt = prompt
            self._tasks.start_soon(self._watch, prompt)
        return prompt

    @property
    def is_settled(self) -> bool:
        """May a new prompt be sent?"""
        return self._prompt is None

    async def wait_settled(self) -> None:
        """Return when nothing of an earlier prompt can come any more, some seconds after it was given up at most."""
        if self._prompt is not None:
            await self._prompt.settled.wait()

    def _settle(self, prompt: Prompt, answer: Answer) -> None:
        self._prompt = None
        prompt.settle(Stopped(None) if prompt.has_ended else self._read_outcome(answer))

    def _read_outcome(self, answer: Answer) -> Outcome:
        match answer:
            case AgentError():
                return answer
            case Failure():
                return self._failed("session/prompt", answer)
        kind, stopped = read_stop(answer.value)
        match kind:
            case "refused":
                return AgentRefused("the agent declined to answer")
            case "cancelled":
                return AgentProtocolError("the agent says the prompt was cancelled, and nobody cancelled it")
            case "cut_short":
                self._log.warning("turn.cut_short", stop_reason=stopped.stop_reason)
            case "unknown":
                self._log.warning("stop_reason.unrecognised", stop_reason=self._shown(stopped.stop_reason))
        return stopped

    async def _watch(self, prompt: Prompt) -> None:
        """Hold the watchdogs of a prompt, then its fence. Lives until the prompt is settled."""
        watchdog = await self._until_ended(prompt)
        if watchdog is not None:
            self._log.warning("turn.timed_out", watchdog=watchdog)
            prompt.give_up(AgentTimeout(f"the {watchdog} watchdog stopped the turn", watchdog=watchdog))
        if not prompt.settled.is_set():
            await self._fence(prompt)

    async def _until_ended(self, prompt: Prompt) -> Literal["hard", "inactivity"] | None:
        """Wait for the end, or for a watchdog to call for it."""
        options = self._options
        hard_at = self._clock.monotonic() + options.hard_limit_seconds
        while True:
            seconds = [options.liveness_seconds, hard_at - self._clock.monotonic()]
            if options.inactivity_seconds:
                seconds.append(options.inactivity_seconds - prompt.idle_seconds())
            with self._clock.move_on_after(min(seconds)):
                await prompt.ended.wait()
            self.connection.end_if_dead()
            if prompt.has_ended:
                return None
            if self._clock.monotonic() >= hard_at:
                return "hard"
            if options.inactivity_seconds and prompt.idle_seconds() >= options.inactivity_seconds:
                return "inactivity"

    async def _fence(self, prompt: Prompt) -> None:
        """Cancel, and read on until the answer; without one the process must go."""
        self.connection.notify("session/cancel", {"sessionId": self.session_id})
        with self._clock.move_on_after(FENCE_SECONDS):
            await prompt.settled.wait()
            return
        self._log.warning("cancel.unanswered", waited_seconds=FENCE_SECONDS)
        self.connection.end(AgentGone("the agent did not answer a cancelled prompt and was stopped"))

    # What the agent tells and asks: this is the `Receiver` of the connection

    def take_notification(self, method: str, params: Object) -> None:
        if method != "session/update":
            return
        if params.get("sessionId") != self.session_id:
            self._drop_foreign(params)
            return
        prompt = self._prompt
        update = (UpdateMapper() if prompt is None else prompt.updates).map(params.get("update"))
        if type(update) is ConfigOptions:
            self.models = models_in_options(update.options) or self.models
        if prompt is None or prompt.has_ended:
            self._log.debug("update.dropped", reason="no_turn")
        elif prompt.put(update):
            self.connection.is_clogged = True

    def _drop_foreign(self, params: Object) -> None:
        self._log.debug("update.dropped", reason="session")
        if _object(params.get("update")).get("sessionUpdate") == "openab_message":
            self._warn_once("message.ignored", reason="session")

    def note_activity(self) -> None:
        if self._prompt is not None:
            self._prompt.touch()

    async def wait_room(self) -> None:
        if self._prompt is not None:
            await self._prompt.wait_room()

    def answer(self, method: str, params: Object) -> Object:
        """Every request is answered at once: we offer nothing, and nobody in the chat is asked for permission."""
        if method == "session/request_permission":
            return {"result": {"outcome": self._permit(params)}}
        self._log.debug("request.refused", method=self._shown(method))
        return {"error": {"code": METHOD_NOT_FOUND, "message": "Method not found"}}

    def _permit(self, params: Object) -> Object:
        chosen = None
        if self._prompt is None or not self._prompt.is_given_up:
            chosen = choose_option(WANTED_OPTIONS[self._options.permission], params.get("options"))
        self._log_permission(_object(params.get("toolCall")), chosen[0] if chosen else "cancelled")
        return {"outcome": "selected", "optionId": chosen[1]} if chosen else {"outcome": "cancelled"}

    def _log_permission(self, call: Object, decision: str) -> None:
        """The first refusal of a session is a warning, for the operator who wonders why nothing is done."""
        values = {"tool_kind": self._shown(call.get("kind")), "title": self._shown(call.get("title"))}
        if decision.startswith("allow") or "permission.answered" in self._warned:
            self._log.info("permission.answered", decision=decision, **values)
        else:
            self._warn_once("permission.answered", decision=decision, setting="[agent] permission", **values)

    def _warn_once(self, event: str, **values: Any) -> None:
        if event not in self._warned:
            self._warned.add(event)
            self._log.warning(event, **values)

    def _shown(self, value: object, limit_chars: int = SHOWN_CHARS) -> str:
        """A text of the agent, for a log or a person: masked, on one line, cut."""
        return for_log(value, limit_chars, self._options.redact) if isinstance(value, str) else ""


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else {}
