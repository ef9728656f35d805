"""Outputs share memory where eager's do, and are ordinary CPU tensors."""

from __future__ import annotations

import gc
import io
import pickle
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


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", **kwargs)


def memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def sharing(outputs: Any) -> list[int]:
    """For each output the first one with its memory."""
    places = [memory(o) if isinstance(o, torch.Tensor) else id(o) for o in outputs]
    return [places.index(p) for p in places]


def check(function: Any, *inputs: Any, calls: int = 2) -> None:
    """Values, strides, sharing and objects are eager's, also after a write to the first output."""
    fast = compiled(function)
    for _ in range(calls):
        ours, theirs = fast(*inputs), function(*inputs)
        assert sharing(ours) == sharing(theirs)
        assert [[a is b for b in ours] for a in ours] == [[a is b for b in theirs] for a in theirs]
        for round_ in range(2):
            for a, b in zip(ours, theirs, strict=True):
                assert_close(a, b, rtol=0, atol=0)
                if not isinstance(a, torch.Tensor):
                    continue
                assert a.stride() == b.stride()
                assert a.storage_offset() == b.storage_offset()
            if round_ == 0:
                with torch.no_grad():
                    ours[0].detach().add_(1)
                    theirs[0].detach().add_(1)


def views(x: torch.Tensor) -> Any:
    y = x + 1
    return y, y[1:], y.t(), y.view(-1), y[:, ::2], y


def only_parts(x: torch.Tensor) -> Any:
    y = (x + 1).t()
    return y[1:], y[:, 1]


def after_a_write(x: torch.Tensor) -> Any:
    y = x * 2
    row = y[0]
    row.add_(1)
    return row, y


def pieces(x: torch.Tensor) -> Any:
    return (x + 1).chunk(2)


def duplicates(x: torch.Tensor) -> Any:
    y = x + 1
    return y, y, x, None, y + 0, 3, x, torch.ones(2)


def expanded(x: torch.Tensor) -> Any:
    y = x.sum(0)
    z = y.expand(3, 4)
    return y, z


def detached(x: torch.Tensor) -> Any:
    y = x + 1
    return y, y.detach(), y.data


def copy_of_an_output(x: torch.Tensor) -> Any:
    y = x + 1
    z = torch.zeros_like(y)
    z.copy_(y)
    return y, z


def indices(x: torch.Tensor) -> Any:
    i = x.to(torch.int64) + 1
    return i, i[1:], x * 2


SHARED = [views, only_parts, after_a_write, pieces, duplicates, expanded, detached]
SHARED += [copy_of_an_output, indices]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", SHARED, ids=lambda f: f.__name__)
def test_shared_memory(function: Any, mode: Mode) -> None:
    with mode():
        check(function, torch.arange(16.0).reshape(4, 4))


def test_of_an_input_that_requires_grad() -> None:
    x = torch.arange(16.0).reshape(4, 4).requires_grad_()
    for function in (views, indices, duplicates):
        torch._dynamo.reset()
        check(function, x)


def test_dynamic_sizes() -> None:
    fast = torch.compile(views, backend="pjrt", dynamic=True)
    for n in (3, 5):
        x = torch.randn(n, n + 1)
        ours, theirs = fast(x), views(x)
        assert sharing(ours) == sharing(theirs)
        assert_close(ours, theirs)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last) + 1


@pytest.mark.parametrize("function", [channels_last, lambda x: (x + 1).sum(0).expand(5, 3, 4, 4)])
def test_strides(function: Any) -> None:
    x = torch.randn(2, 3, 4, 4)
    y, expected = compiled(function)(x), function(x)
    assert y.stride() == expected.stride()
    assert_close(y, expected)


def test_constants_are_fresh_at_each_call() -> None:
    fast = compiled(lambda x: (x + 1, torch.tensor([1.0, 2.0]), torch.zeros(2)))
    for _ in range(2):
        _, a, b = fast(torch.ones(2))
        assert_close(a, torch.tensor([1.0, 2.0]))
        assert_close(b, torch.zeros(2))
        a.add_(5)
        b.add_(5)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("mode", MODES)
def test_an_output_is_an_ordinary_tensor(mode: Mode) -> None:
    fast = compiled(double)
    with mode():
        outputs = [fast(torch.arange(6.0)) for _ in range(6)]
        expected = torch.arange(6.0) * 2
        outputs[0].resize_(100).fill_(1)
        assert outputs[0].shape == (100,)
        outputs[1].set_(torch.ones(3))
        assert outputs[1].shape == (3,)
        assert outputs[2].share_memory_().is_shared()
        assert_close(outputs[2], expected)
        assert_close(torch.from_dlpack(outputs[3]), expected)
        assert_close(torch.from_numpy(outputs[4].numpy()), expected)
        assert_close(pickle.loads(pickle.dumps(outputs[4])), expected)
        file = io.BytesIO()
        torch.save(outputs[5], file)
        file.seek(0)
        assert_close(torch.load(file), expected)
        outputs[5].untyped_storage().resize_(0)
        outputs[5].untyped_storage().resize_(24)


def test_an_output_outlives_everything() -> None:
    model = torch.nn.Linear(8, 8)
    fast = compiled(model)
    x = torch.randn(2, 8)
    with torch.no_grad():
        y, expected = fast(x), model(x)
    del model, fast, x
    torch._dynamo.reset()
    gc.collect()
    assert_close(y, expected)
    y.add_(1)
    assert_close(y, expected + 1)


def test_sharing_copies_nothing() -> None:
    fast = compiled(views)
    with torch.no_grad():
        fast(torch.ones(4, 4))
        torch_pjrt.reset_stats()
        fast(torch.ones(4, 4))
    counts = torch_pjrt.stats()
    assert (counts["device_to_host_bytes"], counts["copied_inputs"]) == (0, 0)
