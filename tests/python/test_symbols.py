"""Sizes and numbers on their way into the Graph, without a plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions

import torch_pjrt
from torch_pjrt import _C, symbols
from torch_pjrt.symbols import Symbols

S0, S1 = sympy.Symbol("s0", integer=True), sympy.Symbol("s1", integer=True)


def sym_int(expression: Any, hint: int | None = 6) -> torch.SymInt:
    from torch.fx.experimental.sym_node import SymNode

    return torch.SymInt(SymNode(expression, ShapeEnv(), int, hint))


def of(*bound: str) -> Symbols:
    result = Symbols(_C.Graph())
    result.bound = set(bound)
    return result


def test_plain_numbers_stay() -> None:
    for number in (3, -1.5, True):
        assert of().number(number, "") is number
    assert of().number(sym_int(sympy.Integer(7)), "") == 7


def test_an_expression_becomes_a_size() -> None:
    assert isinstance(of("s0", "s1").size(sym_int(S0 * functions.FloorDiv(S1, 2)), ""), _C.Size)


def code_of(name: str, operands: int) -> str | None:
    """The code of the error for that many operands, None if they are right."""
    graph = _C.Graph()
    try:
        graph.expr(name, [graph.expr_symbol("s0")] * operands)
    except torch_pjrt.Error as error:
        return error.code
    return None


@pytest.mark.parametrize("name", sorted(set(symbols._OPERATORS.values())))
def test_the_core_knows_every_operator(name: str) -> None:
    assert None in {code_of(name, operands) for operands in (1, 2, 3)}
    assert code_of(name + "x", 2) == "unsupported"


def error_of(function: Callable[[], Any]) -> torch_pjrt.Error:
    with pytest.raises(torch_pjrt.Error) as caught:
        function()
    assert caught.value.code == "unsupported"
    return caught.value


def test_an_unknown_function_names_the_remedy() -> None:
    size = sym_int(functions.RoundDecimal(S0, 2))
    error = error_of(lambda: of("s0").number(size, "m.py:3 in f: x"))
    assert "RoundDecimal" in str(error)
    assert "dynamic=False" in str(error)
    assert "m.py:3" in str(error)


def test_a_size_that_no_input_gives() -> None:
    error = error_of(lambda: of("s0").size(sym_int(S0 + sympy.Symbol("u0", integer=True)), ""))
    assert "u0" in str(error)
