"""`[triage]`: when an unsolicited event may wake the agent (triage.md 2). Checked also where it is off."""

from __future__ import annotations

import difflib
import functools
import re
from importlib import resources
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

YEAR_SECONDS = 31_536_000
EXPECTED_HOURS = "HH:MM-HH:MM, such as 22:00-08:00"
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff0d"
HALF = re.compile(r"\s*([0-9]{1,2}):([0-9]{1,2})\s*")


class QuietHours(NamedTuple):
    """Local minutes of the day: from the start, up to the end. A start later than the end wraps midnight."""

    start_minute: int
    end_minute: int


class TriageSettings(BaseModel):
    """Rules for proactive events; 0 switches a rule off. Nothing here touches what a person wrote."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=False, description="judge proactive events at all")
    quiet_hours: str | None = Field(default=None, description="local, HH:MM-HH:MM; unset or blank: never quiet")
    timezone: str = Field(default="UTC", description="IANA name, exact case")
    cooldown_secs: int = Field(default=900, ge=0, le=YEAR_SECONDS, description="the least time between two wakes")
    daily_cap: int = Field(default=8, ge=0, le=1_000_000, description="the most wakes in a local day")
    dedupe_window_secs: int = Field(default=3600, ge=0, le=YEAR_SECONDS, description="how long a repeat is one")
    quiet_action: Literal["drop", "defer"] = Field(
        default="drop", description="what becomes of an event in quiet hours"
    )
    defer_max_events: int = Field(default=20, ge=1, le=200, description="the most deferred events of a conversation")

    @field_validator("quiet_hours")
    @classmethod
    def _check_quiet_hours(cls, value: str | None) -> str | None:
        if value is None or not value.strip():
            return None
        parse_quiet_hours(value)
        return value

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, value: str) -> str:
        if value not in known_zones():
            near = nearest_zone(value)
            hint = f'did you mean "{near}"?' if near else 'such as "Europe/London"'
            raise ValueError(f"an IANA time zone, {hint}")
        return value

    @property
    def window(self) -> QuietHours | None:
        """The quiet hours, or None if it is never quiet."""
        return parse_quiet_hours(self.quiet_hours) if self.quiet_hours else None


def parse_quiet_hours(text: str) -> QuietHours:
    """Read `HH:MM-HH:MM`; one digit will do, white space around a half is ignored.

    Raises:
        ValueError: it is something else; the message says what is meant.
    """
    if any(dash in text for dash in DASHES):
        raise ValueError(f"{EXPECTED_HOURS}, with a plain hyphen")
    start, _, end = text.partition("-")
    return QuietHours(_parse_minute(start), _parse_minute(end))


def _parse_minute(half: str) -> int:
    match = HALF.fullmatch(half)
    if match is None:
        raise ValueError(EXPECTED_HOURS)
    hour, minute = int(match[1]), int(match[2])
    if hour > 23 or minute > 59:
        raise ValueError(f"{EXPECTED_HOURS}, hour 0 to 23, minute 0 to 59")
    return hour * 60 + minute


@functools.cache
def known_zones() -> frozenset[str]:
    """The names of the time zones whose data comes with the package."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())


def nearest_zone(name: str) -> str | None:
    """The zone that was most likely meant: the same in another case, the same city, or one spelt alike.

    Never one with an offset in its name: their signs are turned round, `Etc/GMT+8` lies west of Greenwich.
    """
    zones = sorted(zone for zone in known_zones() if not any(map(str.isdigit, zone)))
    by_folded = {zone.rpartition("/")[2].lower(): zone for zone in reversed(zones)}
    by_folded |= {zone.lower(): zone for zone in zones}
    near = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.75)
    return by_folded[near[0]] if near else None
