"""Warnings from counts, and where the counts come from."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

from torch_pjrt.bench import counters

WARM = {"captures": 0, "compiles": 0, "copied_inputs": 0, "executions": 6, "memory_hits": 6}


def test_still_counts_give_no_warning() -> None:
    assert counters.warm_warnings(WARM, calls=6, ours=True) == []


@pytest.mark.parametrize("name", counters.STILL_WHEN_WARM)
def test_a_count_that_moved_is_a_warning(name: str) -> None:
    moved = WARM | {name: 2}
    assert counters.warm_warnings(moved, calls=6, ours=True) == [f"2 {name} while timed"]
    assert counters.warm_warnings(moved, calls=6, ours=False) == []


def test_too_few_executions_is_a_warning() -> None:
    assert counters.warm_warnings(WARM, calls=7, ours=True) == ["6 executions in 7 calls"]


def test_dynamo_capture_is_a_warning_for_any_backend() -> None:
    assert counters.warm_warnings({counters.GRAPHS: 1}, calls=6, ours=False)


def test_cold_call_must_capture_and_compile() -> None:
    cold = {counters.GRAPHS: 1, counters.GRAPH_BREAKS: 0, "compiles": 1}
    assert counters.cold_warnings(cold, ours=True) == []
    assert counters.cold_warnings(cold | {counters.GRAPHS: 0}, ours=False)
    assert counters.cold_warnings(cold | {counters.GRAPH_BREAKS: 2}, ours=False)
    assert counters.cold_warnings(cold | {"compiles": 0}, ours=True)
    assert counters.cold_warnings(cold | {"compiles": 0}, ours=False) == []


def test_watch_counts_dynamo_graphs() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    watch = counters.Watch(ours=False)
    compiled(torch.ones(2))
    with watch.watching():
        compiled(torch.ones(2))
    assert watch.moved[counters.GRAPHS] == 0
    with watch.watching():
        compiled(torch.ones(2, dtype=torch.int64))
    assert watch.moved[counters.GRAPHS] == 1
    assert watch.entered == 2


def test_watch_adds_up_our_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([{"compiles": 5}, {"compiles": 7, "new": 1}, {"compiles": 9}, {"compiles": 10}])
    monkeypatch.setattr(counters, "read", lambda ours: next(readings))
    watch = counters.Watch(ours=True)
    for _ in range(2):
        with watch.watching():
            pass
    assert watch.moved == {"compiles": 3, "new": 1}


def test_foreign_backends_are_not_ours() -> None:
    assert not counters.is_ours("eager")
    assert not counters.is_ours("inductor")
