#!/usr/bin/env python3
"""Write the generated parts of the pages: `python docs/generate.py`. With `--check`: only say which are stale.

A part stands between two comments, `<!-- generated: NAME ARGUMENTS -->` and `<!-- end -->`. NAME is one of `PARTS`.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
from pydantic import BaseModel

from openab_kernel.cli import main as command_line
from openab_kernel.config import KERNEL_SECTIONS
from openab_kernel.policies.channel_section import ChannelSection

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
MARKED = re.compile(r"(<!-- generated: (?P<name>\w+) ?(?P<arguments>[^\n]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    """Bring every page up to date, or with `--check` name the stale ones. Gives the exit status."""
    stale = []
    is_check = "--check" in arguments
    for page in sorted(DOCS.rglob("*.md")):
        old = page.read_text("utf-8")
        new = MARKED.sub(_generate, old)
        if new == old:
            continue
        stale.append(page)
        print(f"{page.relative_to(ROOT)}: {'stale; run python docs/generate.py' if is_check else 'written'}")
        if not is_check:
            page.write_text(new, "utf-8")
    return int(is_check and bool(stale))


def _generate(mark: re.Match[str]) -> str:
    text = PARTS[mark["name"]](*mark["arguments"].split())
    return f"{mark[1]}\n{text.strip()}\n\n{mark[4]}"


def table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# ── The configuration ─────────────────────────────────────────────────────────────────────────────


class Key(NamedTuple):
    """One key of a section, as its row tells it."""

    name: str
    kind: str
    default: str
    meaning: str


def settings_table(section: str) -> str:
    """The keys of a section; `channel` stands for those that all channels share, and no channel repeats them."""
    shared = _properties(ChannelSection)
    model = ChannelSection if section == "channel" else sections()[section]
    keys = _properties(model)
    if section != "channel" and issubclass(model, ChannelSection):
        keys = {name: key for name, key in keys.items() if shared.get(name) != key}
    rows = [_key(section, name, key, model) for name, key in keys.items()]
    return table(
        ("key", "type", "default", "meaning"), ((f"`{key.name}`", key.kind, key.default, key.meaning) for key in rows)
    )


@cache
def sections() -> dict[str, type[BaseModel]]:
    """The kernel's sections and those of the plugins in this repository."""
    points = _project()["project"]["entry-points"]["openab_kernel.plugins"]
    found = dict(KERNEL_SECTIONS)
    for module in map(importlib.import_module, points.values()):
        found.update(module.plugin_settings() if hasattr(module, "plugin_settings") else ())
    return found


@cache
def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@cache
def _notes() -> dict[str, Any]:
    return tomllib.loads((DOCS / "settings.toml").read_text("utf-8"))


