"""Probabilities, deviations and rates that eager refuses are refused, and change no input."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", fullgraph=True, **kwargs)


def error_of(function: Any, *inputs: Any) -> tuple[type, str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function(*inputs)
    return caught.type, str(caught.value)


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def cross_entropy(p: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy(p, floats(0, 1))


def cross_entropy_of_targets(p: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy(floats(0.25, 0.5), p, floats(2, 3), reduction="sum")


MASK = torch.tensor([True, False, True])
CASES = [  # function, good, bad ones
    (torch.bernoulli, floats(0, 1), [floats(0, 1.5), floats(-0.1, 1), floats(math.nan, 1)]),
    (
        lambda p: torch.empty(2, dtype=torch.int32).bernoulli_(p),
        floats(1, 0),
        [floats(0.5, 1.5), floats(-1, 0)],
    ),
    (
        lambda s: torch.normal(floats(1, 2), s),
        floats(0, 0),
        [floats(1, -1), floats(math.nan, 0)],
    ),
    (lambda s: torch.normal(2.0, s), floats(0, 0), [floats(-1, 1)]),
    (cross_entropy, floats(0.25, 0.5), [floats(1.5, 0.5), floats(0.5, -0.1), floats(math.nan, 0)]),
    (cross_entropy_of_targets, floats(0.25, 1), [floats(2, 0.5), floats(0, -1)]),
    (lambda s: torch.zeros(3).masked_scatter(MASK, s), floats(1, 2), [floats(1), floats()]),
    (lambda s: torch.zeros(2, 3).masked_scatter(MASK, s), floats(1, 2, 3, 4), [floats(1, 2, 3)]),
    (torch.poisson, floats(0, 0), [floats(-1, 2), floats(1, math.nan)]),
    *(
        (
            lambda w, k=k, replacement=replacement: torch.multinomial(w, k, replacement),
            floats(0, 1) if k == 1 or replacement else None,
            [floats(1, -1), floats(math.nan, 1), floats(math.inf, 1), floats(0, 0)],
        )
        for k in (1, 2)
        for replacement in (False, True)
    ),
]


@pytest.mark.parametrize(("function", "good", "bad"), CASES)
def test_bad_values_raise_what_eager_raises(function: Any, good: Any, bad: Any) -> None:
    fast = compiled(function)
    for values in bad:
        assert error_of(fast, values) == error_of(function, values)
    if good is not None:
        assert_close(fast(good), function(good))
    captures = torch_pjrt.stats()["captures"]
    for values in bad:
        error_of(fast, values)
    assert torch_pjrt.stats()["captures"] == captures, "an error is no new capture"


def test_an_error_leaves_inputs_as_they_were() -> None:
    def step(total: torch.Tensor, row: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        total.add_(1)
        row[1:2] = p[:1]
        return F.binary_cross_entropy(p, p) + torch.bernoulli(p).sum()

    fast = compiled(step)
    total, row = torch.zeros(3), torch.zeros(3)
    fast(total, row, floats(1, 0))
    assert_close((total, row), (torch.ones(3), floats(0, 1, 0)))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        fast(total, row, floats(0.5, 1.5))
    assert_close((total, row), (torch.ones(3), floats(0, 1, 0)))


def test_a_negative_deviation_that_is_a_number() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.normal(x, -1.0)

    assert "std" in error_of(f, floats(1))[1]
    assert "std" in error_of(compiled(f), floats(1))[1]


def test_a_loss_in_training() -> None:
    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy(x * 1, y)

    y = floats(1, 0, 0.5)
    for function in (loss, compiled(loss)):
        x = floats(0.25, 0.5, 1).requires_grad_()
        function(x, y).backward()
        assert x.grad is not None
        assert_close(x.grad, floats(-4 / 3, 2 / 3, 5e11 / 3), rtol=1e-3, atol=0)
    assert error_of(compiled(loss), floats(2, 0, 0), y) == error_of(loss, floats(2, 0, 0), y)


def test_sizes_in_messages_are_those_of_the_call() -> None:
    def copied(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.index_copy(0, i, x[:1]) + x.index_add(1, i, x[:, :1])

    fast = compiled(copied, dynamic=True)
    for rows in (3, 5, 7):
        x = torch.randn(rows, 9)
        assert_close(fast(x, torch.tensor([2])), copied(x, torch.tensor([2])))
        bad = torch.tensor([rows])
        assert error_of(fast, x, bad) == error_of(copied, x, bad)
    assert torch_pjrt.stats()["captures"] == 1
