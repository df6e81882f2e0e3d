"""Small things that a session is told once: a notice that is owed, a warning to the operator."""

from __future__ import annotations

from collections import OrderedDict

import structlog

from openab_kernel.facts.conversation import SessionKey
from openab_kernel.interfaces.store import Store

log = structlog.get_logger("openab_kernel.notices")

REMEMBERED_SESSIONS = 10_000


class HeldNotices:
    """Notices that wait for a turn which sends something. In the store, and in memory to spare a look-up a turn."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[SessionKey, str] = {}

    async def load(self) -> None:
        """Read what earlier processes left."""
        self._held = await self._store.held_notices()

    async def hold(self, session: SessionKey, text: str) -> None:
        """Keep it for the next turn of this session that sends something."""
        await self._store.hold_notice(session, text)
        self._held[session] = text

    async def take(self, session: SessionKey) -> str | None:
        """The notice that is owed; from now on it is owed no more."""
        text = self._held.pop(session, None)
        if text is not None:
            await self._store.hold_notice(session, None)
        return text


class PairingWarnings:
    """`pairing.mismatch`, once a session: the agent uses a road that the mode of delivery does not look at."""

    def __init__(self) -> None:
        self._warned: OrderedDict[str, None] = OrderedDict()

    def note(self, session_key: str) -> None:
        """The agent sent a deliberate message in text mode."""
        if session_key in self._warned:
            return
        self._warned[session_key] = None
        if len(self._warned) > REMEMBERED_SESSIONS:
            self._warned.popitem(last=False)
        log.warning("pairing.mismatch", session_key=session_key, fix='[delivery] mode = "sequential"')
