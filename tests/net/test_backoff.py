from __future__ import annotations

from openab_kernel.net.backoff import Backoff


def test_pauses_grow_and_the_last_one_stays() -> None:
    backoff = Backoff()
    assert [backoff.next_seconds() for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_success_begins_again_with_the_shortest_pause() -> None:
    backoff = Backoff((1, 5))
    backoff.next_seconds()
    backoff.next_seconds()
    backoff.reset()
    assert backoff.next_seconds() == 1
