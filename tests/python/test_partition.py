"""The cut of a graph into the fewest pieces, on small graphs."""

from __future__ import annotations

import itertools
import random

from torch_pjrt.partition import MINIMUM_OPS, Op, stages


def graph(text: str) -> tuple[list[Op], list[str]]:
    """Ops in order: "c1 e2(c1)" is a compiled op and an eager one that reads it; "b" is compiled
    and can't run in eager."""
    names: list[str] = []
    ops = []
    for word in text.split():
        name, _, needs = word.rstrip(")").partition("(")
        indices = [names.index(need) for need in needs.split(",") if need]
        ops.append(Op(name[0] != "e", indices, name[0] != "b"))
        names.append(name)
    return ops, names


def cut(text: str) -> list[set[str]]:
    """The pieces, in their order."""
    ops, names = graph(text)
    found = stages(ops)
    for op, stage in zip(ops, found, strict=True):
        for need in op.needs:
            in_order = found[need] < stage or (found[need] == stage)
            assert in_order, "an op runs before what it needs"
    pieces = sorted({stage for stage in found if stage % 2})
    return [{name for name, s in zip(names, found, strict=True) if s == stage} for stage in pieces]


def test_without_eager_ops_there_is_one_piece() -> None:
    assert cut("c1 c2 c3(c1,c2)") == [{"c1", "c2", "c3"}]


def test_a_chain() -> None:
    text = "c1 c2(c1) e1(c2) c3(e1) c4(c3) e2(c4) c5(e2) c6(c5)"
    assert cut(text) == [{"c1", "c2"}, {"c3", "c4"}, {"c5", "c6"}]


def test_eager_ops_at_the_start_cost_no_piece() -> None:
    assert cut("e1 c1(e1) c2(c1) c3 c4(c2,c3)") == [{"c1", "c2", "c3", "c4"}]


def test_eager_ops_next_to_each_other_are_one_boundary() -> None:
    assert cut("c1 c2(c1) e1(c2) e2(e1) c3(e2) c4(c3,e1)") == [{"c1", "c2"}, {"c3", "c4"}]


def test_a_diamond_with_an_eager_side() -> None:
    """The other side runs with the first piece, not as one of its own."""
    text = "c1 c2(c1) e1(c2) s1(c2) s2(s1) j1(e1,s2) j2(j1)"
    assert cut(text) == [{"c1", "c2", "s1", "s2"}, {"j1", "j2"}]


def test_a_diamond_with_two_eager_sides() -> None:
    text = "c1 c2(c1) e1(c2) e2(c1) j1(e1,e2) j2(j1)"
    assert cut(text) == [{"c1", "c2"}, {"j1", "j2"}]


def test_a_diamond_with_sides_of_different_depth() -> None:
    text = "c1 c2(c1) e1(c2) x1(e1) x2(x1) e2(x2) y1(c2) e3(y1) y2(e3) y3(y2) j1(e2,y3) j2(j1)"
    pieces = cut(text)
    assert len(pieces) == 3
    assert pieces[1] == {"x1", "x2", "y2", "y3"}


def test_two_diamonds_share_their_pieces() -> None:
    text = (
        "a1 a2(a1) e1(a2) a3(e1) a4(a3,a2) e2(a4) a5(e2) a6(a5) "
        "b1 b2(b1) e3(b2) b3(e3) b4(b3,b2) e4(b4) b5(e4) b6(b5)"
    )
    assert [len(piece) for piece in cut(text)] == [4, 4, 4]


def test_a_small_piece_runs_in_eager() -> None:
    assert MINIMUM_OPS == 2
    assert cut("c1") == []
    assert cut("c1 c2(c1) e1(c2) c3(e1) e2(c3) c4(e2) c5(c4)") == [{"c1", "c2"}, {"c4", "c5"}]


def test_what_has_no_eager_kernel_is_compiled_however_small() -> None:
    assert cut("b1") == [{"b1"}]
    assert cut("b1 e1(b1) c1(e1)") == [{"b1"}]


def fewest(ops: list[Op]) -> int:
    """By trying all orders of stages: the least number of pieces, small ones included."""
    for count in itertools.count():
        if _fits(ops, count):
            return count
    raise AssertionError


def _fits(ops: list[Op], count: int) -> bool:
    """Whether some assignment of stages 0 to 2 * count has ops run after what they need."""
    last = 2 * count

    def place(index: int, found: list[int]) -> bool:
        if index == len(ops):
            return True
        least = max((found[need] for need in ops[index].needs), default=0)
        choices = [s for s in range(least, last + 1) if s % 2 == ops[index].is_compiled]
        return any(place(index + 1, [*found, stage]) for stage in choices)

    return place(0, [])


def test_no_cut_has_fewer_pieces() -> None:
    """Ops that have to be compiled, since only of those is the number minimal by itself."""
    chance = random.Random(0)
    for _ in range(300):
        ops: list[Op] = []
        for index in range(chance.randint(1, 7)):
            needs = [k for k in range(index) if chance.random() < 0.4]
            ops.append(Op(chance.random() < 0.6, needs, runs_in_eager=False))
        found = stages(ops)
        assert len({stage for stage in found if stage % 2}) == fewest(ops)
        for op, stage in zip(ops, found, strict=True):
            assert stage % 2 == op.is_compiled
            assert all(found[need] <= stage for need in op.needs)
