"""The example channel, as if it was installed."""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import ECHO


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Its package, in this process."""
    monkeypatch.syspath_prepend(ECHO)
    yield importlib.import_module("openab_echo")
    for name in [name for name in sys.modules if name.partition(".")[0] == "openab_echo"]:
        del sys.modules[name]


@pytest.fixture
def with_echo(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has it installed: its code, and what an installer makes of its pyproject."""
    project = tomllib.loads((ECHO / "pyproject.toml").read_text("utf-8"))["project"]
    written = tmp_path / "installed" / f"openab_echo-{project['version']}.dist-info"
    written.mkdir(parents=True)
    (written / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (written / "entry_points.txt").write_text("\n".join(points))
    path = os.pathsep.join([str(written.parent), str(ECHO), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
