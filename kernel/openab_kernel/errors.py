"""Every error the kernel raises on purpose, and what a caller should do about it.

```text
KernelError
├── ConfigError                    which key, what was found, what was expected
├── PluginError                    which plugin, which hook
├── LaneReentryError               an entry point was called from inside a turn of the same session
├── LifecycleMismatchError         a prepared turn declared somebody else's lifecycle object
├── ShuttingDownError              nothing is taken on any more; the message is not acknowledged
├── StoreError                     the store could not do it; nothing of it was written
│   └── StoreLockedError           another process holds the file
├── AgentError                     `cause` names the failure line a person sees
│   ├── AgentSpawnError            no process, or it never answered `initialize`
│   ├── AgentGone                  the process ended
│   ├── AgentTimeout               a watchdog or a call's time-out
│   ├── AgentRefused               stop reason `refusal`
│   ├── AgentBusy                  no free session in time
│   └── AgentProtocolError         the peer broke the protocol
└── SendError                      carries what the sender should do next
    ├── PlatformMessageNotDispatchedError   proven not sent: safe to send again
    │   ├── SendThrottled          retry_after_seconds
    │   └── SendRejected           permanent: never retry; scope part or destination
    ├── PartialDeliveryError       something is visible: never start over
    └── SendUnknown                may have arrived: reconcile before a retry
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

FailureCause = Literal["agent", "timeout", "refusal", "busy", "empty", "restart"]
"""Why a turn failed, as far as a person is told (delivery.md 5.5)."""


class KernelError(Exception):
    """Base of everything the kernel raises on purpose."""


@dataclass(frozen=True)
class ConfigProblem:
    """One fault of a configuration file: where it is, what was found, what is meant."""

    place: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.place}: {self.found}; {self.expected}"


class ConfigError(KernelError):
    """The configuration cannot be used. `problems` holds every fault, in the order of the file."""

    def __init__(self, problems: list[ConfigProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class PluginError(KernelError):
    """A plugin could not be loaded, or what it handed over cannot be used."""

    def __init__(self, plugin: str, message: str, *, hook: str | None = None) -> None:
        super().__init__(f"plugin {plugin}{f', hook {hook}' if hook else ''}: {message}")
        self.plugin = plugin
        self.hook = hook


class LaneReentryError(KernelError):
    """The call would wait for the turn it is made from. Make it outside the turn, or start a task."""


class LifecycleMismatchError(KernelError):
    """Declare the lifecycle object that the kernel handed over, or none at all."""


class ShuttingDownError(KernelError):
    """The kernel takes nothing on any more. The message is not durable: do not acknowledge it."""


class StoreError(KernelError):
    """The store could not do it. Nothing of the transaction was written; trying again is safe."""


class StoreLockedError(StoreError):
    """Another process works on this store. `holder` names it as well as the lock file could."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"store {path}: held by {holder}; stop that process, or give this one another [store] url")
        self.holder = holder


class AgentError(KernelError):
    """The agent could not begin or finish a turn. `cause` selects the line a person sees."""

    cause: ClassVar[FailureCause] = "agent"


class AgentSpawnError(AgentError):
    """The process could not be started, or never became an ACP agent. Not retried."""


class AgentGone(AgentError):
    """The process ended in the middle. `exit_status` is its return code, negative for a signal."""

    def __init__(self, message: str, *, exit_status: int | None = None) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class AgentTimeout(AgentError):
    """A call or a watchdog ran out. `watchdog` says which."""

    cause: ClassVar[FailureCause] = "timeout"

    def __init__(self, message: str, *, watchdog: str) -> None:
        super().__init__(message)
        self.watchdog = watchdog


class AgentRefused(AgentError):
    """The agent declined to answer this prompt."""

    cause: ClassVar[FailureCause] = "refusal"


class AgentBusy(AgentError):
    """Every session slot was taken for as long as a turn may wait."""

    cause: ClassVar[FailureCause] = "busy"


class AgentProtocolError(AgentError):
    """The peer broke the protocol, or answered a call with an error. `code` is the JSON-RPC code, if any."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class SendError(KernelError):
    """A send did not end in a receipt. The subclass says what may be done next."""


class PlatformMessageNotDispatchedError(SendError):
    """Proven not sent: nothing reached the platform, or it answered that it did not process the call."""

    def __init__(self, message: str, *, retryable: bool = True, code: str | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.code = code


class SendThrottled(PlatformMessageNotDispatchedError):
    """The platform asks for a pause. Send the same part again after `retry_after_seconds`."""

    def __init__(self, message: str, *, retry_after_seconds: float, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class SendRejected(PlatformMessageNotDispatchedError):
    """A definite refusal. `scope` is what it refuses: this part, or everything for this destination."""

    def __init__(
        self, message: str, *, scope: Literal["part", "destination"] = "part", code: str | None = None
    ) -> None:
        super().__init__(message, retryable=False, code=code)
        self.scope = scope


class PartialDeliveryError(SendError):
    """Something is visible and then something failed. `result` says what is visible: never start over."""

    code = "CHANNEL_PARTIAL_DELIVERY"
    sent_before_error = True

    def __init__(self, cause: BaseException, result: Any) -> None:
        super().__init__(f"partly delivered: {cause}")
        self.cause = cause
        self.result = result


class SendUnknown(SendError):
    """The call may have arrived. Never send it again without asking the platform first."""
