from __future__ import annotations

from openab_kernel.storage.recent import KEPT_IDS, RecentMessages


def test_message_is_known_for_20_minutes() -> None:
    now = 100.0
    recent = RecentMessages(lambda: now)
    recent.add(("discord", None, "m1"))
    assert ("discord", "", "m1") not in recent
    now += 20 * 60 - 1
    assert ("discord", None, "m1") in recent
    now += 1
    assert ("discord", None, "m1") not in recent


def test_no_more_than_5000_are_known_and_the_oldest_leave() -> None:
    recent = RecentMessages(lambda: 0.0)
    for number in range(KEPT_IDS + 2):
        recent.add(("discord", None, str(number)))
    assert KEPT_IDS == 5_000 == len(recent)
    assert [("discord", None, str(number)) in recent for number in (0, 1, 2, KEPT_IDS + 1)] == [
        False,
        False,
        True,
        True,
    ]
