"""Rules for special functions and Fourier transforms, against eager."""

from __future__ import annotations

import pytest
from ops.compare import check
from ops.special import TABLE


@pytest.mark.parametrize("op", TABLE)
def test_rule_equals_eager(op: str) -> None:
    check(TABLE[op])