def _properties(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Name to JSON Schema of each key; the keys of a table inside are `table.key`."""
    schema = model.model_json_schema()
    found: dict[str, dict[str, Any]] = {}
    for name, value in schema["properties"].items():
        inner = schema.get("$defs", {}).get(value.get("$ref", "").rpartition("/")[2])
        found |= {f"{name}.{key}": part for key, part in inner["properties"].items()} if inner else {name: value}
        for key in schema.get("required", ()):
            found.get(key, {})["required"] = True
    return found


def _key(section: str, name: str, schema: dict[str, Any], model: type[BaseModel]) -> Key:
    written = schema.get("description", "")
    noted = _notes()["meaning"].get(section, {}).get(name, "")
    if bool(written) == bool(noted):
        fault = "described in its class too: take it out of docs/settings.toml" if written else "not described"
        raise SystemExit(f"[{section}] {name}: {fault}; its class is {model.__name__}")
    limits = _notes()["limits"].get(section, {})
    meaning = written or noted
    meaning = meaning[0].upper() + meaning[1:] + ("" if meaning.endswith(("?", ".")) else ".")
    meaning = " ".join(filter(None, (meaning, limits.get(name) or limits.get("*"))))
    return Key(name, _kind(schema), _default(schema), meaning)


def _kind(schema: Mapping[str, Any]) -> str:
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if choices:
        return " or ".join(map(_kind, choices))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    match schema.get("type"):
        case "boolean":
            return "true or false"
        case "integer":
            return "whole number" + _bounds(schema)
        case "number":
            return "number" + _bounds(schema)
        case "array":
            return "array of strings"
        case "object":
            return "table"
        case _:
            return "string"


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f", {low:g} to {high:g}" if high < 1e6 else f", {low:g} to {high}"
    if "exclusiveMinimum" in schema:
        return f", above {schema['exclusiveMinimum']:g}, at most {high:g}"
    return f", {low:g} or more" if low is not None else ""


def _default(schema: Mapping[str, Any]) -> str:
    if schema.get("required"):
        return "required"
    value = schema.get("default")
    return "unset" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


# ── The command line ──────────────────────────────────────────────────────────────────────────────


def commands() -> str:
    """What every command says to `--help`."""
    found = find_commands("openab-kernel", command_line)
    return "\n\n".join(f"### {name}\n\n```text\n{_help(name, command)}\n```" for name, command in found)


def _help(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, terminal_width=100, help_option_names=["-h", "--help"])
    return command.get_help(context).removeprefix("Usage: ")


def find_commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Each command that does something, with its whole name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for inner in command.list_commands(context):
        found = command.get_command(context, inner)
        assert found is not None, f"{name} lists {inner} and has it not"
        if not found.hidden:
            yield from find_commands(f"{name} {inner}", found)


# ── Log events ────────────────────────────────────────────────────────────────────────────────────

EVENT = re.compile(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*")
LEVELS = ("debug", "info", "warning", "error", "exception", "critical", "log")
LEVEL_NAMES = {"exception": "error", "log": "the library's"}
NOT_KEYS = ("exc_info",)
MORE = "…"
ELSEWHERE = {"report": "info or warning", "Notice": "warning"}
"""Names of calls that take an event and hand it on in a way this reader cannot follow, and the level it gets."""


class Event(NamedTuple):
    """One event of the logs."""

    levels: set[str]
    keys: dict[str, None]


def log_events() -> str:
    """Every event that the kernel and the plugins here log, with its level and keys."""
    rows = sorted(find_events().items())
    return table(
        ("event", "level", "keys"),
        ((f"`{name}`", " or ".join(sorted(event.levels)), " ".join(map(_code, event.keys))) for name, event in rows),
    )


def _code(key: str) -> str:
    return key if key == MORE else f"`{key}`"


def find_events() -> dict[str, Event]:
    found: dict[str, Event] = defaultdict(lambda: Event(set(), {}))
    for folder in ("kernel/openab_kernel", "plugins"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "testing" not in path.parts:
                _read_events(ast.parse(path.read_text("utf-8")), found)
    return found


def _read_events(module: ast.Module, found: dict[str, Event]) -> None:
    helpers = dict(_helpers(module))
    for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
        name = call_name(call)
        level, inherited = helpers.get(name, (ELSEWHERE.get(name), ()))
        if name in LEVELS:
            level = LEVEL_NAMES.get(name, name)
        if level is None:
            continue
        for event in _events_in(call):
            found[event].levels.add(level)
            found[event].keys.update(dict.fromkeys([*inherited, *_keys(call)]))


def _helpers(module: ast.Module) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """Functions that log an event they are given: name, level, and the keys that they add."""
    for function in (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        parameters = {argument.arg for argument in function.args.args}
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            first = call.args[0] if call.args else None
            if call_name(call) in LEVELS and isinstance(first, ast.Name) and first.id in parameters:
                keys = tuple(key for key in _keys(call) if key != MORE)  # what the caller gives is seen there
                yield function.name, (call_name(call), keys)


def call_name(call: ast.Call) -> str:
    """The last part of what is called."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _events_in(call: ast.Call) -> Iterator[str]:
    """The constants among the arguments that are an event; there are two where one is chosen."""
    for argument in call.args:
        for node in (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and EVENT.fullmatch(node.value):
                yield node.value


def _keys(call: ast.Call) -> Iterator[str]:
    yield from (keyword.arg or MORE for keyword in call.keywords if keyword.arg not in NOT_KEYS)
    for argument in call.args:
        if isinstance(argument, ast.Dict):
            yield from (str(key.value) for key in argument.keys if isinstance(key, ast.Constant))


# ── Source ────────────────────────────────────────────────────────────────────────────────────────


def source(path: str, *names: str) -> str:
    """A file of docs/examples, whole or only these functions of it."""
    text = (DOCS / "examples" / path).read_text("utf-8")
    if names:
        found = {
            node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        text = "\n\n".join(f"{ast.get_source_segment(text, found[name])}\n" for name in names)
    language = {".py": "python", ".toml": "toml"}[Path(path).suffix]
    return f"```{language}\n# {path}\n{text}```"


def layers() -> str:
    """The import table, from what the import linter is told."""
    contract = next(c for c in _project()["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    rows = []
    for number, layer in enumerate(contract["layers"], 1):
        found = {name: _about(name) for name in re.findall(r"\w+", layer)}
        rows += [(str(number), f"`{name}`", about) for name, about in found.items() if about is not None]
    return table(("line", "module", "what it is"), rows)


def _about(name: str) -> str | None:
    """What a module of the kernel says of itself, up to the first full stop; None if it does not exist."""
    base = ROOT / "kernel/openab_kernel"
    path = next((p for p in (base / name / "__init__.py", base / f"{name}.py") if p.exists()), None)
    if path is None:
        return None
    words = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    first = " ".join(words.partition("\n\n")[0].split()).partition(". ")[0]
    return re.sub(r" \([\w ]*:? ?[\w-]+\.md[^)]*\)", "", first).removesuffix(".")


PARTS: dict[str, Callable[..., str]] = {
    "settings": settings_table,
    "commands": commands,
    "log_events": log_events,
    "source": source,
    "layers": layers,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
