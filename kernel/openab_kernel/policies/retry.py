"""How long to wait before the next try, and when to stop trying."""

from __future__ import annotations

SEND_BACKOFF_SECONDS = (5.0, 25.0, 120.0, 600.0)
RECORD_DELAYS_SECONDS = (0.0, 0.1, 0.3)
INBOUND_MAX_ATTEMPTS = 8
INBOUND_MIN_AGE_MS = 24 * 3600 * 1000


def send_backoff(retry_count: int) -> float:
    """Seconds to wait after the `retry_count`th failed try of a send, counted from 1 (outbound.md 13.4)."""
    return SEND_BACKOFF_SECONDS[min(retry_count, len(SEND_BACKOFF_SECONDS)) - 1]


def inbound_backoff(attempts: int) -> float:
    """Seconds until a message that could not be adopted is tried again: 1, doubling, at most 180 (outbound.md 14)."""
    return float(min(2 ** (attempts - 1), 180))


def is_dead_letter(attempts: int, age_ms: int) -> bool:
    """Enough tries and old enough: set it aside for a person."""
    return attempts >= INBOUND_MAX_ATTEMPTS and age_ms >= INBOUND_MIN_AGE_MS
