"""Rules of the ops that only a backward has, against eager."""

from __future__ import annotations

import pytest
from ops.compare import check
from ops.gradients import TABLE


@pytest.mark.parametrize("op", TABLE)
def test_rule_equals_eager(op: str) -> None:
    check(TABLE[op])
