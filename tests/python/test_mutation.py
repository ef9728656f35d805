"""Inputs that a compiled function changes in place hold what they hold in eager."""

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


def copies(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors over memory of their own, with the same strides."""
    return tuple(
        torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t)
        if isinstance(t, torch.Tensor)
        else t
        for t in tensors
    )


def check(function: Any, *inputs: Any, calls: int = 3, **kwargs: Any) -> dict[str, int]:
    """Calls eager and compiled on copies of the inputs; the counts of all calls but the first."""
    fast = compiled(function, **kwargs)
    ours, theirs = copies(inputs), copies(inputs)
    for call in range(calls):
        if call == 1:
            torch_pjrt.reset_stats()
        assert_close(fast(*ours), function(*theirs), **exactly)
        assert_close(ours, theirs, **exactly)
    return torch_pjrt.stats()


def copied(counts: dict[str, int]) -> tuple[int, int, int]:
    return (
        counts["copied_inputs"],
        counts["host_to_device_bytes"],
        counts["device_to_host_bytes"],
    )


@pytest.mark.parametrize("mode", MODES)
def test_is_in_place_and_once_a_call(mode: Mode) -> None:
    def step(count: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count.add_(1)
        return count * x, count

    fast = compiled(step)
    count, x = torch.zeros(64), torch.full((64,), 2.0)
    address = count.data_ptr()
    with mode():
        for k in range(1, 4):
            y, same = fast(count, x)
            assert same is count
            assert_close(count, torch.full((64,), float(k)), **exactly)
            assert_close(y, count * 2, **exactly)
    assert count.data_ptr() == address
    assert copied(torch_pjrt.stats()) == (0, 0, 0)


def scaled_view(x: torch.Tensor) -> torch.Tensor:
    y = x.t()
    y.mul_(3.0)
    y[0].add_(1)
    return y


def filled(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(y)
    y.zero_()


def swapped(x: torch.Tensor, y: torch.Tensor) -> None:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[1:3] = y[0]
    x[..., 0] = 7
    return x.sum(0)


def into_other_dtype(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.copy_(y.to(torch.float64) + 0.75)
    return x + 1


@pytest.mark.parametrize(
    "function", [filled, swapped, assigned, into_other_dtype], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8]
)
def test_ways_to_write(function: Any, dtype: torch.dtype) -> None:
    x = torch.arange(64).reshape(4, 16).to(dtype)
    assert copied(check(function, x, x + 100)) == (0, 0, 0)


def test_through_a_view() -> None:
    assert copied(check(scaled_view, torch.arange(6.0).reshape(2, 3))) == (0, 0, 0)


def test_bool() -> None:
    check(lambda x, y: x.logical_and_(y), torch.tensor([True, False]), torch.tensor([True, True]))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    check(lambda x: x.add_(1), torch.ones(shape))


def added(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1)


DENSE = {
    "transposed": lambda x: x.t(),
    "channels_last": lambda x: x.reshape(1, 2, 4, 2).to(memory_format=torch.channels_last),
    "permuted": lambda x: x.reshape(2, 4, 2).permute(1, 2, 0),
}
WITH_GAPS = {
    "every_other": lambda x: x[:, ::2],
    "columns": lambda x: x[:, 1:3],
    "transposed_rows": lambda x: x[::2].t(),
}


@pytest.mark.parametrize("layout", DENSE.values(), ids=DENSE)
def test_dense_layouts_are_in_place(layout: Any) -> None:
    assert copied(check(added, layout(torch.arange(16.0).reshape(4, 4)))) == (0, 0, 0)


@pytest.mark.parametrize("layout", WITH_GAPS.values(), ids=WITH_GAPS)
def test_gaps_are_left_alone(layout: Any) -> None:
    base = torch.arange(16.0).reshape(4, 4)
    other = base.clone()
    fast = compiled(added)
    for _ in range(3):
        torch_pjrt.reset_stats()
        view = layout(base)
        assert fast(view) is view
        layout(other).add_(1)
        assert_close(base, other, **exactly)
    size = view.numel() * 4
    assert copied(torch_pjrt.stats()) == (1, size, size)


def test_misaligned_memory() -> None:
    base = torch.arange(17.0)
    fast = compiled(added)
    for k in range(1, 4):
        torch_pjrt.reset_stats()
        fast(base[1:])
        assert_close(base, torch.arange(17.0) + torch.tensor([0.0] + [float(k)] * 16), **exactly)
    assert copied(torch_pjrt.stats()) == (1, 64, 64)


def test_the_same_tensor_twice() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * b

    fast = compiled(f)
    x, y = torch.ones(4), torch.ones(4)
    for _ in range(2):
        assert_close(fast(x, x), f(y, y), **exactly)
        assert_close(x, y, **exactly)
    a, b = torch.ones(4), torch.full((4,), 5.0)
    assert_close(fast(a, b), torch.full((4,), 10.0), **exactly)


def views(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    b.mul_(2)
    return a + b


@pytest.mark.parametrize("ranges", [((0, 16), (16, 32)), ((0, 16), (8, 24)), ((0, 16), (0, 16))])
def test_two_views_of_one_storage(ranges: Any) -> None:
    (a, b), (c, d) = ranges
    fast = compiled(views)
    ours, theirs = torch.arange(32.0), torch.arange(32.0)
    for _ in range(3):
        assert_close(fast(ours[a:b], ours[c:d]), views(theirs[a:b], theirs[c:d]), **exactly)
        assert_close(ours, theirs, **exactly)


def test_views_that_overlap_later() -> None:
    """What was captured apart is computed apart: all is read first, then written in order."""
    fast = compiled(views)
    x = torch.arange(32.0)
    fast(x[:16], x[16:])
    torch_pjrt.reset_stats()
    y = torch.arange(32.0)
    assert_close(fast(y[:16], y[8:24]), torch.arange(1.0, 17) + 2 * torch.arange(8.0, 24))
    expected = torch.arange(32.0)
    expected[:8] += 1
    expected[8:24] *= 2
    assert_close(y, expected, **exactly)
    assert copied(torch_pjrt.stats()) == (2, 128, 128)


def test_outputs_that_are_or_view_the_input() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.add_(1)
        return x, x[1:], x.view(-1), x + 1, x.t()

    fast = compiled(f)
    x = torch.zeros(4, 4)
    for k in range(1, 3):
        outputs = fast(x)
        assert_close(outputs, (*(torch.full_like(o, k) for o in outputs[:3]), x + 1, x.t()))
        assert outputs[0] is x
        for view in (*outputs[1:3], outputs[4]):
            assert view.untyped_storage().data_ptr() == x.data_ptr()
        assert outputs[1].data_ptr() == x[1:].data_ptr()
        assert outputs[3].untyped_storage().data_ptr() != x.data_ptr()


def test_buffers_of_a_module() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))
            self.register_buffer("count", torch.tensor(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.count.add_(1)
            return x - self.mean

    ours, theirs = Counter(), Counter()
    fast = compiled(ours)
    address = ours.mean.data_ptr()
    for _ in range(3):
        x = torch.randn(4, 8)
        assert_close(fast(x), theirs(x))
    assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))
    assert (int(ours.count), ours.mean.data_ptr()) == (3, address)
    assert copied(torch_pjrt.stats()) == (0, 0, 0)


def test_a_parameter_under_no_grad_in_grad_mode() -> None:
    def f(p: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            p.add_(1)
        return p * 2

    p = torch.ones(8, requires_grad=True)
    fast = compiled(f)
    version = p._version
    assert_close(fast(p), torch.full((8,), 4.0))
    assert_close(fast(p).detach(), torch.full((8,), 6.0))
    assert p.is_leaf
    assert p._version > version


def test_a_leaf_that_requires_grad() -> None:
    p = torch.ones(8, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used"):
        compiled(added)(p)
    assert_close(p.detach(), torch.ones(8))


def test_version_counter() -> None:
    x = torch.ones(8)
    fast = compiled(lambda x: x.add_(1))
    for _ in range(2):
        version = x._version
        fast(x)
        assert x._version == version + 1


def test_inference_tensors() -> None:
    with torch.inference_mode():
        x = torch.ones(8)
        fast = compiled(added)
        fast(x)
        fast(x)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        fast(x)
    assert_close(x.clone(), torch.full((8,), 3.0))


def test_memory_shared_until_written() -> None:
    x = torch.arange(16.0)
    lazy = torch._lazy_clone(x)
    fast = compiled(added)
    fast(lazy)
    assert_close(x, torch.arange(16.0))
    assert_close(lazy, torch.arange(16.0) + 1)


def test_metadata_too() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.t_().add_(1)
        return x * 2

    fast = compiled(f)
    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)
    assert_close(fast(x), f(y))
    assert_close(x, y)
    assert x.stride() == y.stride()


def test_dynamic_sizes() -> None:
    fast = compiled(added, dynamic=True)
    for n in (3, 5, 8):
        x = torch.zeros(n)
        fast(x)
        assert_close(x, torch.ones(n))
    assert torch_pjrt.stats()["captures"] == 1


def test_parameters_kept_between_calls_are_written_by_another_program() -> None:
    w, x = torch.ones(16), torch.full((16,), 3.0)
    read = compiled(lambda w, x: w * x)
    write = compiled(lambda w: w.add_(1))
    for k in range(1, 4):
        assert_close(read(w, x), x * k)
        write(w)
    assert copied(torch_pjrt.stats()) == (0, 0, 0)


def test_storage_offsets_are_part_of_the_program() -> None:
    """as_strided counts from the storage's start: the same numbers mean another place."""
    base = torch.arange(64.0)
    for first in (0, 16):
        torch._dynamo.reset()
        x = base[first : first + 32]
        y = compiled(lambda x: x.as_strided((2, 3), (5, 2), 17) * 2)(x)
        assert_close(y, base.as_strided((2, 3), (5, 2), 17) * 2)


def test_views_of_a_mutated_input_are_not_computed(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.add_(y)
        return x[:, 1:], x.view(-1), x.t()

    base = torch.zeros(3, 64)
    fast = compiled(f)
    with caplog.at_level("DEBUG", "torch_pjrt"):
        outputs = fast(base[1:], torch.ones(2, 64))
    assert_close(outputs, f(base[1:].clone() - 1, torch.ones(2, 64)))
    assert [o.storage_offset() for o in outputs] == [65, 64, 64]
    assert all(o.untyped_storage().data_ptr() == base.data_ptr() for o in outputs)
    text = "".join(r.getMessage() for r in caplog.records if "func.func" in r.getMessage())
    assert text.count("tf.aliasing_output") == 1, text
