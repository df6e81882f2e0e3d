"""delivery.md 5.5."""

from typing import get_args

import pytest

from openab_kernel.delivery.lines import CANCELLED_LINE, FAILURE_LINES, RESET_NOTICE, failure_line
from openab_kernel.errors import FailureCause


def test_every_cause_has_one_line_of_its_own() -> None:
    assert set(FAILURE_LINES) == set(get_args(FailureCause))
    texts = [*FAILURE_LINES.values(), RESET_NOTICE, CANCELLED_LINE]
    assert len(set(texts)) == len(texts)
    assert all(text.isprintable() for text in texts)


@pytest.mark.parametrize("cause", FAILURE_LINES)
def test_only_a_person_is_told_of_a_failure(cause: FailureCause) -> None:
    assert failure_line(cause, asked_by_person=True) == FAILURE_LINES[cause]
    assert failure_line(cause, asked_by_person=False) is None
