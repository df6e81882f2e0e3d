"""`${NAME}` and `${NAME:-default}` in the strings of a configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, time
from typing import Any

from openab_kernel.config.faults import Fault, Loc, looks_secret, show

REFERENCE = re.compile(
    r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{secrets\.(?P<secret>[^}]*)\}"
)

ARGUMENTS = ("agent", "args")
WAY_OUT = "a name has letters, digits and _, as in ${MY_TOKEN}; write ${DOLLAR:-$}{ for ${ itself"


class Expander:
    """Replaces references by what the environment holds. Values are not searched again, keys not at all.

    Attributes:
        faults: What could not be replaced; the text then stays as it was written.
        values: The values of all variables that were put in.
        secrets: Those of variables whose names look secret.
        hidden: Ways to values that hold such a one.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.faults: list[Fault] = []
        self.values: set[str] = set()
        self.secrets: set[str] = set()
        self.hidden: set[Loc] = set()

    def expand(self, value: Any, loc: Loc) -> Any:
        """Give `value` with every string in it expanded. `loc` is the way to it."""
        match value:
            case str():
                self._refuse_half_a_reference(value, loc)
                return REFERENCE.sub(lambda reference: self._replace(reference, loc), value)
            case dict():
                return {key: self.expand(inner, (*loc, key)) for key, inner in value.items()}
            case list():
                return [self.expand(inner, (*loc, index)) for index, inner in enumerate(value)]
            case date() | time():
                self.faults.append(Fault(loc, show(value), "put it in quotes"))
                return str(value)
            case _:
                return value

    def refuse_secrets(self, value: Any, loc: Loc) -> None:
        """Note each `${secrets.…}` in a section that is otherwise left alone."""
        match value:
            case str():
                for reference in REFERENCE.finditer(value):
                    if reference["secret"] is not None:
                        self._replace(reference, loc)
            case dict():
                for key, inner in value.items():
                    self.refuse_secrets(inner, (*loc, key))
            case list():
                for index, inner in enumerate(value):
                    self.refuse_secrets(inner, (*loc, index))

    def _refuse_half_a_reference(self, text: str, loc: Loc) -> None:
        """Nobody means `${MY-TOKEN}` to stay as it is, except in an argument, which a shell may read."""
        if loc[:2] != ARGUMENTS and "${" in REFERENCE.sub(" ", text):
            self.faults.append(Fault(loc, "${ without a variable's name and }", WAY_OUT))

    def _replace(self, reference: re.Match[str], loc: Loc) -> str:
        name = reference["name"]
        if name is None:
            way_out = "this version has no provider of secrets; write ${NAME} and set NAME in the environment"
            self.faults.append(Fault(loc, reference[0], way_out))
            return reference[0]
        value = self._environ.get(name, reference["default"])
        if value is None:
            way_out = f"set {name}, or write ${{{name}:-default}}"
            self.faults.append(Fault(loc, f"{reference[0]} is not set", way_out))
            return reference[0]
        self.values.add(value)
        if looks_secret(name):
            self.secrets.add(value)
            self.hidden.add(loc)
        return value
