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


class SessionWarnings:
    """What the operator is told of an agent, once a session and subject."""

    def __init__(self) -> None:
        self._warned: OrderedDict[tuple[str, str], None] = OrderedDict()

    def mismatch(self, session_key: str, mode: str) -> None:
        """The agent takes a road that text mode does not look at; `mode` is the one that does."""
        if self._is_first(session_key, "mismatch"):
            log.warning("pairing.mismatch", session_key=session_key, fix=f'[delivery] mode = "{mode}"')

    def ignored(self, session_key: str, reason: str) -> None:
        """A deliberate message could not be taken."""
        if self._is_first(session_key, "ignored"):
            log.warning("message.ignored", session_key=session_key, reason=reason)

    def _is_first(self, session_key: str, subject: str) -> bool:
        key = (session_key, subject)
        if key in self._warned:
            return False
        self._warned[key] = None
        if len(self._warned) > REMEMBERED_SESSIONS:
            self._warned.popitem(last=False)
        return True
