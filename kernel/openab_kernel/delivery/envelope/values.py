"""What the readers make of text: JSON values, but for objects, which keep all their keys, and for what was cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

# What is wrong with the text of a value, although it could be read. `other` is never repaired.
Flaw = Literal["raw_control", "trailing_comma", "other"]

NOTHING: Final = object()
"""Stands where the value of a key had not come yet."""


class Members(list[tuple[str, Any]]):
    """The members of an object in order, repeated keys too."""

    def values_of(self, key: str) -> list[Any]:
        """All values of `key`, which is in lower case; keys are compared without case and outer white space."""
        return [value for name, value in self if fold(name) == key]

    def keys_folded(self) -> set[str]:
        return {fold(name) for name, _ in self}


class Cut(str):
    """As much of a string as came before the text ended."""

    __slots__ = ()


class Bare(str):
    """A word that stands without quotes where a value should stand, and means nothing in JSON or Python."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that was read. `end` is the index after it.

    `state` says how far the reader came: `cut` if the text ended inside the value, `broken` if it is none; then
    `value` holds what had been read.
    """

    value: Any
    end: int
    flaws: frozenset[Flaw] = frozenset()
    state: Literal["whole", "cut", "broken"] = "whole"


def fold(key: str) -> str:
    """A key as keys are compared."""
    return key.strip().casefold()


def walk(value: Any) -> Iterator[Any]:
    """`value` and everything in it, in document order: objects, arrays, keys, strings and the rest."""
    yield value
    if isinstance(value, Members):
        for key, member in value:
            yield key
            yield from walk(member)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


def plain(value: Any) -> Any:
    """The value as everybody else knows it: objects as dicts."""
    if isinstance(value, Members):
        return {key: plain(member) for key, member in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
