"""Interleaved timing: every round runs each side once, in an order that treats all sides alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Side:
    """One thing to time. observe() is entered around each timed sample, outside the clock.
    iterations, if given, goes before measure()'s. finish() waits for what the calls of a sample
    have started, within the clock."""

    name: str
    call: Callable[..., object]
    observe: Callable[[], AbstractContextManager[object]] = nullcontext
    iterations: int | None = None
    finish: Callable[[], object] = lambda: None


@dataclass
class Samples:
    """seconds[side name] has one entry per complete round: seconds per iteration."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    interrupted: bool = False


def order(round_index: int, sides: int) -> list[int]:
    """The order in which round `round_index` runs its sides.

    Odd rounds reverse the round before, and each pair of rounds starts two sides further on. So
    two sides alternate AB BA AB BA, and of any number each comes equally often first and last.
    """
    start = round_index - round_index % 2
    forward = [(start + offset) % sides for offset in range(sides)]
    return forward[::-1] if round_index % 2 else forward


def _timed(side: Side, arguments: Arguments, iterations: int) -> float:
    """Seconds per call. All results but the last are released inside the timed region."""
    result, call = None, side.call
    start = time.perf_counter()
    for _ in range(iterations):
        result = call(*arguments)
    side.finish()
    elapsed = time.perf_counter() - start
    del result
    return elapsed / iterations


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def warm_up(sides: Sequence[Side], inputs: Callable[[], Arguments], rounds: int) -> None:
    """Runs `rounds` unmeasured rounds."""
    for index in range(rounds):
        arguments = inputs()
        for position in order(index, len(sides)):
            sides[position].call(*arguments)
            sides[position].finish()


def measure(
    sides: Sequence[Side],
    inputs: Callable[[], Arguments],
    rounds: int,
    iterations: int,
    on_round: Callable[[int], None] = lambda done: None,
) -> Samples:
    """Times `rounds` rounds; every side of a round gets the same arguments, from one inputs().

    A KeyboardInterrupt ends the measurement: the complete rounds are returned, marked interrupted.
    Other exceptions pass through.
    """
    samples = Samples({side.name: [] for side in sides})
    try:
        with _no_garbage_collection():
            for index in range(rounds):
                arguments = inputs()
                this_round: dict[str, float] = {}
                for position in order(index, len(sides)):
                    side = sides[position]
                    with side.observe():
                        this_round[side.name] = _timed(
                            side, arguments, side.iterations or iterations
                        )
                for name, seconds in this_round.items():
                    samples.seconds[name].append(seconds)
                on_round(index + 1)
    except KeyboardInterrupt:
        samples.interrupted = True
    return samples


def speedup(baseline: Sequence[float], compiled: Sequence[float]) -> float | None:
    """median(baseline) / median(compiled), or None without samples on both sides."""
    if not baseline or not compiled:
        return None
    return statistics.median(baseline) / statistics.median(compiled)


def geomean(values: Sequence[float]) -> float | None:
    """The geometric mean of positive numbers, or None of none."""
    return statistics.geometric_mean(values) if values else None
