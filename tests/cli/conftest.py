"""Commands configure the logs of the process; here each leaves them as it found them."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _keep_the_logs_of_others() -> Iterator[None]:
    old = structlog.get_config()
    yield
    structlog.configure(**old)
