"""Turns the tables of a configuration file into settings, and notes every fault on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from openab_kernel.config import openab
from openab_kernel.config.faults import (
    Fault,
    Loc,
    find_coerced,
    in_words,
    is_secret_field,
    keys_of,
    looks_secret,
    nearest,
    show,
    show_place,
    translate,
    unknown,
)
from openab_kernel.config.precedence import SHARED, from_variables, narrowing, variable, with_platform
from openab_kernel.config.variables import REFERENCE, Expander
from openab_kernel.errors import ConfigProblem
from openab_kernel.policies.channel_section import ChannelSection
from openab_kernel.redact import Redactor

OURS: dict[str, Any] = {"web": openab.FREE, "gateway": {"hello": openab.LEAF, "token_query": openab.LEAF}}
"""What plugins of ours add to the names of OpenAB, known also where they are not loaded."""


class Notice(NamedTuple):
    """Something to log at start: the event and its values."""

    event: str
    fields: dict[str, str]


class Reader:
    """Reads one document. Everything it finds is kept in its attributes; it raises nothing.

    `settings` holds the sections without a fault; `sound` what is right of each, None where too little is.
    """

    def __init__(
        self,
        models: Mapping[str, type[BaseModel]],
        environ: Mapping[str, str],
        *,
        spares_unknown_sections: bool = False,
    ) -> None:
        self._models = models
        self._spares_unknown_sections = spares_unknown_sections
        self._environ = environ
        self._expander = Expander(environ)
        self._faults: list[Fault] = []
        self._places: dict[Loc, str] = {}
        self._tables: dict[str, dict[str, Any]] = {}
        self._document: dict[str, Any] = {}
        self.settings: dict[str, BaseModel] = {}
        self.sound: dict[str, BaseModel | None] = {}
        self.warnings: list[Notice] = []
        self.ignored: list[str] = []

    def read(self, document: dict[str, Any]) -> None:
        """Read every section, and give the kernel's own their defaults where they are not written."""
        self._document = document
        for name, table in document.items():
            self._take(name, table)
        for name, table in self._tables.items():
            self._join_other_sources(name, table)
        for name, model in self._models.items():
            if name in self._tables:
                self._validate(name, model, self._tables[name])
            elif name not in document and _has_defaults(model):
                self._validate(name, model, {})

    def add(self, fault: Fault) -> None:
        """Note a fault that was found by somebody else, unless one of its value is known."""
        self._keep([fault])

    def has_fault(self, section: str, *keys: str) -> bool:
        """Was a fault found in one of these keys?"""
        ways = {(section, key) for key in keys}
        return any(fault.loc[:2] in ways for fault in [*self._expander.faults, *self._faults])

    def problems(self) -> list[ConfigProblem]:
        """All faults, in the order of the file; those of what is not in the file come last."""
        redact = Redactor(self.secrets())
        faults = sorted(dict.fromkeys([*self._expander.faults, *self._faults]), key=self._rank)
        places = [self._places.get(fault.loc[:2]) or show_place(fault.loc) for fault in faults]
        return [
            ConfigProblem(redact(place), redact(fault.found), redact(in_words(fault.expected)))
            for place, fault in zip(places, faults, strict=True)
        ]

    def secrets(self) -> frozenset[str]:
        """Every value that nobody should see."""
        found = set(self._expander.secrets)
        for name, table in {**self._document, **self._tables}.items():
            found.update(secrets_in(table, name))
        for section in self.settings.values():
            values = (getattr(section, name) for name in type(section).model_fields)
            found.update(value.get_secret_value() for value in values if isinstance(value, SecretStr))
        return frozenset(secret for secret in found if secret.strip() and not REFERENCE.search(secret))

    def _take(self, name: str, table: Any) -> None:
        known = self._models.keys() | openab.SECTIONS.keys() | OURS.keys()
        if not isinstance(table, dict):
            fault = Fault((name,), show(table, is_secret=True), f"a section [{name}]")
            if name not in known:
                fault = Fault((name,), "a key outside of every section", "write it below its [section]")
                self._places[fault.loc] = name
            self._faults.append(fault)
        elif name in self._models:
            self._tables[name] = self._expander.expand(table, (name,))
        elif name in known:
            self._ignore(name, table)
        elif self._spares_unknown_sections and nearest(name, known) is None:
            self.warnings.append(Notice("config.ignored", {"section": name}))
            self.ignored.append(name)
        else:
            self._faults.append(unknown((name,), "section", known))

    def _ignore(self, name: str, table: dict[str, Any]) -> None:
        """Pass over a section that is not ours. Its names are checked all the same, its variables are not."""
        names: Any = openab.SECTIONS.get(name, OURS.get(name))
        if name in openab.CHANNELS:
            names = names | dict.fromkeys(SHARED, openab.LEAF) | OURS.get(name, {})
        self._faults += _find_unknown(names, table, (name,))
        if name != "secrets":
            self._expander.refuse_secrets(table, (name,))
        self.warnings.append(Notice("config.ignored", {"section": name}))
        self.ignored.append(name)

    def _join_other_sources(self, name: str, table: dict[str, Any]) -> None:
        """Let variables fill in what the section leaves open, and the platform's own section overrule it."""
        for key, value in from_variables(name, table, self._environ).items():
            table[key] = value
            self._places[name, key] = variable(name, key)
        field = keys_of(self._models[name]).get("platform")
        platform = str(table.get("platform", field and field.default)).lower()
        if name == "gateway" and platform in self.ignored:
            self._overrule(name, platform, self._document[platform])

    def _overrule(self, name: str, platform: str, written: dict[str, Any]) -> None:
        """The keys of access in a platform's own section are in force; the others are not, and are named."""
        shared = {key: value for key, value in written.items() if key in SHARED}
        rest = [Notice("config.ignored", {"section": platform, "key": key}) for key in written if key not in shared]
        whole = Notice("config.ignored", {"section": platform})
        self.warnings = [notice for notice in self.warnings if notice != whole] + rest
        self._faults += narrowing(platform, written)
        self._places |= {(name, key): f"{platform}.{key}" for key in shared}
        own = self._expander.expand(shared, (platform,))
        self._tables[name] = with_platform(self._tables[name], own)

    def _validate(self, name: str, model: type[BaseModel], table: dict[str, Any]) -> None:
        known = self._without_ignored(name, model, table)
        faults = list(_find_blank_secrets(name, model, known))
        section, errors = _read(model, known)
        unknown = [error for error in errors if error["type"] == "extra_forbidden"]
        if unknown:  # it hides what is wrong with several keys together
            section, others = _read(model, _without(known, unknown))
            errors += [error for error in others if not error["loc"]]
        faults += [translate(model, name, known, error) for error in errors]
        faults += find_coerced(model, known, (name,))
        self._keep(faults)
        if section is not None and not faults:
            self.settings[name] = section
        self.sound[name] = section or _read(model, _without(known, errors))[0]
        if isinstance(section, ChannelSection):
            blank = [Notice("access.blank_ignored", {"section": name, "key": key}) for key in section.blank_ids()]
            self.warnings += blank

    def _without_ignored(self, name: str, model: type[BaseModel], table: dict[str, Any]) -> dict[str, Any]:
        """Take out the keys that OpenAB has here and we have not, with a warning each."""
        foreign = openab.SECTIONS.get(name, {}).keys() - keys_of(model).keys()
        self.warnings += [Notice("config.ignored", {"section": name, "key": key}) for key in table if key in foreign]
        return {key: value for key, value in table.items() if key not in foreign}

    def _keep(self, faults: list[Fault]) -> None:
        """Keep the first fault of a value, none where a variable failed; show nothing that is secret."""
        failed = {fault.loc for fault in self._expander.faults}
        for fault in faults:
            seen = {fault.loc for fault in self._faults} | failed
            if not any(fault.loc[: end + 1] in seen for end in range(1, len(fault.loc))):
                is_hidden = fault.loc in self._expander.hidden and fault.found.startswith('"')
                self._faults.append(fault._replace(found="a string") if is_hidden else fault)

    def _rank(self, fault: Fault) -> tuple[int, ...]:
        node: Any = self._document
        rank: list[int] = []
        for key in fault.loc:
            keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
            rank.append(keys.index(key) if key in keys else len(keys))
            node = node[key] if key in keys else None
        return tuple(rank)


