"""What the store tests write, and how they open a store."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import anyio

from openab_kernel.facts.admission import Dispatch
from openab_kernel.facts.context import FINALIZED, CommandTurn, FinalizedMsgContext
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.outbound import Destination
from openab_kernel.facts.turn import InboundMessage
from openab_kernel.interfaces.store import RecordRequest, Store

SECRET_TEXT = "what a person wrote"
DAY_MS = 24 * 3600 * 1000

S = TypeVar("S", bound=Store)


def session(peer_id: str = "c1", **changes: Any) -> SessionKey:
    key = SessionKey("main", None, "discord", "bot", "channel", peer_id)
    return key._replace(**changes)


def context() -> FinalizedMsgContext:
    bodies = ("raw_body", "body", "body_for_agent", "command_body", "body_for_commands")
    places = ("to", "session_key", "agent_id", "chat_id", "conversation_label", "originating_to")
    platforms = ("provider", "surface", "originating_channel")
    fields: dict[str, Any] = {
        **dict.fromkeys(bodies, SECRET_TEXT),
        **dict.fromkeys(places, "x"),
        **dict.fromkeys(platforms, "discord"),
        "finalized": FINALIZED,
        "from": "u1",
        "chat_type": "channel",
        "command_authorized": False,
        "command_turn": CommandTurn(source="message", kind="normal", authorized=False),
        "media_paths": (None, "a.png"),
        "kept_as_given": {"of": None, "any": [1, None]},
    }
    return FinalizedMsgContext(**fields)


def message(message_id: str = "m1", **changes: Any) -> InboundMessage:
    """A message of `session()`, unless told otherwise."""
    fields: dict[str, Any] = {
        "session": session(),
        "session_key": "agent:main:discord:bot:channel:c1",
        "channel": "discord",
        "account_id": "bot",
        "conversation_id": "c1",
        "message_id": message_id,
        "received_at": 1_782_907_200_000,
        "admission": Dispatch(),
        "context": context(),
        "destination": Destination(channel="discord", account_id="bot", conversation_id="c1", to="c1"),
    }
    return InboundMessage(**{**fields, **changes})


def request(message_id: str = "m1", **changes: Any) -> RecordRequest:
    """A request to record `message(message_id)`; changes go to the request where it has such a field."""
    own = {field.name: changes.pop(field.name) for field in fields(RecordRequest) if field.name in changes}
    given: dict[str, Any] = {
        "message": message(message_id, **changes),
        "queue_name": "discord",
        "agent_id": "main",
        "persisted_session_key": "agent:main:discord:bot:channel:c1",
    }
    return RecordRequest(**{**given, **own})


async def record(store: Store, message_id: str = "m1", **changes: Any) -> int:
    """Record a message that is new; its `seq`."""
    recorded = await store.record(request(message_id, **changes))
    assert recorded is not None
    return recorded.seq


async def waiting_ids(
    store: Store, key: SessionKey | None = None, *, after_seq: int = 0, limit: int = 100
) -> list[str]:
    found = await store.waiting(key or session(), after_seq=after_seq, limit=limit)
    return [one.message.message_id for one in found]


async def complete(store: Store, turn_id: str, *seqs: int) -> None:
    """Take the messages into a turn and close it."""
    assert await store.adopt(turn_id, session(), seqs, 1)
    await store.finish_turn(turn_id, "done", None)


@asynccontextmanager
async def running(store: S) -> AsyncIterator[S]:
    """The store while it runs. No test waits longer than five seconds."""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            await group.start(lambda *, task_status: store.run(task_status=task_status))
            try:
                yield store
            finally:
                group.cancel_scope.cancel()


def look(path: Path, query: str, *args: object) -> list[tuple[Any, ...]]:
    """What another program finds in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query, args).fetchall()


def alter(path: Path, *statements: str) -> None:
    """What another program does to the file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


Opener = Callable[[], Store]
