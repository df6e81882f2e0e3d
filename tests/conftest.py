"""What all tests share: both event loops, and two groups of tests that run only when asked for."""

import pytest
from hypothesis import settings

OPT_IN = ("agents", "crash")

# Another is chosen with --hypothesis-profile. The normal one tries the same examples each time, so that a change is
# judged by what it changed; the nightly one looks for new ones. No deadline: machines are slow now and then.
settings.register_profile("normal", max_examples=500, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=20_000, deadline=None)
settings.load_profile("normal")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each async test on both. A module that works on one only overrides this and says why."""
    return str(request.param)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("openab-kernel")
    group.addoption("--agents", action="store_true", help="also run tests with real agent programs")
    group.addoption("--crash", action="store_true", help="also run the crash tests, which take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, not skip: a test that was not asked for is no gap in the result."""
    unwanted = [mark for mark in OPT_IN if not config.getoption(mark)]
    dropped = [item for item in items if any(item.get_closest_marker(mark) for mark in unwanted)]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]
