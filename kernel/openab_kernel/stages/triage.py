"""Stage 6: is an event that nobody typed worth a turn?

Only proactive events are judged, and without `[triage]` every one of them wakes the agent. A message that a person
wrote passes untouched under every setting.
"""

from __future__ import annotations

from openab_kernel.facts.admission import Admission, Dispatch

WAKE = Dispatch()


def triage(*, proactive: bool) -> Admission:
    """The provisional verdict; record decides again on the state of that moment."""
    return WAKE
