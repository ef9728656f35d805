"""Which ops reach the lowering."""

from __future__ import annotations

import pytest
import torch

from torch_pjrt import _C, decompositions

aten = torch.ops.aten


def test_an_op_with_a_rule_is_not_decomposed() -> None:
    names = {op.name() for op in decompositions.table() if isinstance(op, torch._ops.OpOverload)}
    assert names
    assert not names & set(_C.ops())


@pytest.mark.parametrize("op", [aten._standard_gamma.default, aten._sample_dirichlet.default])
def test_random_ops_without_a_rewrite_stay_so_that_the_error_names_them(
    op: torch._ops.OpOverload,
) -> None:
    assert op not in decompositions.table()


def test_attention_is_decomposed() -> None:
    assert aten._scaled_dot_product_flash_attention_for_cpu.default in decompositions.table()


def test_rules_are_of_ops_that_exist() -> None:
    for name in _C.ops():
        namespace, _, rest = name.partition("::")
        op, _, overload = rest.partition(".")
        found = getattr(getattr(getattr(torch.ops, namespace), op), overload or "default")
        assert found.name() == name
