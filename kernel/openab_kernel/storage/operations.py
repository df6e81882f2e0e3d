"""What each method of the store does to the tables.

Each function runs inside a transaction that its caller begins and ends, and raises to have all it did undone. Those
that only look up may run outside of one, on a connection that only reads.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict

import orjson
import structlog
from pydantic import ValidationError

from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.message import HistoryEntry
from openab_kernel.facts.turn import (
    InboundMessage,
    InterruptedTurn,
    NextStep,
    RecordedMessage,
    TurnOutcome,
    TurnRecord,
)
from openab_kernel.interfaces.store import AgentSessionRow, RecordRequest

log = structlog.get_logger("openab_kernel.store")


class NotWaitingError(Exception):
    """A message that was to be adopted is not waiting."""


def session_text(session: SessionKey) -> str:
    """The session as the tables name it."""
    return orjson.dumps([*session]).decode()


def _session(text: str) -> SessionKey:
    return SessionKey(*orjson.loads(text))


def record(connection: sqlite3.Connection, request: RecordRequest, entry: str) -> int | None:
    """Give the `seq` of the new message. None: the dedupe key is taken, and nothing was written."""
    message = request.message
    session = session_text(message.session)
    inserted = connection.execute(
        "INSERT INTO inbound (queue_name, session, channel, account_id, conversation_id, thread_id, message_id,"
        " agent_id, dedupe_epoch, event_id, sender_id, resumable, received_at, entry)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            request.queue_name,
            session,
            message.channel,
            message.account_id,
            message.conversation_id,
            message.thread_id,
            message.message_id,
            request.agent_id,
            request.dedupe_epoch,
            message.event_id,
            message.sender_id,
            message.resumable,
            message.received_at,
            entry,
        ),
    )
    if not inserted.rowcount:
        return None
    _touch_session(connection, session, request)
    if request.history_key is not None:
        connection.execute(
            "DELETE FROM history WHERE history_key = ? AND message_id = ?",
            (request.history_key, message.message_id),
        )
    return inserted.lastrowid


def _touch_session(connection: sqlite3.Connection, session: str, request: RecordRequest) -> None:
    if request.user_activity:
        connection.execute(
            "INSERT INTO sessions (session, session_key, last_route, last_activity) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET session_key = excluded.session_key, last_route = excluded.last_route,"
            " last_activity = excluded.last_activity",
            (
                session,
                request.persisted_session_key,
                request.message.destination.model_dump_json(),
                request.message.received_at,
            ),
        )
    else:
        connection.execute(
            "INSERT INTO sessions (session, session_key) VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET session_key = excluded.session_key",
            (session, request.persisted_session_key),
        )


def has_message(connection: sqlite3.Connection, channel: str, account_id: str | None, message_id: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM inbound WHERE message_id = ? AND channel = ? AND quote(account_id) = quote(?) LIMIT 1",
        (message_id, channel, account_id),
    )
    return found.fetchone() is not None


def adopt(
    connection: sqlite3.Connection, turn_id: str, session: SessionKey, seqs: Sequence[int], started_at: int
) -> None:
    """Take all of them or raise.

    Raises:
        NotWaitingError: one of them is not waiting.
    """
    started = connection.execute(
        "INSERT INTO turns (turn_id, session, state, started_at) VALUES (?, ?, 'started', ?)",
        (turn_id, session_text(session), started_at),
    )
    for seq in seqs:
        taken = connection.execute(
            "UPDATE inbound SET state = 'taken', turn = ? WHERE seq = ? AND state = 'waiting'",
            (started.lastrowid, seq),
        )
        if not taken.rowcount:
            raise NotWaitingError(seq)


def stop_turn(connection: sqlite3.Connection, turn_id: str) -> None:
    connection.execute(
        "UPDATE turns SET state = 'stopped' WHERE turn_id = ? AND state IN ('started', 'stopped')",
        (turn_id,),
    )


def finish_turn(
    connection: sqlite3.Connection,
    turn_id: str,
    outcome: TurnOutcome,
    cause: str | None,
    next_steps: Sequence[NextStep],
) -> None:
    """Its messages become tombstones: they are known, their content is gone."""
    steps = json.dumps([asdict(step) for step in next_steps]) if next_steps else None
    finished = connection.execute(
        "UPDATE turns SET state = 'finished', outcome = ?, cause = ?, next_steps = ?"
        " WHERE turn_id = ? AND state IN ('started', 'stopped') RETURNING number",
        (outcome, cause, steps, turn_id),
    ).fetchone()
    if finished is not None:
        connection.execute(
            "UPDATE inbound SET state = 'completed', entry = NULL WHERE turn = ? AND state = 'taken'", finished
        )


def waiting(connection: sqlite3.Connection, session: SessionKey, after_seq: int, limit: int) -> list[tuple[int, bytes]]:
    """Give `seq` and entry. An entry is read as bytes, for that cannot fail whatever is in it."""
    return connection.execute(
        "SELECT seq, CAST(entry AS BLOB) FROM inbound"
        " WHERE session = ? AND state = 'waiting' AND seq > ? ORDER BY seq LIMIT ?",
        (session_text(session), after_seq, limit),
    ).fetchall()


def waiting_sessions(connection: sqlite3.Connection, after_seq: int, limit: int) -> list[tuple[int, bytes]]:
    """As `waiting`. Reads the index of all that waits, and of the table what it gives."""
    return connection.execute(
        "SELECT seq, CAST(entry AS BLOB) FROM inbound WHERE seq IN"
        " (SELECT min(seq) AS oldest FROM inbound WHERE state = 'waiting' GROUP BY session"
        "  HAVING oldest > ? ORDER BY oldest LIMIT ?) ORDER BY seq",
        (after_seq, limit),
    ).fetchall()


def read_entry(seq: int, entry: bytes) -> RecordedMessage | None:
    """None, and a warning that holds none of the content: it cannot be read."""
    try:
        return RecordedMessage(seq=seq, message=InboundMessage.model_validate_json(entry))
    except ValidationError as error:
        log.warning("store.row_unreadable", table="inbound", seq=seq, faults=error.error_count())
        return None


def release(connection: sqlite3.Connection, seq: int, not_before: int, error: str) -> int:
    row = connection.execute(
        "UPDATE inbound SET attempts = attempts + 1, not_before = ?, last_error = ?"
        " WHERE seq = ? AND state = 'waiting' RETURNING attempts",
        (not_before, error, seq),
    ).fetchone()
    return int(row[0]) if row else 0


def park(connection: sqlite3.Connection, seqs: Sequence[int], reason: str) -> None:
    connection.executemany(
        "UPDATE inbound SET state = 'failed', last_error = ? WHERE seq = ? AND state IN ('waiting', 'taken')",
        [(reason, seq) for seq in seqs],
    )


def interrupt_started_turns(connection: sqlite3.Connection) -> list[InterruptedTurn]:
    connection.execute(
        "UPDATE inbound SET state = 'failed', last_error = 'prepared_not_resumable'"
        " WHERE state = 'waiting' AND NOT resumable"
    )
    open_turns = connection.execute(
        "SELECT number, turn_id, session, state, started_at FROM turns WHERE state IN ('started', 'stopped')"
        " ORDER BY number"
    ).fetchall()
    interrupted = []
    for number, turn_id, session, state, started_at in open_turns:
        if state == "stopped":
            connection.execute("UPDATE turns SET state = 'finished' WHERE number = ?", (number,))
            continue
        connection.execute(
            "UPDATE turns SET state = 'interrupted', outcome = 'interrupted' WHERE number = ?", (number,)
        )
        newest = _newest_message(connection, number)
        if newest is not None:
            turn = TurnRecord(
                turn_id=turn_id,
                session=_session(session),
                state="interrupted",
                started_at=started_at,
                outcome="interrupted",
            )
            interrupted.append(InterruptedTurn(turn=turn, message=newest))
    connection.execute("UPDATE inbound SET state = 'completed', entry = NULL WHERE state = 'taken'")
    return interrupted


def _newest_message(connection: sqlite3.Connection, turn: int) -> InboundMessage | None:
    """The newest that can be read; the others are parked."""
    rows = connection.execute(
        "SELECT seq, CAST(entry AS BLOB) FROM inbound WHERE turn = ? AND state = 'taken' ORDER BY seq DESC",
        (turn,),
    )
    for seq, entry in rows.fetchall():
        if recorded := read_entry(seq, entry):
            return recorded.message
        park(connection, [seq], "unreadable")
    return None


def agent_session(connection: sqlite3.Connection, session: SessionKey) -> AgentSessionRow | None:
    row = connection.execute(
        "SELECT CAST(agent_session_id AS BLOB), CAST(agent_command AS BLOB), CAST(cwd AS BLOB) FROM sessions"
        " WHERE session = ? AND agent_session_id IS NOT NULL",
        (session_text(session),),
    ).fetchone()
    if row is None:
        return None
    names = ("agent_session_id", "agent_command", "cwd")
    try:
        return AgentSessionRow.model_validate({"session": session, **dict(zip(names, row, strict=True))})
    except ValidationError as error:
        log.warning("store.row_unreadable", table="sessions", session_key=str(session), faults=error.error_count())
        return None


def save_agent_session(connection: sqlite3.Connection, row: AgentSessionRow) -> None:
    connection.execute(
        "INSERT INTO sessions (session, session_key, agent_session_id, agent_command, cwd) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET agent_session_id = excluded.agent_session_id,"
        " agent_command = excluded.agent_command, cwd = excluded.cwd",
        (session_text(row.session), str(row.session), row.agent_session_id, row.agent_command, row.cwd),
    )


def forget_agent_session(connection: sqlite3.Connection, session: SessionKey) -> bool:
    forgotten = connection.execute(
        "UPDATE sessions SET agent_session_id = NULL, agent_command = NULL, cwd = NULL"
        " WHERE session = ? AND agent_session_id IS NOT NULL",
        (session_text(session),),
    )
    return forgotten.rowcount > 0


def hold_notice(connection: sqlite3.Connection, session: SessionKey, text: str | None) -> None:
    connection.execute(
        "INSERT INTO sessions (session, session_key, held_notice) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET held_notice = excluded.held_notice",
        (session_text(session), str(session), text),
    )


def held_notices(connection: sqlite3.Connection) -> dict[SessionKey, str]:
    rows = connection.execute("SELECT session, held_notice FROM sessions WHERE held_notice IS NOT NULL").fetchall()
    return {_session(text): notice for text, notice in rows}


def claim_effect(
    connection: sqlite3.Connection, channel: str, account_id: str | None, message_id: str, effect: str, now_ms: int
) -> bool:
    claimed = connection.execute(
        "INSERT INTO effects (channel, account_id, message_id, effect, claimed_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (channel, account_id, message_id, effect, now_ms),
    )
    return claimed.rowcount > 0


def note_history(connection: sqlite3.Connection, history_key: str, entry: HistoryEntry, limit: int) -> None:
    connection.execute(
        "INSERT INTO history (history_key, message_id, entry) VALUES (?, ?, ?)",
        (history_key, entry.message_id, entry.model_dump_json(exclude_none=True)),
    )
    connection.execute(
        "DELETE FROM history WHERE history_key = ? AND seq <="
        " (SELECT seq FROM history WHERE history_key = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)",
        (history_key, history_key, limit),
    )


def history(connection: sqlite3.Connection, history_key: str, limit: int) -> list[HistoryEntry]:
    """The last `limit`, oldest first; what cannot be read is left out, with a warning."""
    rows = connection.execute(
        "SELECT seq, CAST(entry AS BLOB) FROM history WHERE history_key = ? ORDER BY seq DESC LIMIT ?",
        (history_key, limit),
    ).fetchall()
    entries = []
    for seq, text in reversed(rows):
        try:
            entries.append(HistoryEntry.model_validate_json(text).model_copy(update={"seq": seq}))
        except ValidationError as error:
            log.warning("store.row_unreadable", table="history", seq=seq, faults=error.error_count())
    return entries
