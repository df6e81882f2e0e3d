"""Who wins where a setting stands in several places: variables < the section < the platform's own section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openab_kernel.config.faults import Fault
from openab_kernel.config.openab import ACCESS, LISTS, NARROWING, VARIABLES
from openab_kernel.policies.channel_section import ChannelSection

SHARED = frozenset(ChannelSection.model_fields)


def group_of(key: str) -> frozenset[str]:
    """The keys that are read together with this one, itself included."""
    return next((group for group in ACCESS if key in group), frozenset((key,)))


def from_variables(section: str, table: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """What variables say of keys that the section leaves open. Never more than was written: see `ACCESS`."""
    found: dict[str, Any] = {}
    for key in VARIABLES.get(section, ()):
        text = environ.get(variable(section, key))
        if text is not None and table.keys().isdisjoint(group_of(key)):
            found[key] = _read(key, text)
    return found


def variable(section: str, key: str) -> str:
    """The name of the variable that stands in for a key."""
    return f"{section}_{key}".upper()


def with_platform(gateway: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`[gateway]`, overruled by what the platform's own section says of the keys that all channels share."""
    overruled = frozenset[str]().union(*map(group_of, own))
    return {key: value for key, value in gateway.items() if key not in overruled} | dict(own)


def narrowing(platform: str, own: Mapping[str, Any]) -> list[Fault]:
    """Keys of the platform's own section that we cannot follow: without them, more would be admitted."""
    reason = f'narrows who is heard through [gateway] platform = "{platform}", which this version cannot do'
    return [Fault((platform, key), reason, "take one of the two out") for key in own if key in NARROWING]


def _read(key: str, text: str) -> Any:
    if key in LISTS:
        return [part.strip() for part in text.split(",")] if text.strip() else []
    words = {"true": True, "1": True, "false": False, "0": False}
    return words.get(text.strip().lower(), text) if key.startswith("allow_") else text