def _read(model: type[BaseModel], table: Mapping[str, Any]) -> tuple[BaseModel | None, list[ErrorDetails]]:
    try:
        return model.model_validate(table), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _without(table: Mapping[str, Any], errors: Iterable[ErrorDetails]) -> dict[str, Any]:
    """The table without the keys that have an error, or have one inside."""
    faulty = {error["loc"][0] for error in errors if error["loc"]}
    return {key: value for key, value in table.items() if key not in faulty}


def _has_defaults(model: type[BaseModel]) -> bool:
    """A channel that is not written is no channel; any other section of ours works without being written."""
    return not issubclass(model, ChannelSection) and not any(map(FieldInfo.is_required, keys_of(model).values()))


def _find_unknown(names: Any, value: Any, loc: Loc) -> Iterator[Fault]:
    """Compare the keys of an ignored section with the names that OpenAB has there."""
    match names, value:
        case [inner], list():
            for index, item in enumerate(value):
                yield from _find_unknown(inner, item, (*loc, index))
        case dict(), dict():
            for key, item in value.items():
                if key in names:
                    yield from _find_unknown(names[key], item, (*loc, key))
                else:
                    yield unknown((*loc, key), "key", names)


def _find_blank_secrets(name: str, model: type[BaseModel], table: Mapping[str, Any]) -> Iterator[Fault]:
    for key, field in keys_of(model).items():
        value = table.get(key)
        if field.is_required() and is_secret_field(field) and isinstance(value, str) and not value.strip():
            yield Fault((name, key), "empty", f"set {variable(name, key)} or remove [{name}]")


def secrets_in(value: Any, name: str) -> Iterator[str]:
    """Strings below a name that looks secret, and passwords in URLs."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from secrets_in(inner, name if looks_secret(name) else key)
        case list():
            for inner in value:
                yield from secrets_in(inner, name)
        case str() if looks_secret(name):
            yield value
        case str() if "://" in value:
            yield from filter(None, [_password(value)])


def _password(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None
