"""Interleaving, what a sample holds, and the statistics. The clock is a fake one."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from torch_pjrt.bench import timing
from torch_pjrt.bench.timing import Side


class Clock:
    """Stands still but for what a side costs."""

    now = 0.0

    def costs(self, seconds: float) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            self.now += seconds

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock.now)
    return clock


def test_two_sides_alternate() -> None:
    assert [timing.order(index, 2) for index in range(4)] == [[0, 1], [1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("sides", range(2, 8))
def test_every_side_is_equally_often_at_every_position(sides: int) -> None:
    seen = Counter(
        (position, side)
        for index in range(2 * sides)
        for position, side in enumerate(timing.order(index, sides))
    )
    assert seen == dict.fromkeys(itertools.product(range(sides), repeat=2), 2)


def test_rounds_run_in_that_order_with_one_input_each() -> None:
    calls: list[tuple[str, object]] = []
    sides = [Side(name, lambda x, name=name: calls.append((name, x))) for name in "AB"]
    made = iter(range(10))
    done: list[int] = []
    samples = timing.measure(sides, lambda: (next(made),), 3, 1, done.append)
    assert calls == [("A", 0), ("B", 0), ("B", 1), ("A", 1), ("A", 2), ("B", 2)]
    assert done == [1, 2, 3]
    assert {name: len(seconds) for name, seconds in samples.seconds.items()} == {"A": 3, "B": 3}
    assert not samples.interrupted


def test_samples_are_seconds_per_iteration(clock: Clock) -> None:
    sides = [Side("A", clock.costs(2.0)), Side("B", clock.costs(0.5))]
    samples = timing.measure(sides, tuple, rounds=2, iterations=4)
    assert samples.seconds == {"A": [2.0, 2.0], "B": [0.5, 0.5]}
    assert clock.now == 2 * 4 * 2.5
    assert timing.speedup(samples.seconds["A"], samples.seconds["B"]) == 4.0


def test_inputs_and_observers_are_outside_the_clock(clock: Clock) -> None:
    @contextlib.contextmanager
    def slow_observer() -> Iterator[None]:
        clock.now += 100.0
        yield
        clock.now += 100.0

    def slow_inputs() -> tuple[object, ...]:
        clock.now += 100.0
        return ()

    samples = timing.measure([Side("A", clock.costs(1.0), slow_observer)], slow_inputs, 2, 1)
    assert samples.seconds == {"A": [1.0, 1.0]}
    assert clock.now == 602.0


def test_warm_up_runs_every_side() -> None:
    calls: list[str] = []
    sides = [Side(name, lambda name=name: calls.append(name)) for name in "AB"]
    timing.warm_up(sides, tuple, rounds=2)
    assert calls == ["A", "B", "B", "A"]


def test_interrupt_keeps_complete_rounds_only() -> None:
    calls = 0

    def stops_at_fourth() -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt

    samples = timing.measure([Side("A", lambda: None), Side("B", stops_at_fourth)], tuple, 9, 1)
    assert samples.interrupted
    assert {name: len(seconds) for name, seconds in samples.seconds.items()} == {"A": 3, "B": 3}


def test_no_garbage_collection_while_measuring() -> None:
    enabled: list[bool] = []
    timing.measure([Side("A", lambda: enabled.append(gc.isenabled()))], tuple, 1, 1)
    assert enabled == [False]
    assert gc.isenabled()


def test_speedup_is_a_ratio_of_medians() -> None:
    assert timing.speedup([1.0, 4.0, 100.0], [2.0, 1.0, 50.0]) == 2.0
    assert timing.speedup([], [1.0]) is None
    assert timing.speedup([1.0], []) is None


def test_geomean() -> None:
    assert timing.geomean([0.5, 8.0]) == pytest.approx(2.0)
    assert timing.geomean([]) is None
