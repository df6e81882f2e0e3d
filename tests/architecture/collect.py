"""Run as a script: collects the whole suite, runs nothing, and prints what each test is as one JSON object.

    {"tests/test_x.py::test_y": {"blocked": ["skip"], "is_async": true, "backends": ["asyncio", "trio"]}}

The key is the node id without the part in brackets, so the cases of one function are joined. Tests that run
only when asked for are not in it. What pytest has to say goes to stderr; the exit status is pytest's.
"""

import contextlib
import json
import sys
from typing import Any

import pytest


class Collector:
    """A pytest plugin that keeps, for each test function, what its cases say."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self._add(item)

    def _add(self, item: pytest.Item) -> None:
        test = self.tests.setdefault(item.nodeid.partition("[")[0], {"blocked": [], "is_async": False, "backends": []})
        test["blocked"] += [mark.name for mark in item.iter_markers() if is_blocking(mark)]
        if "anyio_backend" in getattr(item, "fixturenames", ()):
            test["is_async"] = True
            params = item.callspec.params if hasattr(item, "callspec") else {}
            test["backends"].append(params.get("anyio_backend"))


def is_blocking(mark: pytest.Mark) -> bool:
    return mark.name in {"skip", "xfail"} or (mark.name == "skipif" and any(mark.args))


if __name__ == "__main__":
    collector = Collector()
    with contextlib.redirect_stdout(sys.stderr):
        status = pytest.main(["--collect-only", "--quiet", "--quiet", "-p", "no:cacheprovider"], plugins=[collector])
    print(json.dumps(collector.tests))
    sys.exit(status)
