"""The rule table as a whole: every row has samples, and reads its arguments in their roles."""

from __future__ import annotations

from ops import complexes, gradients, moving, pointwise, special, whole

from torch_pjrt import _C

TABLE = {
    **pointwise.TABLE,
    **whole.TABLE,
    **moving.TABLE,
    **gradients.TABLE,
    **complexes.TABLE,
    **special.TABLE,
}


# Only torch's tracing makes these: test_modules.py has a constant in a compiled function, and
# resizes by a symbolic scale.
BY_TRACING = {"aten::lift_fresh_copy", "aten::true_divide.Tensor"}
# test_value_errors.py, test_factor_errors.py and device/test_errors.py have them.
CHECKS = {
    "aten::_assert_async.msg",
    "aten::_linalg_check_errors",
    "torch_pjrt::checked",
    "torch_pjrt::unless_bad",
}


def test_every_row_has_samples() -> None:
    # test_random.py and test_control_flow.py.
    elsewhere = ("torch_pjrt::random_", "torch_pjrt::draw_of_iteration", "higher_order::")
    own = {op for op in _C.ops() if op.startswith(elsewhere)}
    assert set(_C.ops()) - own == set(TABLE) | BY_TRACING | CHECKS
