"""The rule table as a whole: every row has samples, and reads its arguments in their roles."""

from __future__ import annotations

from ops import moving, pointwise, whole

from torch_pjrt import _C

TABLE = {**pointwise.TABLE, **whole.TABLE, **moving.TABLE}


# Only Dynamo makes these: test_modules.py has a constant in a compiled function.
BY_DYNAMO = {"aten::lift_fresh_copy"}


def test_every_row_has_samples() -> None:
    assert set(_C.ops()) == set(TABLE) | BY_DYNAMO
