"""Imports point down. The contracts stand in pyproject.toml under `tool.importlinter`."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [Path(path) for path in SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
PLUGINS = [path.name for path in PACKAGES if path.parts[0] == "plugins"]


def lint_imports(root: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Judge the packages that stand directly in `paths` by the contracts in `root`."""
    code = f"import sys; sys.path[:0] = {[str(path) for path in paths]}; import importlinter.cli as cli; "
    code += "sys.exit(cli.lint_imports(no_cache=True, no_logo=True))"
    return subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)


def test_imports_keep_the_contracts() -> None:
    run = lint_imports(ROOT, *(ROOT / package.parent for package in PACKAGES))
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("openab_kernel/facts/event.py", "import openab_kernel.policies", "The kernel's imports point down"),
        ("openab_kernel/net/http.py", "import openab_kernel.storage", "The kernel's imports point down"),
        ("openab_kernel/extra.py", "", "The kernel's imports point down"),
        ("openab_kernel/app.py", "import openab_terminal", "The kernel imports no plugin"),
        ("openab_terminal/x.py", "import openab_gateway_ws", "Plugins do not import one another"),
        ("openab_terminal/x.py", "import openab_kernel.storage", "Plugins import openab_kernel, .facts"),
        ("openab_kernel/app.py", "import httpx", "HTTP libraries are imported in openab_kernel.net alone"),
        ("openab_terminal/x.py", "import uvicorn.config", "HTTP libraries are imported in openab_kernel.net"),
        ("openab_kernel/policies/retry.py", "import random", "Pure code has no clock, log, random"),
        (
            "openab_kernel/outbound/states.py",
            "import openab_kernel.clock",
            "Pure code has no clock, log, random",
        ),
    ],
)
def test_forbidden_import_breaks_its_contract(tmp_path: Path, file: str, line: str, contract: str) -> None:
    lay_out_allowed_imports(tmp_path)
    target = tmp_path / file
    target.write_text(line)
    run = lint_imports(tmp_path, tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert [text for text in run.stdout.splitlines() if text.startswith(contract) and "BROKEN" in text]


def lay_out_allowed_imports(root: Path) -> None:
    """Make a small tree of our packages that breaks no contract."""
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in ["facts", "interfaces", "net", "outbound", "policies", "storage"]:
        (root / "openab_kernel" / package).mkdir(parents=True)
        (root / "openab_kernel" / package / "__init__.py").touch()
    (root / "openab_kernel/__init__.py").write_text("import openab_kernel.facts")
    (root / "openab_kernel/clock.py").write_text("import time")
    (root / "openab_kernel/net/client.py").write_text("import httpx, openab_kernel.facts, openab_kernel.clock")
    for plugin in PLUGINS:
        (root / plugin).mkdir()
        (root / plugin / "__init__.py").write_text("import openab_kernel, openab_kernel.net.client")


def test_allowed_imports_break_no_contract(tmp_path: Path) -> None:
    lay_out_allowed_imports(tmp_path)
    run = lint_imports(tmp_path, tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_package_in_the_tree_is_built_and_judged() -> None:
    found = [*ROOT.glob("kernel/*/__init__.py"), *ROOT.glob("plugins/*/*/__init__.py")]
    names = sorted(path.parent.name for path in found)
    assert names == sorted(package.name for package in PACKAGES)
    assert names == sorted(SETTINGS["tool"]["importlinter"]["root_packages"])


def test_every_plugin_stands_in_each_contract_about_plugins() -> None:
    contracts = {contract["name"]: contract for contract in SETTINGS["tool"]["importlinter"]["contracts"]}
    assert contracts["The kernel imports no plugin"]["forbidden_modules"] == PLUGINS
    assert contracts["Plugins do not import one another"]["modules"] == PLUGINS
    promised = contracts["Plugins import openab_kernel, .facts, .interfaces and .net"]
    assert promised["source_modules"] == PLUGINS
