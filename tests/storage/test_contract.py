"""What every store promises (interfaces/store.py), the one in memory included."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from openab_kernel.facts.admission import ObserveOnly
from openab_kernel.facts.conversation import SessionKey
from openab_kernel.facts.message import HistoryEntry
from openab_kernel.interfaces.store import AgentSessionRow, Store
from openab_kernel.testing.clock import ManualClock
from tests.storage.cases import (
    DAY_MS,
    Opener,
    complete,
    message,
    record,
    request,
    running,
    session,
    waiting_ids,
)

# ── Record and dedupe ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("admission", [message().admission, ObserveOnly(reason="observe_only")])
async def test_recorded_message_comes_back_as_it_was(reopen: Opener, admission: Any) -> None:
    async with running(reopen()) as store:
        wanted = request(admission=admission, thread_id="t1", event_id="e1", sender_id="u1")
        recorded = await store.record(wanted)
        assert recorded is not None
        assert recorded.message == wanted.message
        assert await store.waiting(session(), after_seq=0, limit=9) == [recorded]


async def test_same_message_is_recorded_once(reopen: Opener) -> None:
    async with running(reopen()) as store:
        assert await store.record(request()) is not None
        assert await store.record(request()) is None
        assert await waiting_ids(store) == ["m1"]


async def test_of_copies_recorded_at_once_one_wins(reopen: Opener) -> None:
    won = []

    async def copy(store: Store) -> None:
        won.append(await store.record(request()))

    async with running(reopen()) as store:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(copy, store)
        assert len([one for one in won if one is not None]) == 1
        assert await waiting_ids(store) == ["m1"]


@pytest.mark.parametrize(
    "other",
    [
        {"agent_id": "second"},
        {"channel": "slack"},
        {"account_id": "other"},
        {"account_id": None},
        {"account_id": ""},
        {"conversation_id": "c2"},
        {"thread_id": "t1"},
        {"thread_id": ""},
        {"thread_id": "c1"},
        {"message_id": "m2"},
        {"dedupe_epoch": "2026-07-01T12:00:00Z"},
    ],
    ids=str,
)
async def test_each_part_of_the_dedupe_key_keeps_messages_apart(reopen: Opener, other: dict[str, Any]) -> None:
    async with running(reopen()) as store:
        assert await store.record(request()) is not None
        assert await store.record(request(**other)) is not None
        assert await store.record(request(**other)) is None


async def test_missing_account_and_thread_equal_themselves(reopen: Opener) -> None:
    async with running(reopen()) as store:
        assert await store.record(request(account_id=None, thread_id=None)) is not None
        assert await store.record(request(account_id=None, thread_id=None)) is None


async def test_refused_copy_changes_nothing_of_a_session(reopen: Opener) -> None:
    async with running(reopen()) as store:
        await record(store)
        assert await store.record(request(session=session("c2"))) is None
        assert await waiting_ids(store, session("c2")) == []


async def test_message_is_known_by_channel_account_and_id(reopen: Opener) -> None:
    async with running(reopen()) as store:
        assert not await store.has_message("discord", "bot", "m1")
        await record(store)
        assert await store.has_message("discord", "bot", "m1")
        assert not await store.has_message("discord", None, "m1")
        assert not await store.has_message("discord", "", "m1")
        assert not await store.has_message("slack", "bot", "m1")
        assert not await store.has_message("discord", "bot", "m2")


async def test_message_without_account_is_known_by_that(reopen: Opener) -> None:
    async with running(reopen()) as store:
        await record(store, account_id=None)
        assert await store.has_message("discord", None, "m1")
        assert not await store.has_message("discord", "bot", "m1")


async def test_known_messages_survive_a_restart(reopen: Opener) -> None:
    async with running(reopen()) as store:
        await complete(store, "t1", await record(store))
    async with running(reopen()) as store:
        assert await store.has_message("discord", "bot", "m1")
        assert await store.record(request()) is None


@pytest.mark.parametrize(("age_days", "is_known"), [(29, True), (31, False)])
async def test_completed_message_is_known_for_30_days(
    reopen: Opener, clock: ManualClock, age_days: int, is_known: bool
) -> None:
    now_ms = int(clock.now().timestamp() * 1000)
    async with running(reopen()) as store:
        await complete(store, "t1", await record(store, received_at=now_ms))
    await clock.advance(age_days * DAY_MS / 1000)
    async with running(reopen()) as store:
        assert await store.has_message("discord", "bot", "m1") == is_known
        assert (await store.record(request()) is None) == is_known


async def test_message_that_waits_or_was_parked_is_not_forgotten(reopen: Opener, clock: ManualClock) -> None:
    async with running(reopen()) as store:
        await record(store, "waits", received_at=1)
        await store.park([await record(store, "parked", received_at=1)], "failed:StoreError")
    async with running(reopen()) as store:
        assert await waiting_ids(store) == ["waits"]
        assert await store.record(request("parked")) is None


# ── Sessions ──────────────────────────────────────────────────────────────────────────────────────

NEIGHBOURS = [
    (SessionKey("a", None, "b:c", None, "direct", None), SessionKey("a:b", None, "c", None, "direct", None)),
    (session(thread_id=None), session(thread_id="")),
    (session(thread_id=None), session(thread_id="c1")),
    (session("c1", thread_id="t"), session("t", thread_id="c1")),
    (session(account_id=None), session(account_id="None")),
    (session(account_id=None), session(account_id="null")),
    (session('"'), session("'")),
    (session("c1"), session("C1")),
]


@pytest.mark.parametrize(("one", "other"), NEIGHBOURS, ids=str)
async def test_keys_that_differ_are_two_sessions(reopen: Opener, one: SessionKey, other: SessionKey) -> None:
    async with running(reopen()) as store:
        await record(store, "m1", session=one)
        await record(store, "m2", session=other)
        assert await waiting_ids(store, one) == ["m1"]
        assert await waiting_ids(store, other) == ["m2"]
        heads = await store.waiting_sessions(after_seq=0, limit=9)
        assert [head.message.session for head in heads] == [one, other]


async def test_thread_that_is_named_like_its_channel_keeps_its_messages_apart(reopen: Opener) -> None:
    async with running(reopen()) as store:
        assert await store.record(request(conversation_id="c1", thread_id=None)) is not None
        assert await store.record(request(conversation_id="c1", thread_id="c1")) is not None
        assert await waiting_ids(store) == ["m1", "m1"]


def agent_row(**changes: Any) -> AgentSessionRow:
    fields = {"session": session(), "agent_session_id": "s1", "agent_command": "agent --acp", "cwd": "/home/a"}
    return AgentSessionRow.model_validate({**fields, **changes})


async def test_agent_session_is_kept_replaced_and_forgotten(reopen: Opener) -> None:
    async with running(reopen()) as store:
        assert await store.agent_session(session()) is None
        await store.save_agent_session(agent_row())
        await store.save_agent_session(agent_row(agent_session_id="s2", cwd="/home/b"))
    async with running(reopen()) as store:
        assert await store.agent_session(session()) == agent_row(agent_session_id="s2", cwd="/home/b")
        assert await store.agent_session(session("c2")) is None
        assert await store.forget_agent_session(session())
        assert await store.agent_session(session()) is None
        assert not await store.forget_agent_session(session())


async def test_agent_session_and_notice_outlive_a_new_message(reopen: Opener) -> None:
    async with running(reopen()) as store:
        await store.save_agent_session(agent_row())
        await store.hold_notice(session(), "started afresh")
        await record(store)
        assert await store.agent_session(session()) == agent_row()
        assert await store.held_notices() == {session(): "started afresh"}


async def test_notice_is_kept_until_it_is_taken_away(reopen: Opener) -> None:
    async with running(reopen()) as store:
        await store.hold_notice(session(), "first")
        await store.hold_notice(session(), "second")
        await store.hold_notice(session("c2"), "other")
        await store.hold_notice(session("c3"), None)
    async with running(reopen()) as store:
        assert await store.held_notices() == {session(): "second", session("c2"): "other"}
        await store.hold_notice(session(), None)
        assert await store.held_notices() == {session("c2"): "other"}


# ── Waiting ───────────────────────────────────────────────────────────────────────────────────────


async def test_messages_wait_in_order_of_arrival(reopen: Opener) -> None:
    async with running(reopen()) as store:
        seqs = [await record(store, f"m{number}", received_at=9 - number) for number in range(5)]
        assert seqs == sorted(seqs)
        assert await waiting_ids(store) == ["m0", "m1", "m2", "m3", "m4"]
        assert await waiting_ids(store, limit=2) == ["m0", "m1"]
        assert await waiting_ids(store, after_seq=seqs[1], limit=2) == ["m2", "m3"]
        assert await waiting_ids(store, after_seq=seqs[4]) == []


async def test_each_session_shows_its_oldest_waiting_message(reopen: Opener) -> None:
    async with running(reopen()) as store:
        seqs = {
            name: await record(store, name, session=session(name[0])) for name in ("b1", "a1", "a2", "c1", "b2", "c2")
        }

        async def heads(after: str | None = None, limit: int = 9) -> list[str]:
            found = await store.waiting_sessions(after_seq=seqs[after] if after else 0, limit=limit)
            return [one.message.message_id for one in found]

        assert await heads() == ["b1", "a1", "c1"]
        assert await heads(limit=2) == ["b1", "a1"]
        assert await heads(after="a1") == ["c1"]
        assert await store.adopt("t1", session("b"), [seqs["b1"]], 1)
        assert await heads() == ["a1", "c1", "b2"]


async def test_waiting_messages_survive_a_restart(reopen: Opener) -> None:
    async with running(reopen()) as store:
        await record(store, "m1")
        taken = await record(store, "m2")
        await record(store, "m3")
        await complete(store, "t1", taken)
    async with running(reopen()) as store:
        assert await store.interrupt_started_turns() == []
        assert await waiting_ids(store) == ["m1", "m3"]
        assert await record(store, "m4") > taken


async def test_released_message_waits_on_and_its_attempts_are_counted(reopen: Opener) -> None:
    async with running(reopen()) as store:
        seq = await record(store)
        assert await store.release(seq, not_before=7, error="StoreError") == 1
        assert await store.release(seq, not_before=8, error="StoreError") == 2
        assert await waiting_ids(store) == ["m1"]


async def test_message_that_does_not_wait_is_not_released(reopen: Opener) -> None:
    async with running(reopen()) as store:
        seq = await record(store)
        await store.release(seq, not_before=7, error="StoreError")
        await store.park([seq], "failed:StoreError")
        assert await store.release(seq, not_before=7, error="StoreError") == 0
        assert await store.release(seq + 1, not_before=7, error="StoreError") == 0
        assert await waiting_ids(store) == []


async def test_parked_message_is_not_taken_again_but_known(reopen: Opener) -> None:
    async with running(reopen()) as store:
        first, second = await record(store, "m1"), await record(store, "m2")
        await store.park([first], "failed:StoreError")
        assert await waiting_ids(store) == ["m2"]
        assert [one.seq for one in await store.waiting_sessions(after_seq=0, limit=9)] == [second]
        assert not await store.adopt("t1", session(), [first], 1)
        assert await store.record(request("m1")) is None


async def test_completed_message_cannot_be_parked(reopen: Opener) -> None:
    async with running(reopen()) as store:
        seq = await record(store)
        await complete(store, "t1", seq)
        await store.park([seq], "late")
        assert await store.has_message("discord", "bot", "m1")
        assert await waiting_ids(store) == []


# ── Turns ─────────────────────────────────────────────────────────────────────────────────────────


async def test_adopted_messages_wait_no_more(reopen: Opener) -> None:
    async with running(reopen()) as store:
        seqs = [await record(store, f"m{number}") for number in range(3)]
        assert await store.adopt("t1", session(), seqs[:2], 1)
        assert await waiting_ids(store) == ["m2"]


async def test_of_two_turns_that_adopt_one_message_one_gets_it(reopen: Opener) -> None:
    won = []

    async def take(store: Store, turn_id: str, seq: int) -> None:
        won.append(await store.adopt(turn_id, session(), [seq], 1))

    async with running(reopen()) as store:
        seq = await record(store)
        async with anyio.create_task_group() as group:
            group.start_soon(take, store, "t1", seq)
            group.start_soon(take, store, "t2", seq)
        assert sorted(won) == [False, True]
    async with running(reopen()) as store:
        assert len(await store.interrupt_started_turns()) == 1


@pytest.mark.parametrize("others", ["taken", "unknown", "twice"])
async def test_turn_that_cannot_have_all_its_messages_takes_none(reopen: Opener, others: str) -> None:
    async with running(reopen()) as store:
        first, second = await record(store, "m1"), await record(store, "m2")
        assert await store.adopt("t1", session(), [second], 1)
        wanted = {"taken": [first, second], "unknown": [first, second + 99], "twice": [first, first]}[others]
        assert not await store.adopt("t2", session(), wanted, 1)
        assert await waiting_ids(store) == ["m1"]
        assert await store.adopt("t2", session(), [first], 1)


async def test_turn_without_messages_can_be_started_and_closed(reopen: Opener) -> None:
    async with running(reopen()) as store:
        assert await store.adopt("t1", session(), [], 1)
        await store.finish_turn("t1", "done", None)
        assert await store.adopt("t2", session(), [], 1)
    async with running(reopen()) as store:
        assert await store.interrupt_started_turns() == []


async def test_started_turn_is_interrupted_once_with_its_newest_message(reopen: Opener) -> None:
    async with running(reopen()) as store:
        seqs = [await record(store, f"m{number}") for number in range(4)]
        assert await store.adopt("t1", session(), [seqs[1], seqs[0]], 10)
        assert await store.adopt("t2", session(), [seqs[3]], 20)
    async with running(reopen()) as store:
        first, second = await store.interrupt_started_turns()
        assert (first.turn.turn_id, first.message) == ("t1", message("m1"))
        assert (second.turn.turn_id, second.message) == ("t2", message("m3"))
        assert first.turn.session == session()
        assert (first.turn.state, first.turn.outcome, first.turn.started_at) == ("interrupted", "interrupted", 10)
        assert await store.interrupt_started_turns() == []
        assert await waiting_ids(store) == ["m2"]
    async with running(reopen()) as store:
        assert await store.interrupt_started_turns() == []
        assert await store.record(request("m1")) is None


@pytest.mark.parametrize("end", ["stopped", "finished"])
async def test_turn_whose_agent_had_stopped_is_not_interrupted(reopen: Opener, end: str) -> None:
    async with running(reopen()) as store:
        assert await store.adopt("t1", session(), [await record(store)], 1)
        await store.stop_turn("t1")
        if end == "finished":
            await store.finish_turn("t1", "failed", "timeout")
    async with running(reopen()) as store:
        assert await store.interrupt_started_turns() == []
        assert await waiting_ids(store) == []
        assert await store.record(request("m1")) is None


async def test_closing_a_turn_again_or_one_that_never_was_changes_nothing(reopen: Opener) -> None:
    async with running(reopen()) as store:
        assert await store.adopt("t1", session(), [await record(store)], 1)
        for _ in range(2):
            await store.finish_turn("t1", "done", None)
            await store.stop_turn("t1")
        await store.finish_turn("unknown", "done", None)
        await store.stop_turn("unknown")
    async with running(reopen()) as store:
        assert await store.interrupt_started_turns() == []


async def test_waiting_message_whose_callback_died_is_parked_at_start(reopen: Opener) -> None:
    async with running(reopen()) as store:
        await record(store, "prepared", resumable=False)
        await record(store, "assembled")
        adopted = await record(store, "adopted", resumable=False)
        assert await store.adopt("t1", session(), [adopted], 1)
    async with running(reopen()) as store:
        (interrupted,) = await store.interrupt_started_turns()
        assert interrupted.message.message_id == "adopted"
        assert await waiting_ids(store) == ["assembled"]
        assert await store.record(request("prepared")) is None


# ── Effects and history ───────────────────────────────────────────────────────────────────────────


async def test_effect_is_claimed_once(reopen: Opener) -> None:
    claim = ("discord", None, "m1", "command:reset")
    async with running(reopen()) as store:
        assert await store.claim_effect(*claim)
        assert not await store.claim_effect(*claim)
        assert await store.claim_effect("discord", None, "m1", "command:cancel")
        assert await store.claim_effect("discord", None, "m2", "command:reset")
        assert await store.claim_effect("discord", "bot", "m1", "command:reset")
        assert await store.claim_effect("slack", None, "m1", "command:reset")
    async with running(reopen()) as store:
        assert not await store.claim_effect(*claim)


async def test_window_keeps_its_newest_entries_in_order(reopen: Opener) -> None:
    async with running(reopen()) as store:
        for number in range(5):
            await store.note_history("c1", HistoryEntry(sender="u1", body=f"b{number}"), limit=3)
        await store.note_history("c2", HistoryEntry(sender="u2", body="other"), limit=3)
        await store.note_history("c2", HistoryEntry(sender="u2", body="off"), limit=0)
    async with running(reopen()) as store:
        window = await store.history("c1", limit=9)
        assert [entry.body for entry in window] == ["b2", "b3", "b4"]
        assert [entry.seq for entry in window] == sorted({entry.seq for entry in window})
        assert [entry.body for entry in await store.history("c1", limit=2)] == ["b3", "b4"]
        assert await store.history("c1", limit=0) == []
        assert [entry.body for entry in await store.history("c2", limit=9)] == ["other"]


async def test_message_that_was_noted_and_is_then_recorded_leaves_its_window(reopen: Opener) -> None:
    async with running(reopen()) as store:
        for message_id in ("m1", "m2", None):
            await store.note_history("c1", HistoryEntry(sender="u1", body="b", message_id=message_id), limit=9)
            await store.note_history("c2", HistoryEntry(sender="u1", body="b", message_id=message_id), limit=9)
        await record(store, "m1", history_key="c1")
        assert [entry.message_id for entry in await store.history("c1", limit=9)] == ["m2", None]
        assert [entry.message_id for entry in await store.history("c2", limit=9)] == ["m1", "m2", None]
