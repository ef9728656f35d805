"""Which ops reach the lowering."""

from __future__ import annotations

import pytest
import torch

from torch_pjrt import _C, decompositions

aten = torch.ops.aten


def test_an_op_with_a_rule_is_not_decomposed() -> None:
    names = {op.name() for op in decompositions.table() if isinstance(op, torch._ops.OpOverload)}
    assert names
    # Where their number is symbolic: else Dynamo would make a constant of it.
    assert names & set(_C.ops()) == {
        "aten::add.Tensor",
        "aten::addcdiv",
        "aten::addcmul",
        "aten::lerp.Scalar",
        "aten::sub.Tensor",
    }


@pytest.mark.parametrize("op", [aten._standard_gamma.default, aten._sample_dirichlet.default])
def test_random_ops_without_a_rewrite_stay_so_that_the_error_names_them(
    op: torch._ops.OpOverload,
) -> None:
    assert op not in decompositions.table()


def test_attention_is_decomposed() -> None:
    assert aten._scaled_dot_product_flash_attention_for_cpu.default in decompositions.table()


def test_rules_are_of_ops_that_exist() -> None:
    # What a capture adds within loops, and what a write on the device becomes whose check may fail;
    # no torch op does the same.
    for name in set(_C.ops()) - {"torch_pjrt::draw_of_iteration", "torch_pjrt::unless_bad"}:
        namespace, _, rest = name.partition("::")
        op, _, overload = rest.partition(".")
        found = getattr(getattr(torch.ops, namespace), op)
        if isinstance(found, torch._ops.HigherOrderOperator):
            assert found.name() == op
        else:
            assert getattr(found, overload or "default").name() == name
