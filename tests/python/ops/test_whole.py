"""Rules that look at more than one element, against eager."""

from __future__ import annotations

import pytest
from ops.compare import check
from ops.whole import TABLE


@pytest.mark.parametrize("op", TABLE)
def test_rule_equals_eager(op: str) -> None:
    check(TABLE[op])
