"""Commands, batches and retries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab_kernel.facts.policy import BatchPolicy
from openab_kernel.policies.batch import Waiting, estimate_tokens, next_batch
from openab_kernel.policies.commands import control_command
from openab_kernel.policies.retry import inbound_backoff, is_dead_letter, send_backoff

PLACE = ("c", None)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/cancel", "cancel"),
        ("  /cancel\n", "cancel"),
        ("/reset", "reset"),
        ("/model", "models"),
        ("/models", "models"),
        ("/agent", "agents"),
        ("/agents", "agents"),
        ("/Cancel", None),
        ("/cancel now", None),
        ("please /cancel", None),
        ("//cancel", None),
        ("", None),
    ],
)
def test_command_is_the_exact_text(text: str, command: str | None) -> None:
    """agent 15.32"""
    assert control_command(text) == command


def waiting(*items: tuple[str, bool, int], alone: bool = False) -> list[Waiting]:
    return [Waiting(sender, PLACE, proactive, tokens, alone) for sender, proactive, tokens in items]


A, B = ("a", False, 10), ("b", False, 10)


@pytest.mark.parametrize(
    ("mode", "items", "cap", "tokens", "taken"),
    [
        ("per-message", [A, A], 10, 100, [0]),
        ("per-thread", [A, B, A], 10, 100, [0, 1, 2]),
        ("per-thread", [A, B, A], 2, 100, [0, 1]),
        ("per-thread", [A, B, A], 10, 20, [0, 1]),
        ("per-thread", [("a", False, 999), B], 10, 20, [0]),
        ("per-thread", [A, ("b", True, 1), A], 10, 100, [0]),
        ("per-lane", [A, B, A], 10, 100, [0, 2]),
        ("per-lane", [A, B, ("a", True, 1), A], 10, 100, [0]),
        ("per-lane", [A, B, ("a", False, 95), A], 10, 100, [0]),
    ],
)
def test_batch_takes_what_its_mode_allows(
    mode: str, items: list[tuple[str, bool, int]], cap: int, tokens: int, taken: list[int]
) -> None:
    """agent 15.30"""
    policy = BatchPolicy.model_validate({"mode": mode, "max_buffered_messages": cap, "max_batch_tokens": tokens})
    assert next_batch(waiting(*items), policy) == taken


def test_message_that_must_run_alone_is_never_joined() -> None:
    """agent 15.30"""
    policy = BatchPolicy(mode="per-thread")
    alone = waiting(A, alone=True)
    assert next_batch([*alone, *waiting(A)], policy) == [0]
    assert next_batch([*waiting(A), *alone], policy) == [0]


def test_another_place_ends_the_batch() -> None:
    """agent 15.30"""
    other = Waiting("a", ("c", "thread"), False, 1)
    assert next_batch([*waiting(A), other, *waiting(A)], BatchPolicy(mode="per-thread")) == [0]


items = st.builds(
    Waiting,
    sender_id=st.sampled_from(["a", "b", None]),
    place=st.sampled_from([PLACE, ("c", "t")]),
    proactive=st.booleans(),
    tokens=st.integers(1, 50),
    alone=st.booleans(),
)
policies = st.builds(
    BatchPolicy,
    mode=st.sampled_from(["per-message", "per-thread", "per-lane"]),
    max_buffered_messages=st.integers(1, 5),
    max_batch_tokens=st.integers(1, 120),
)


@given(st.lists(items, min_size=1, max_size=8), policies)
def test_any_batch_begins_with_the_first_keeps_order_and_respects_the_caps(
    queue: list[Waiting], policy: BatchPolicy
) -> None:
    """agent 15.30"""
    taken = next_batch(queue, policy)
    chosen = [queue[index] for index in taken]
    assert taken[0] == 0
    assert taken == sorted(set(taken))
    assert len(taken) <= policy.max_buffered_messages
    assert len(taken) == 1 or sum(item.tokens for item in chosen) <= policy.max_batch_tokens
    assert len({(item.place, item.proactive) for item in chosen}) == 1
    if policy.mode == "per-lane":
        assert len({item.sender_id for item in chosen}) == 1


def test_size_is_estimated_from_characters_and_images() -> None:
    """agent 15.30"""
    assert estimate_tokens(["x" * 8, ""], images=2) == 3 + 1 + 1024


def test_pauses_between_tries_grow_to_their_cap() -> None:
    assert [send_backoff(count) for count in (1, 2, 3, 4, 9)] == [5, 25, 120, 600, 600]
    assert [inbound_backoff(attempts) for attempts in (1, 2, 3, 8, 9, 50)] == [1, 2, 4, 128, 180, 180]


@pytest.mark.parametrize(
    ("attempts", "hours", "dead"), [(8, 24, True), (7, 48, False), (8, 23.9, False), (20, 24, True)]
)
def test_message_is_given_up_after_eight_tries_and_a_day(attempts: int, hours: float, dead: bool) -> None:
    assert is_dead_letter(attempts, int(hours * 3_600_000)) == dead
