"""One message on its way through `receive`: how far its admission has come, and how the way ended."""

from __future__ import annotations

from dataclasses import dataclass

from openab_kernel.facts.admission import Admission, Dispatch, ObserveOnly, strictest
from openab_kernel.facts.turn import ChannelTurnResult
from openab_kernel.interfaces.channel import Channel, TurnAdapter
from openab_kernel.stages.finalize import OnFinalize
from openab_kernel.stages.inbound import Ending
from openab_kernel.stages.trail import Trail

DISPATCH = Dispatch()


@dataclass(frozen=True, slots=True)
class Received:
    """How `receive` ended: with a result, or with a turn still to come, which `ending` waits for."""

    result: ChannelTurnResult | None = None
    ending: Ending | None = None
    immediate_ack: bool = False

    async def wait(self) -> ChannelTurnResult:
        """The result, now or when the turn has ended; what the turn raised is raised here."""
        if self.ending is not None:
            return await self.ending.wait()
        assert self.result is not None
        return self.result


@dataclass(slots=True)
class Walk:
    """One message on its way through `receive`, and the strictest admission it has met so far."""

    channel: Channel | None
    trail: Trail
    on_finalize: OnFinalize | None
    wait: bool
    admission: Admission = DISPATCH
    immediate_ack: bool = False

    @property
    def admitted(self) -> Dispatch | ObserveOnly:
        """The admission of a message that no stage has ended."""
        assert isinstance(self.admission, Dispatch | ObserveOnly)
        return self.admission

    def widen(self, adapter: TurnAdapter, resolved: Admission | None) -> None:
        """The one exception to strictness: a channel that may, and says so, takes back its own observe-only."""
        may = getattr(adapter, "may_widen_observe_only", False)
        if may and resolved is not None and resolved.kind == "dispatch" and self.admission.kind == "observeOnly":
            self.admission = DISPATCH

    def is_ended_by(self, admission: Admission | None) -> bool:
        """Take the admission into account: does it end the message here?"""
        self.admission = strictest(self.admission, admission)
        return self.admission.kind in ("drop", "handled")
