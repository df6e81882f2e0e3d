"""Faults of a configuration file: where, what was found, what was meant. A secret is shown by its kind."""

from __future__ import annotations

import difflib
import json
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from openab_kernel.config import openab
from openab_kernel.redact import printable

Loc = tuple[str | int, ...]
"""The way to a value: section, key, and further keys and indexes."""

SHOWN_CHARS = 80
PARTS = dict.fromkeys(("tuple_type", "list_type", "set_type", "frozen_set_type"), "an array")
PARTS |= dict.fromkeys(("dict_type", "model_type"), "a table")
SECRET_NAME = re.compile(
    r"(?:^|[_-])[a-z0-9]*(?:token|secret|passw(?:or)?d|passphrase|key|credentials?)(?:$|[_-])", re.IGNORECASE
)


class Fault(NamedTuple):
    """One fault, and the way to it."""

    loc: Loc
    found: str
    expected: str


def in_words(expected: str) -> str:
    """What was expected, as the end of a sentence: a bare noun says what the value must be."""
    return f"must be {expected}" if expected.startswith(("a ", "an ", "one of ", "true or ")) else expected


def show_place(loc: Loc) -> str:
    """`[section]`, `section.key` or `section.key[0].name`."""
    first, *rest = map(_show_key, loc)
    return f"[{first}]" if not rest else first + "".join(part if part[0] == "[" else f".{part}" for part in rest)


def _show_key(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return key if re.fullmatch(r"[\w-]+", key) else printable(json.dumps(key, ensure_ascii=False), SHOWN_CHARS)


def show(value: Any, *, is_secret: bool = False) -> str:
    """What was found, in the words of TOML; of a secret and of anything with parts only the kind."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() if not value.strip():
            return "an empty string"
        case str() if is_secret:
            return "a string"
        case str():
            return f'"{printable(value, SHOWN_CHARS)}"'
        case int() | float():
            return "a number" if is_secret else printable(str(value), SHOWN_CHARS)
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or time without quotes"


def looks_secret(name: str) -> bool:
    """Is this the name of a key or variable whose value nobody should see?"""
    return SECRET_NAME.search(name) is not None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was most likely meant: spelt alike, or with `name` as one of its words."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower().replace("-", "_"), names, n=1, cutoff=0.6)
    by_word = [candidate for candidate in names if name.lower() in candidate.split("_")]
    return next(iter(near or by_word), None)


def unknown(loc: Loc, what: str, known: Iterable[str]) -> Fault:
    """Nobody knows this name. `what` is it: a key, a section."""
    names = sorted(known)
    near = nearest(str(loc[-1]), names)
    return Fault(loc, f"unknown {what}", f"did you mean {near}?" if near else f"known: {', '.join(names) or 'none'}")


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """A settings class's fields by the key that is written in the file."""
    return {
        field.validation_alias if isinstance(field.validation_alias, str) else name: field
        for name, field in model.model_fields.items()
    }


def translate(model: type[BaseModel], section: str, table: Mapping[str, Any], error: ErrorDetails) -> Fault:
    """Say in our words what pydantic found wrong with a section."""
    loc, field, parent = _follow(model, error["loc"])
    value: Any = table
    for key in loc:
        value = value.get(key) if isinstance(value, dict) else value[key]
    where: Loc = (section, *loc)
    match error["type"]:
        case "extra_forbidden":
            others = openab.SECTIONS.get(section, ()) if len(loc) == 1 else ()
            return unknown(where, "key", {*keys_of(parent), *others})
        case "missing":
            return Fault(where, "missing", _describe(field) or "a value")
        case "value_error" if not loc:
            found, _, meant = _read_message(error).partition("; ")
            return Fault(where, found, meant or "change one of them")
    is_secret = is_secret_field(field) or any(isinstance(key, str) and looks_secret(key) for key in loc)
    return Fault(where, show(value, is_secret=is_secret or loc[:1] == ("env",)), _expect(error, field))


def find_coerced(model: type[BaseModel], table: Mapping[str, Any], loc: Loc) -> Iterator[Fault]:
    """Find numbers and booleans of another type, which pydantic would quietly turn into what was meant."""
    for key, field in keys_of(model).items():
        value, nested = table.get(key), _model_in(field)
        if nested is not None and isinstance(value, dict):
            yield from find_coerced(nested, value, (*loc, key))
        kinds = _kinds_of(field)
        allowed = kinds | {int} if float in kinds else kinds
        if kinds <= {bool, int, float} and isinstance(value, str | bool | int | float) and type(value) not in allowed:
            yield Fault((*loc, key), show(value, is_secret=looks_secret(key)), _describe(field))


def is_secret_field(field: FieldInfo | None) -> bool:
    """Does the field hold a secret?"""
    return field is not None and SecretStr in _kinds_of(field)


def _kinds_of(field: FieldInfo) -> set[Any]:
    """The types that a field takes; None is not counted."""
    is_union = typing.get_origin(field.annotation) in (typing.Union, types.UnionType)
    return {*(typing.get_args(field.annotation) if is_union else [field.annotation])} - {type(None)}


def _follow(model: type[BaseModel], way: Loc) -> tuple[Loc, FieldInfo | None, type[BaseModel]]:
    """Go down from a settings class as far as it reaches.

    Returns:
        The way without what pydantic adds for unions; the field that it ends in; the class that it ends in.
    """
    loc: list[str | int] = []
    field: FieldInfo | None = None
    for key in way:
        nested = model if field is None else _model_in(field)
        if nested is not None and isinstance(key, str):
            model, field = nested, keys_of(nested).get(key)
        elif field is None or not (isinstance(key, int) or typing.get_origin(field.annotation) is dict):
            break
        loc.append(key)
    return tuple(loc), field, model


def _model_in(field: FieldInfo) -> type[BaseModel] | None:
    kinds = (field.annotation, *typing.get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _expect(error: ErrorDetails, field: FieldInfo | None) -> str:
    kind = error["type"]
    if kind == "value_error":
        return _read_message(error)
    if kind == "literal_error":
        words: str = error["ctx"]["expected"]
        return "one of " + words.replace("'", '"').replace(" or ", ", ")
    if kind == "string_type" and isinstance(error["loc"][-1], int):
        return "a string, in quotes"
    if kind in PARTS:
        return PARTS[kind]
    words = error["msg"].removeprefix("Input should be ").removeprefix("String should ")
    return words if kind == "string_pattern_mismatch" else _describe(field) or words


def _read_message(error: ErrorDetails) -> str:
    message: object = error["ctx"]["error"]
    return str(message)


def _describe(field: FieldInfo | None) -> str:
    """The values a field takes, in words; empty if they are not that simple."""
    if field is None:
        return ""
    kinds = _kinds_of(field)
    if kinds == {bool}:
        return "true or false"
    if kinds in ({str}, {SecretStr}):
        return "a string"
    if kinds in ({int}, {float}):
        return ("a whole number" if int in kinds else "a number") + _bounds(field)
    return ""


def _bounds(field: FieldInfo) -> str:
    words: list[str] = []
    for limit in field.metadata:
        match limit:
            case Ge(ge=low):
                words.append(f"{low} or more")
            case Gt(gt=low):
                words.append(f"more than {low}")
            case Le(le=high):
                words.append(f"at most {high}")
            case Lt(lt=high):
                words.append(f"less than {high}")
    return "".join(f", {word}" for word in words)
