"""How a graph is cut around ops that no program can hold: into the fewest pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MINIMUM_OPS", "Op", "stages"]

# A piece of fewer ops isn't worth a program: a call of one costs as much as a small op in eager,
# and a compile besides. An op alone gains nothing from being compiled either: there is nothing that
# it could be fused with.
MINIMUM_OPS = 2


@dataclass(frozen=True)
class Op:
    """An op that computes something. `needs`: indices of earlier ops that have to run before it.
    `runs_in_eager`: whether eager can run it, should that be cheaper."""

    is_compiled: bool
    needs: Sequence[int]
    runs_in_eager: bool = True


def stages(ops: Sequence[Op]) -> list[int]:
    """When each op runs: in the order of the stages. All ops of an odd stage are one piece; those
    of an even stage run in eager, one after the other.

    There are no fewer pieces than there have to be: an op that has to wait for an eager op which
    waits for a piece can't be in that piece, and here that is the only reason for another one.
    """
    compiled = [op.is_compiled for op in ops]
    while True:
        found = _earliest(ops, compiled)
        small = _smallest(ops, found)
        if small is None:
            return found
        for index, stage in enumerate(found):
            if stage == small:
                compiled[index] = False


def _earliest(ops: Sequence[Op], compiled: Sequence[bool]) -> list[int]:
    found: list[int] = []
    for op, is_compiled in zip(ops, compiled, strict=True):
        stage = max((found[need] for need in op.needs), default=0)
        found.append(stage if stage % 2 == is_compiled else stage + 1)
    return found


def _smallest(ops: Sequence[Op], found: Sequence[int]) -> int | None:
    """The first of the smallest pieces that had better run in eager, if there are such."""
    counts = Counter(stage for stage in found if stage % 2)
    bound = {s for op, s in zip(ops, found, strict=True) if not op.runs_in_eager}
    small = [
        (count, stage)
        for stage, count in counts.items()
        if count < MINIMUM_OPS and stage not in bound
    ]
    return min(small)[1] if small else None
