"""Sizes that torch knows as sympy expressions, into the Graph's expressions."""

from __future__ import annotations

from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from . import torch_internals
from .errors import failure

from . import _C  # isort: skip

Symbolic = torch.SymInt | torch.SymFloat | torch.SymBool
Number = int | float | bool | Symbolic
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

# sympy's and torch's functions -> the Graph's operators, all with Python's meaning.
_OPERATORS = {
    "Add": "Add",
    "Mul": "Mul",
    "Pow": "Pow",
    "PowByNatural": "Pow",
    "FloorDiv": "FloorDiv",
    "CleanDiv": "CleanDiv",
    "CeilDiv": "CeilDiv",
    "Mod": "Mod",
    "PythonMod": "PythonMod",
    "ModularIndexing": "ModularIndexing",
    "Min": "Min",
    "Max": "Max",
    "Abs": "Abs",
    "LShift": "LShift",
    "RShift": "RShift",
    "Where": "Where",
    "Equality": "Eq",
    "Unequality": "Ne",
    "StrictLessThan": "Lt",
    "LessThan": "Le",
    "StrictGreaterThan": "Gt",
    "GreaterThan": "Ge",
    "And": "And",
    "Or": "Or",
    "Not": "Not",
    "ToFloat": "ToFloat",
    "IntTrueDiv": "IntTrueDiv",
    "FloatTrueDiv": "FloatTrueDiv",
    "FloatPow": "FloatPow",
    "FloorToInt": "FloorToInt",
    "CeilToInt": "CeilToInt",
    "TruncToInt": "TruncToInt",
    "RoundToInt": "RoundToInt",
    "Identity": "Identity",
    "OpaqueUnaryFn_sqrt": "Sqrt",
    "OpaqueUnaryFn_exp": "Exp",
    "OpaqueUnaryFn_log": "Log",
    "OpaqueUnaryFn_log2": "Log2",
    "BitwiseFn_bitwise_and": "BitAnd",
    "BitwiseFn_bitwise_or": "BitOr",
    "BitwiseFn_bitwise_xor": "BitXor",
}


class Symbols:
    """Adds expressions to one Graph. `bound`: the symbols that the graph's inputs give."""

    def __init__(self, graph: _C.Graph) -> None:
        self._graph = graph
        self.bound: set[str] = set()

    def bind(self, value: Any) -> None:
        """Notes that an input has this size, which gives the symbols that it is made of."""
        if isinstance(value, _SYMBOLIC):
            self.bound |= {
                symbol.name for symbol in torch_internals.symbolic(value)[0].free_symbols
            }

    def number(self, value: Number, source: str) -> int | float | bool | _C.Size:
        """A number that the Graph can hold; `source` is the user's line, for the message."""
        if not isinstance(value, _SYMBOLIC):
            return value
        expression, hint = torch_internals.symbolic(value)
        if isinstance(expression, int | float | bool):  # a constant in symbolic clothes
            return expression
        if expression.is_Integer:
            return int(expression)
        if expression in (sympy.true, sympy.false):
            return bool(expression)
        if expression.is_Float:
            return float(expression)
        unbound = sorted({symbol.name for symbol in expression.free_symbols} - self.bound)
        if unbound:
            raise failure(
                "unsupported",
                what=f"a size depends on the values in a tensor ({unbound[0]} in {expression})",
                at=source,
                remedy="compute it outside of the compiled function, and pass it as an argument",
            )
        hint_int = int(hint) if isinstance(hint, int) else 0
        return _C.Size(self._expression(expression, source), hint_int)

    def size(self, value: int | torch.SymInt, source: str) -> int | _C.Size:
        """The same for what has to be an int."""
        number = self.number(value, source)
        return number if isinstance(number, _C.Size) else int(number)

    def condition(self, expression: Any) -> _C.Size:
        """What sympy says of symbols, as a number that is 0 where it is false."""
        return _C.Size(self._expression(expression, ""), 1)

    def _expression(self, expression: Any, source: str) -> int:
        if expression.is_Symbol:
            return self._graph.expr_symbol(expression.name)
        if expression.is_Integer:
            return self._graph.expr_int(int(expression))
        if expression.is_Float:
            return self._graph.expr_float(float(expression))
        if expression in (sympy.true, sympy.false):
            return self._graph.expr_int(int(bool(expression)))
        operator = _OPERATORS.get(type(expression).__name__)
        if operator is None:
            raise failure(
                "unsupported",
                what=f"a size uses {type(expression).__name__}, in {expression}",
                at=source,
                remedy="torch.compile(..., dynamic=False) compiles once per shape instead",
            )
        operands = [self._expression(argument, source) for argument in expression.args]
        return self._graph.expr(operator, operands)
