"""What surrounds a call: torch's modes and settings, other ways to make or hold a function."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", **kwargs)


def model(width: int = 16) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 4)
    )


def check(fast: Callable[..., Any], eager: Callable[..., Any], *arguments: Any) -> None:
    assert_close(fast(*arguments), eager(*arguments))


# --- torch's modes and settings, changed between calls


@contextmanager
def setting(get: Callable[[], Any], put: Callable[[Any], None], value: Any) -> Iterator[None]:
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


def bfloat16_autocast() -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def deterministic() -> Any:
    return setting(
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True
    )


def float64_by_default() -> Any:
    return setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64)


def one_thread() -> Any:
    return setting(torch.get_num_threads, torch.set_num_threads, 1)


def low_precision() -> Any:
    return setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium")


@pytest.mark.parametrize(
    "around",
    [
        torch.no_grad,
        torch.inference_mode,
        bfloat16_autocast,
        deterministic,
        float64_by_default,
        one_thread,
        low_precision,
    ],
)
def test_a_mode_entered_and_left(around: Callable[[], Any]) -> None:
    eager = model()

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return eager(x), x + torch.full((8,), 2.5)  # of the default dtype

    fast = compiled(f)
    x = torch.randn(2, 8)
    for _ in range(2):
        check(fast, f, x)
        with around():
            check(fast, f, x)
            for got, expected in zip(fast(x), f(x), strict=True):
                assert got.requires_grad == expected.requires_grad
                assert got.is_inference() == expected.is_inference()
    torch_pjrt.reset_stats()
    check(fast, f, x)
    with around():
        check(fast, f, x)
    assert torch_pjrt.stats()["captures"] == torch_pjrt.stats()["compiles"] == 0


def test_autocast_within() -> None:
    eager = model()

    def f(x: torch.Tensor) -> torch.Tensor:
        with bfloat16_autocast():
            y = eager(x)
        return y + x[:, :4]

    x = torch.randn(2, 8)
    check(compiled(f), f, x)
    with torch.no_grad():
        check(compiled(f), f, x)


def test_grad_mode_within() -> None:
    w = torch.nn.Parameter(torch.randn(3))

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            y = x * w
        return y, x * w

    for got, expected in zip(compiled(f)(torch.ones(3)), f(torch.ones(3)), strict=True):
        assert_close(got, expected)
        assert got.requires_grad == expected.requires_grad


def test_requires_grad_under_each_mode() -> None:
    w = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    fast = compiled(lambda x: (x * w, x + 1))
    x = torch.ones(2)
    for _ in range(2):
        with torch.no_grad():
            assert [y.requires_grad for y in fast(x)] == [False, False]
        assert [y.requires_grad for y in fast(x)] == [True, False]
        with torch.inference_mode():
            assert all(y.is_inference() for y in fast(x.clone()))
            assert_close(fast(x)[0], torch.tensor([2.0, 3.0]))


def test_inference_tensors_outside_of_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.randn(3)
    fast = compiled(lambda x: x * 2)
    assert_close(fast(x), x * 2)
    assert not fast(x).is_inference()


# --- other ways to make the function


def test_an_exported_module() -> None:
    eager = model().eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(eager, (torch.randn(3, 8),), dynamic_shapes=({0: batch},))
    fast = compiled(exported.module())
    for size in (3, 5, 9):
        check(fast, eager, torch.randn(size, 8))


def test_graph_breaks() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
        y = x * 2
        torch._dynamo.graph_break()
        z = y + 1
        seen = [z.sum().item()]  # another break
        return z.relu() * seen[0], seen

    fast = compiled(f)
    for _ in range(3):
        check(fast, f, torch.randn(3))
    assert torch_pjrt.stats()["captures"] >= 3
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(f, fullgraph=True)(torch.randn(3))


def test_one_compiled_function_within_another() -> None:
    eager = model()
    inner = compiled(eager)
    outer = compiled(lambda x: inner(x) * 2)
    check(outer, lambda x: eager(x) * 2, torch.randn(2, 8))


@pytest.mark.parametrize("around", ["inductor", "aot_eager", "eager"])
def test_within_another_backend_s_function(around: str) -> None:
    """Dynamo inlines it: all is the outer backend's."""
    inner = compiled(torch.nn.ReLU())
    outer = torch.compile(lambda x: inner(x) * 2, backend=around)
    check(outer, lambda x: x.relu() * 2, torch.randn(5))


