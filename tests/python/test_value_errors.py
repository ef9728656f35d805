"""Values that an op can't take raise eager's exception, and change no input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Mode = Callable[[], AbstractContextManager[Any]]
MODES = [torch.enable_grad, torch.no_grad, torch.inference_mode]
exactly = {"rtol": 0, "atol": 0}


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", **kwargs)


def error_of(function: Any, *inputs: Any) -> tuple[type, str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function(*inputs)
    return caught.type, str(caught.value)


def ints(*values: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def indexed(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i] * 2


def second(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[:, i] * 2


def both(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i[0], i[1]] * 2


def gathered(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.gather(1, i) + 1


def embedded(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(i, x) + 1


ZERO_DIVISION = (RuntimeError, "ZeroDivisionError")
TABLE = torch.arange(12.0).reshape(4, 3)
INDICES = [  # function, good, bad
    (indexed, ints(0, -4, 3), [ints(0, 4, 9), ints(0, 1, -5), ints(2**40, 0, 0)]),
    (indexed, ints([0], [1]), [ints([3], [4])]),
    (indexed, ints(1, 2, dtype=torch.int32), [ints(1, -6, dtype=torch.int32)]),
    (indexed, torch.tensor(2), [torch.tensor(4), torch.tensor(-5)]),
    (second, ints([0, -3]), [ints([0, 3])]),
    (
        both,
        ints([0, -1], [2, 0]),
        [ints([0, 9], [7, 0]), ints([9, 0], [0, 7]), ints([9, 0], [9, 0])],
    ),
    (gathered, ints([0, 2], [1, 1]), [ints([0, 3], [4, 0]), ints([0, 1], [0, -1])]),
    (embedded, ints(0, 3), [ints(0, 4), ints(-1, 0)]),
    (embedded, ints([0, 3], dtype=torch.int32), [ints([5, 3], dtype=torch.int32)]),
]


def picked(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_select(0, i) + 1


def picked_columns(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_select(1, i) + 1


def scattered(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.scatter(0, i, x * 2)


def filled(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.scatter(1, i, 5.0)


def added(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(0, i, x)


def reduced(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.scatter_reduce(0, i, x, "amax", include_self=False)


def averaged(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.scatter_reduce(0, i, x, "mean")


def put(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_put((i,), x[: i.shape[0]])


def put_more(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_put((i[0], i[1]), x[0, 0], accumulate=True)


def multiplied(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_reduce(0, i, x[: i.shape[0]], "prod")


ELEMENTS = (ints([0, 3, 1]), [ints([0, 4, 1]), ints([0, -1, 1])])
ROWS = (ints(0, 3), [ints(0, 4), ints(-1, 0)])
INDICES += [
    (picked, *ROWS),
    (picked_columns, ints(0, 2), [ints(0, 3), ints(-1, 0)]),
    (scattered, *ELEMENTS),
    (filled, ints([0, 2], [1, 1]), [ints([0, 3], [1, 1]), ints([0, 1], [0, -1])]),
    (added, *ELEMENTS),
    (reduced, *ELEMENTS),
    (averaged, *ELEMENTS),
    (put, ints(0, -4), [ints(0, 4), ints(-5, 0)]),
    (put_more, ints([0, -1], [2, 0]), [ints([0, 9], [7, 0]), ints([0, 1], [-4, 0])]),
    (multiplied, *ROWS),
]


@pytest.mark.parametrize(("function", "good", "bad"), INDICES)
def test_indices(function: Any, good: torch.Tensor, bad: list[torch.Tensor]) -> None:
    fast = compiled(function)
    for wrong in bad:
        assert_close(fast(TABLE, good), function(TABLE, good), **exactly)
        assert error_of(fast, TABLE, wrong) == error_of(function, TABLE, wrong)
    assert_close(fast(TABLE, good), function(TABLE, good), **exactly)
    assert torch_pjrt.stats()["compiles"] <= 1


def summed(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_add(0, i, x[: i.shape[0]], alpha=2)


def summed_once(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_add(0, i, x[: i.shape[0]])


def summed_planes(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    planes = torch.stack([x, x, x])
    first = planes.index_add(0, i % 3, planes[: i.shape[0]])
    return first.index_add(1, i, planes[:, : i.shape[0]])


def summed_last(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    planes = torch.stack([x.t(), x.t()])
    return planes.index_add(-1, i, planes[..., : i.shape[0]])


def copied(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_copy(1, i, x[:, : i.shape[0]])


def lost(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(x[: i.shape[0]], i)


REWRITTEN = [
    (summed, *ROWS),
    (summed_once, *ROWS),
    (summed_planes, *ROWS),
    (summed_last, *ROWS),
    (copied, ints(0, 2), [ints(0, 3), ints(-1, 0)]),
    (lost, ints(0, 2, -100), [ints(0, 3, 0), ints(-1, 0, 0)]),
]


@pytest.mark.parametrize(("function", "good", "bad"), REWRITTEN)
def test_ops_that_are_rewritten(function: Any, good: torch.Tensor, bad: list[torch.Tensor]) -> None:
    fast = compiled(function)
    for wrong in bad:
        assert_close(fast(TABLE, good), function(TABLE, good))
        assert error_of(fast, TABLE, wrong) == error_of(function, TABLE, wrong)


def test_assertions() -> None:
    def f(i: torch.Tensor) -> torch.Tensor:
        torch._assert_async((i < 3).all(), "too large")
        return torch.nn.functional.one_hot(i, 5)

    fast = compiled(f)
    assert_close(fast(ints(0, 2)), f(ints(0, 2)), **exactly)
    assert error_of(fast, ints(0, 4)) == error_of(f, ints(0, 4)) == (RuntimeError, "too large")
    assert "non-negative" in error_of(fast, ints(-1))[1]


def floor(a: Any, b: Any) -> Any:
    return a // b


def truncated(a: Any, b: Any) -> Any:
    return torch.div(a, b, rounding_mode="trunc")


def rest(a: Any, b: Any) -> Any:
    return a % b


def rest_of_truncated(a: Any, b: Any) -> Any:
    return torch.fmod(a, b)


DIVISIONS = [floor, truncated, rest, rest_of_truncated]


@pytest.mark.parametrize("function", DIVISIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integer_division_by_zero(function: Any, dtype: torch.dtype) -> None:
    fast = compiled(function)
    a, good, bad = (ints(*v, dtype=dtype) for v in ((7, 8, 9), (2, 3, 4), (2, 0, 4)))
    assert_close(fast(a, good), function(a, good), **exactly)
    assert error_of(fast, a, bad) == error_of(function, a, bad) == ZERO_DIVISION
    assert error_of(fast, a, bad[1]) == ZERO_DIVISION
    assert_close(fast(a, good), function(a, good), **exactly)
    assert_close(fast(a / 2.0, bad / 2.0), function(a / 2.0, bad / 2.0), equal_nan=True)


def test_division_by_a_number() -> None:
    for function in DIVISIONS:
        assert error_of(compiled(function), ints(1, 2), 0) == ZERO_DIVISION
        assert_close(compiled(function)(ints(7, -7), 2), function(ints(7, -7), 2), **exactly)


def test_nothing_to_divide_or_index() -> None:
    fast = compiled(floor)
    assert fast(ints(), ints(0)).shape == (0,)
    assert compiled(indexed)(torch.zeros(4, 0), ints(9)).shape == (1, 0)


def test_the_first_of_several_counts() -> None:
    def f(x: torch.Tensor, i: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return x[i] * (i // d).unsqueeze(1)

    fast = compiled(f)
    for i, d in ((ints(4), ints(0)), (ints(0), ints(0)), (ints(4), ints(1))):
        assert error_of(fast, TABLE, i, d) == error_of(f, TABLE, i, d)


@pytest.mark.parametrize("mode", MODES)
def test_mutated_inputs_keep_their_values(mode: Mode) -> None:
    def step(count: torch.Tensor, cache: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        cache.mul_(2)
        return cache[i] + count

    fast = compiled(step)
    count, cache = torch.zeros(16), torch.ones(4, 16)
    addresses = count.data_ptr(), cache.data_ptr()
    with mode():
        fast(count, cache, ints(1))
        for _ in range(2):
            assert error_of(fast, count, cache, ints(4))[0] is IndexError
            assert_close(count, torch.ones(16), **exactly)
            assert_close(cache, torch.full((4, 16), 2.0), **exactly)
        assert_close(fast(count, cache, ints(-1)), torch.full((1, 16), 6.0), **exactly)
    assert (count.data_ptr(), cache.data_ptr()) == addresses
    counts = torch_pjrt.stats()
    assert (counts["copied_inputs"], counts["device_to_host_bytes"]) == (0, 0)


def row(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> None:
    cache[:, 3] = new[:, 0]


def rows(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> None:
    cache[:, 3:5] = new


def rows_by_index(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> None:
    cache[:, at] = new


def elements_by_index(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> None:
    cache.scatter_(1, at.view(1, 2, 1).expand(new.shape), new)


@pytest.mark.parametrize("write", [row, rows, rows_by_index, elements_by_index])
def test_a_small_write_to_a_cache_stays_small(write: Any, caplog: pytest.LogCaptureFixture) -> None:
    def step(
        cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor, i: torch.Tensor
    ) -> torch.Tensor:
        write(cache, new, at)
        return new.flatten()[i] + 1

    fast = compiled(step)
    cache, expected = torch.zeros(2, 8, 3), torch.zeros(2, 8, 3)
    new, at, address = torch.randn(2, 2, 3), ints(3, 6), cache.data_ptr()
    with caplog.at_level("DEBUG", "torch_pjrt"):
        assert error_of(fast, cache, new, at, ints(12))[0] is IndexError
    assert_close(cache, expected, **exactly)
    text = next(m for r in caplog.records if "func.func" in (m := r.getMessage()))
    whole = [t for t in text.splitlines() if "stablehlo.select" in t and "tensor<2x8x3xf32>" in t]
    assert whole == []
    y = fast(cache, new, at, ints(5))
    assert_close(y, step(expected, new, at, ints(5)), **exactly)
    assert_close(cache, expected, **exactly)
    assert cache.data_ptr() == address
    counts = torch_pjrt.stats()
    assert (counts["copied_inputs"], counts["device_to_host_bytes"]) == (0, 0)


def test_mutated_inputs_with_gaps_keep_their_values() -> None:
    def step(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x[i] * 2

    fast = compiled(step)
    base = torch.arange(16.0).reshape(4, 4)
    assert error_of(fast, base[:, ::2], ints(7))[0] is IndexError
    assert_close(base, torch.arange(16.0).reshape(4, 4), **exactly)
    fast(base[:, ::2], ints(3))
    assert_close(base[:, ::2], torch.arange(16.0).reshape(4, 4)[:, ::2] + 1, **exactly)


def test_overlapping_mutated_inputs_keep_their_values() -> None:
    def step(a: torch.Tensor, b: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        b.mul_(2)
        return a[i] + b[i]

    fast = compiled(step)
    ours, theirs = torch.arange(32.0), torch.arange(32.0)
    assert error_of(fast, ours[:16], ours[8:24], ints(16))[0] is IndexError
    assert_close(ours, theirs, **exactly)
    for _ in range(2):
        y = fast(ours[:16], ours[8:24], ints(3))
        assert_close(y, step(theirs[:16], theirs[8:24], ints(3)), **exactly)
        assert_close(ours, theirs, **exactly)


def test_an_index_that_comes_from_the_mutated_input() -> None:
    def step(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return table[x]

    fast = compiled(step)
    x, table = ints(1, 2), torch.arange(4.0)
    assert_close(fast(x, table), torch.tensor([2.0, 3.0]), **exactly)
    assert error_of(fast, x, table) == (
        IndexError,
        "index 4 is out of bounds for dimension 0 with size 4",
    )
    assert_close(x, ints(2, 3), **exactly)


def test_under_autograd() -> None:
    weight = TABLE.clone().requires_grad_()
    fast = compiled(embedded)
    assert_close(fast(weight, ints(1)), embedded(weight, ints(1)))
    assert error_of(fast, weight, ints(4)) == (IndexError, "index out of range in self")
    assert_close(fast(weight, ints(2)), embedded(weight, ints(2)))


def test_dynamic_sizes() -> None:
    fast = compiled(indexed, dynamic=True)
    for n in (3, 5):
        x = torch.randn(n, 2)
        assert_close(fast(x, ints(n - 1, -n)), indexed(x, ints(n - 1, -n)))
        assert error_of(fast, x, ints(n, 0)) == error_of(indexed, x, ints(n, 0))


def test_a_symbol_as_divisor() -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return i // (x.shape[0] - 4)

    fast = compiled(f, dynamic=True)
    assert_close(fast(torch.ones(6), ints(7)), ints(3), **exactly)
    assert error_of(fast, torch.ones(4), ints(7)) == ZERO_DIVISION


def status_of(caplog: pytest.LogCaptureFixture, function: Any, *inputs: Any) -> bool:
    """Whether the program of that call reports on its values."""
    caplog.clear()
    with caplog.at_level("DEBUG", "torch_pjrt"):
        assert_close(compiled(function)(*inputs), function(*inputs), **exactly)
    texts = [r.getMessage() for r in caplog.records if "func.func" in r.getMessage()]
    assert len(texts) == 1
    return "tensor<2xi64>" in texts[0].split("return")[-1]


def test_positions_in_range_need_no_check(caplog: pytest.LogCaptureFixture) -> None:
    def within(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(torch.arange(x.shape[0]).unsqueeze(0), x) + 1

    def mixed(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(4)[:, None], i]

    def beyond(x: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(x.shape[0]) + 1 - 1] * 3

    x = torch.randn(4, 7)
    assert not status_of(caplog, within, x)
    assert status_of(caplog, mixed, x, ints(0, 6))
    assert status_of(caplog, beyond, x)
    i = ints(0, 7)
    assert error_of(compiled(mixed), x, i) == error_of(mixed, x, i)
    bad = error_of(compiled(lambda x: x[torch.arange(5)]), x)
    assert bad == error_of(lambda x: x[torch.arange(5)], x)
