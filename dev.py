#!/usr/bin/env python3
"""Work on openab-kernel. Makes .venv when needed, then runs; standard library only.

python3 dev.py demo                 chat with the built-in agent: no file, no account, no network
python3 dev.py test [ARGS]          the tests; ARGS go to pytest; --agents and --crash add the opt-in ones
python3 dev.py check                what a change must pass: style, types, layers, docs, tests, coverage
python3 dev.py bench [NAME ...]     the programs in benchmarks/, or those named
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
STAMP = VENV / "dev-stamp"
OLDEST_PYTHON = (3, 11)

OPENCODE = "opencode-ai@1.18.33"
OPENCODE_HOME = VENV / "opencode"


def main(args: list[str]) -> int:
    """Run the command that `args` names and give its exit status; 2 if there is none of that name."""
    commands = {"demo": demo, "test": test, "check": check, "bench": bench}
    if not args or args[0] not in commands:
        print(__doc__.strip(), file=sys.stdout if args in (["-h"], ["--help"]) else sys.stderr)
        return 0 if args in (["-h"], ["--help"]) else 2
    require_python()
    os.chdir(ROOT)
    prepare()
    return commands[args[0]](args[1:])


# ── The commands ──────────────────────────────────────────────────────────────────────────────────


def demo(args: list[str]) -> int:
    return become("openab-kernel", "chat", "--demo", *args)


def test(args: list[str]) -> int:
    if "--agents" in args:
        os.environ["OPENAB_TEST_OPENCODE"] = str(find_opencode())
    return become("pytest", *args)


def check(args: list[str]) -> int:
    steps = [
        ["ruff", "format", "--check"],
        ["ruff", "check"],
        ["mypy"],
        ["lint-imports", "--no-logo"],
        ["coverage", "run", "-m", "pytest", *args],
        ["coverage", "report"],
    ]
    if (ROOT / "docs/generate.py").exists():
        steps.insert(4, ["python", "docs/generate.py", "--check"])
    return run_all(steps)


def bench(names: list[str]) -> int:
    found = names or sorted(path.stem for path in ROOT.glob("benchmarks/*.py"))
    if not found:
        fail("benchmarks/ holds no program yet")
    return run_all([["python", f"benchmarks/{name}.py"] for name in found])


def run_all(steps: list[list[str]]) -> int:
    """Run each step, also after one that failed; give the status of the first that did."""
    failed = {}
    for step in steps:
        tell(" ".join(step))
        status = subprocess.call([str(BIN / step[0]), *step[1:]])
        if status:
            failed[" ".join(step)] = status
    if failed:
        tell("failed: " + ", ".join(failed))
    return next(iter(failed.values()), 0)


def become(program: str, *args: str) -> int:
    """Replace this process, so that pipes and signals reach the program; Windows can only wait for it."""
    command = [str(BIN / program), *args]
    if os.name == "nt":
        return subprocess.call(command)
    os.execv(command[0], command)


# ── The environment ───────────────────────────────────────────────────────────────────────────────


def require_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        fail(
            f"openab-kernel needs Python {needed} or newer; this is {platform.python_version()}",
            f"({sys.executable}). Run dev.py with a newer one, such as: python{needed} dev.py",
        )


def prepare() -> None:
    """Make `.venv` match this Python and pyproject.toml; no work if the stamp says that it does.

    The first line of the stamp stands for what an environment is bound to, the second for what is in it.
    """
    uv = shutil.which("uv")
    bound_to = f"{sys.version} {sys.base_prefix} {ROOT} {'uv' if uv else 'pip'}".replace("\n", " ")
    wanted = [bound_to, hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()]
    found = STAMP.read_text().splitlines() if STAMP.exists() else []
    if found == wanted:
        return
    if found[:1] != wanted[:1]:
        make_venv(uv)
    install(uv)
    STAMP.write_text("\n".join(wanted))


def make_venv(uv: str | None) -> None:
    tell("making .venv; the first time takes about a minute")
    shutil.rmtree(VENV, ignore_errors=True)
    if uv:
        run([uv, "venv", "--quiet", "--python", sys.executable, str(VENV)], "uv cannot make .venv")
        return
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        fail(
            "this Python cannot make virtual environments: its modules venv or ensurepip are missing.",
            "On Debian and Ubuntu: apt install python3-venv. Or install uv, which needs neither.",
        )
    run([sys.executable, "-m", "venv", str(VENV)], "python3 -m venv cannot make .venv")


def install(uv: str | None) -> None:
    python = str(BIN / "python")
    if uv:
        command = [uv, "pip", "install", "--quiet", "--python", python]
    else:
        command = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    run([*command, "--editable", ".[dev]"], "the install failed; it needs a package index, such as PyPI")


def find_opencode() -> Path:
    """Install opencode below `.venv` unless it is there; give the build of it that this machine can run.

    npm brings each build for this system and processor: with and without newer instructions, for each libc.
    """
    if not (OPENCODE_HOME / "node_modules/opencode-ai").exists():
        npm = shutil.which("npm") or fail("test --agents needs npm, to install the agent opencode")
        tell(f"installing {OPENCODE}")
        command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        run([*command, "--prefix", str(OPENCODE_HOME), OPENCODE], "npm cannot install opencode")
    builds = sorted(OPENCODE_HOME.glob("node_modules/opencode-*-*/bin/opencode*"), key=lambda path: len(str(path)))
    for build in builds:
        if is_runnable(build):
            return build
    fail(f"none of the builds of {OPENCODE} runs here: {[path.parts[-3] for path in builds]}")


def is_runnable(program: Path) -> bool:
    try:
        return subprocess.run([str(program), "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def run(command: list[str], complaint: str) -> None:
    """Run a step of the preparation, away from the pipes of the command that comes after it."""
    status = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if status:
        fail(f"{complaint} (exit status {status} of: {' '.join(command)}). The lines above say why.")


def tell(text: str) -> None:
    print(f"dev.py: {text}", file=sys.stderr, flush=True)


def fail(*text: str) -> NoReturn:
    tell(" ".join(text))
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
