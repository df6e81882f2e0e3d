"""Commands configure the logs of the process; here each leaves them as it found them."""

import logging
import sys
import threading
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _keep_the_logs_of_others() -> Iterator[None]:
    old, handlers, level = structlog.get_config(), logging.root.handlers, logging.root.level
    hooks = sys.excepthook, threading.excepthook
    yield
    structlog.configure(**old)
    logging.root.handlers, logging.root.level = handlers, level
    sys.excepthook, threading.excepthook = hooks
