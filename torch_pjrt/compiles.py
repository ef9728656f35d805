"""Why programs were compiled: torch_pjrt.explain_compiles()."""

from __future__ import annotations

from dataclasses import dataclass

from . import torch_internals  # noqa: F401  (torch first: the core needs its libraries)

from . import _C  # isort: skip

__all__ = ["Compile", "Explanation", "explain_compiles"]


@dataclass(frozen=True)
class Compile:
    """One program that was compiled.

    function: where it starts, e.g. "model.py:12 in forward: x = self.fc(x)". guard: whose failure
    made Dynamo capture this graph, "" at the first capture of the function. changes: the parts of
    the key that differ from the program compiled before for the same graph, e.g.
    "symbol s0 (x.shape[0]): 8 -> 9"; empty for the first program of a graph.
    """

    function: str
    guard: str
    changes: tuple[str, ...]

    def __str__(self) -> str:
        if self.changes:
            why = "; ".join(self.changes)
        elif self.guard:
            why = f"new graph: this guard failed: {self.guard}"
        else:
            why = "new graph: the function's first"
        return f"{self.function or 'a function without source'}\n  {why}"


class Explanation(tuple[Compile, ...]):
    """The compiles of this process, oldest first. As text, a numbered list."""

    def __str__(self) -> str:
        if not self:
            return "nothing was compiled"
        return "\n".join(f"{number}. {one}" for number, one in enumerate(self, 1))


def explain_compiles() -> Explanation:
    """The programs that were compiled since the start of the process (of many, the last 10,000),
    with what made each necessary. Programs loaded from disk are not among them."""
    return Explanation(
        Compile(function, guard, tuple(changes)) for function, guard, changes in _C.compiles()
    )
