import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from openab_kernel.policies.triage_settings import (
    QuietHours,
    TriageSettings,
    known_zones,
    nearest_zone,
    parse_quiet_hours,
)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("22:00-08:00", (1320, 480)),
        ("7:5-8:0", (425, 480)),
        ("  00:00 -  23:59 ", (0, 1439)),
        ("08:00-08:00", (480, 480)),
    ],
)
def test_quiet_hours_are_read(text, window):
    assert TriageSettings(quiet_hours=text).window == QuietHours(*window)


@pytest.mark.parametrize("text", [None, "", "  "])
def test_blank_quiet_hours_are_never_quiet(text):
    assert TriageSettings(quiet_hours=text).window is None


@pytest.mark.parametrize(
    "text",
    [
        "22:00",
        "24:00-08:00",
        "22:60-08:00",
        "22-08",
        "a:b-c:d",
        "22:00-08:00-09:00",
        "222:00-08:00",
        "٢٢:00-08:00",
        "-",
    ],
)
def test_quiet_hours_that_cannot_be_read_are_refused_with_the_form(text):
    with pytest.raises(ValidationError, match="HH:MM-HH:MM"):
        TriageSettings(quiet_hours=text)


@pytest.mark.parametrize("dash", ["\u2010", "\u2013", "\u2014", "\u2212"])
def test_dash_is_told_from_a_hyphen(dash):
    with pytest.raises(ValueError, match="plain hyphen"):
        parse_quiet_hours(f"22:00{dash}08:00")


@given(st.text(alphabet="0123456789:- \u2013a", max_size=14))
def test_any_text_is_a_window_within_the_day_or_refused(text):
    try:
        window = parse_quiet_hours(text)
    except ValueError:
        return
    assert all(0 <= minute < 1440 for minute in window)


@pytest.mark.parametrize(
    ("zone", "near"),
    [
        ("Taipei", "Asia/Taipei"),
        ("asia/taipei", "Asia/Taipei"),
        ("Europe/Lodon", "Europe/London"),
        ("new york", "America/New_York"),
        ("UTC+8", "UTC"),
        ("../etc", None),
        ("", None),
        ("xyzzy", None),
    ],
)
def test_unknown_time_zone_is_refused_with_the_nearest_name(zone, near):
    assert nearest_zone(zone) == near
    with pytest.raises(ValidationError, match=f'did you mean "{near}"' if near else "an IANA time zone, such as"):
        TriageSettings(timezone=zone)


def test_offset_is_never_answered_by_a_zone_with_the_sign_turned_round():
    assert nearest_zone("GMT+8") == "GMT"


def test_time_zones_come_with_the_package():
    assert {"UTC", "Asia/Taipei", "Australia/Lord_Howe"} <= known_zones()
    assert TriageSettings(timezone="Asia/Taipei").timezone == "Asia/Taipei"


@pytest.mark.parametrize(
    "keys",
    [
        {"cooldown_secs": -1},
        {"cooldown_secs": 31_536_001},
        {"daily_cap": 1_000_001},
        {"dedupe_window_secs": -1},
        {"defer_max_events": 0},
        {"defer_max_events": 201},
        {"quiet_action": "later"},
        {"quiet_hour": "22:00-08:00"},
    ],
)
def test_value_out_of_bounds_is_refused(keys):
    with pytest.raises(ValidationError):
        TriageSettings(**keys)


def test_defaults_are_those_of_the_specification():
    assert TriageSettings().model_dump() == {
        "enabled": False,
        "quiet_hours": None,
        "timezone": "UTC",
        "cooldown_secs": 900,
        "daily_cap": 8,
        "dedupe_window_secs": 3600,
        "quiet_action": "drop",
        "defer_max_events": 20,
    }