def test_functional_call() -> None:
    eager = model()
    own = dict(eager.named_parameters())
    fast = compiled(lambda p, x: torch.func.functional_call(eager, p, (x,)))
    x = torch.randn(2, 8)
    for scale in (2.0, 3.0):
        given = {name: p.detach() * scale for name, p in own.items()}
        assert_close(fast(given, x), torch.func.functional_call(eager, given, (x,)))
    assert dict(eager.named_parameters()) == own


def test_torch_func_within_and_around() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: (row * 2).sum())(x) + torch.func.grad(
            lambda y: (y * y).sum()
        )(x[:, 0])

    x = torch.randn(3, 4)
    check(compiled(f), f, x)
    square = compiled(lambda row: row * row)
    assert_close(torch.vmap(square)(x), x * x)


def test_a_bound_method() -> None:
    class Scale:
        def __init__(self) -> None:
            self.by = torch.randn(3)

        def apply(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    scale = Scale()
    fast = compiled(scale.apply)
    for _ in range(2):
        check(fast, scale.apply, torch.randn(3))
        scale.by = torch.randn(3)


def test_generators() -> None:
    def f(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for k in range(3):
            yield x * k

    x = torch.randn(3)
    assert_close(list(compiled(f)(x)), list(f(x)))
    check(compiled(lambda x: sum(f(x))), lambda x: sum(f(x)), x)


def test_hooks() -> None:
    eager = model()
    seen = []
    eager[1].register_forward_hook(lambda module, given, output: output + 1)
    eager[0].register_forward_pre_hook(lambda module, given: (given[0] * 2,))
    eager.register_forward_hook(lambda module, given, output: seen.append(output.shape))
    fast = compiled(eager)
    for _ in range(2):
        check(fast, eager, torch.randn(2, 8))
    assert len(seen) == 4


# --- copies of a compiled module


def by_deepcopy(module: torch.nn.Module) -> torch.nn.Module:
    return copy.deepcopy(module)


def by_save(module: torch.nn.Module) -> torch.nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def by_pickle(module: torch.nn.Module) -> torch.nn.Module:
    return pickle.loads(pickle.dumps(module))


@pytest.mark.parametrize("duplicate", [by_deepcopy, by_save, by_pickle])
@pytest.mark.parametrize("in_place", [False, True])
def test_copies_of_a_compiled_module(
    duplicate: Callable[[torch.nn.Module], torch.nn.Module], in_place: bool
) -> None:
    eager = model()
    fast = copy.deepcopy(eager)
    if in_place:
        fast.compile(backend="pjrt")
    else:
        fast = compiled(fast)
    x = torch.randn(2, 8)
    check(fast, eager, x)
    other = duplicate(fast)
    check(other, eager, x)
    with torch.no_grad():
        next(other.parameters()).zero_()
    check(fast, eager, x)
    assert not torch.equal(other(x), eager(x))


# --- the limit of recompiles


def test_past_the_recompile_limit_dynamo_says_so_and_runs_eager() -> None:
    fast = compiled(lambda x: x * 2, dynamic=False)
    limit = torch._dynamo.config.recompile_limit
    for size in range(2, 2 + limit):
        check(fast, lambda x: x * 2, torch.randn(size))
    assert torch_pjrt.stats()["recompile_limits"] == 0
    for size in range(100, 103):
        check(fast, lambda x: x * 2, torch.randn(size))
    counts = torch_pjrt.stats()
    assert counts["recompile_limits"] == 1
    assert counts["captures"] == counts["executions"] == limit
    torch_pjrt.reset_stats()
    assert torch_pjrt.stats()["recompile_limits"] == 0


def test_the_recompile_limit_is_an_error_where_one_graph_is_wanted() -> None:
    fast = compiled(lambda x: x * 2, dynamic=False, fullgraph=True)
    for size in range(2, 2 + torch._dynamo.config.recompile_limit):
        fast(torch.randn(size))
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        fast(torch.randn(100))
