"""torch.compile(..., backend="pjrt") gives what eager gives."""

from __future__ import annotations

import copy
import threading
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


def small_model(width: int) -> torch.nn.Module:
    """Programs are shared by all that is equal: a test that counts them has a width of its own."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 4)
    )


@pytest.mark.parametrize("backend", ["pjrt", "torchxla_trace_once", "aot_torchxla_trace_once"])
@pytest.mark.parametrize("mode", MODES)
def test_readme_example(mode: Mode, backend: str) -> None:
    model = small_model(16)
    fast = torch.compile(model, backend=backend)
    x, other = torch.randn(3, 8), torch.randn(3, 8)
    with mode():
        assert_close(fast(x), model(x))
        assert_close(fast(other), model(other))
        assert fast(x).requires_grad == model(x).requires_grad
    assert torch_pjrt.stats()["captures"] == 1
    assert torch_pjrt.stats()["executions"] == 3


@pytest.mark.parametrize("mode", MODES)
def test_a_warm_model_compiles_and_copies_nothing(mode: Mode) -> None:
    fast = compiled(small_model(17))
    x = torch.randn(3, 8)
    with mode():
        fast(x)
        torch_pjrt.reset_stats()
        for _ in range(100):
            fast(x)
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"], counts["copied_inputs"]) == (0, 0, 0)
    assert counts["executions"] == 100


def test_batch_sizes_become_dynamic() -> None:
    model = small_model(18)
    fast = compiled(model)
    with torch.no_grad():
        for batch in (3, 5, 7, 2, 1, 5):
            x = torch.randn(batch, 8)
            assert_close(fast(x), model(x))
    counts = torch_pjrt.stats()
    assert counts["captures"] == 3  # static, dynamic, and the batch of 1, which Dynamo specialises
    assert counts["compiles"] == 5


def test_sizes_in_arithmetic_and_outputs() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        n = x.shape[0]
        return x / n**0.5, x.reshape(n * 2, -1)[n // 2 :], n // 2 + n % 3

    fast = compiled(f, dynamic=True)
    for n in (4, 6, 9):
        x = torch.randn(n, 10)  # 10 is no n, or Dynamo would take them for one size
        got, expected = fast(x), f(x)
        assert_close(got[0], expected[0])
        assert_close(got[1], expected[1])
        assert got[2] == expected[2]
    assert torch_pjrt.stats()["captures"] == 1


def test_int_and_float_arguments() -> None:
    def f(x: torch.Tensor, i: int, s: float, b: bool) -> tuple[torch.Tensor, int]:
        return (x * s + i if b else x - i), x.shape[0] * i

    fast = compiled(f)
    x = torch.randn(3)
    for i in range(2, 6):
        for s in (0.5, 1.5, -2.25):
            for b in (True, False):
                y, n = fast(x, i, s, b)
                assert_close(y, f(x, i, s, b)[0])
                assert n == 3 * i


def test_a_changing_float_compiles_once_more_and_then_never() -> None:
    fast = compiled(lambda x, rate: x - x * rate)
    x = torch.randn(5)
    fast(x, 0.1)
    fast(x, 0.2)
    torch_pjrt.reset_stats()
    for k in range(20):
        assert_close(fast(x, 0.3 + k), x - x * (0.3 + k))
    assert torch_pjrt.stats()["captures"] == 0
    assert torch_pjrt.stats()["compiles"] == 0


DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_outputs_have_eagers_dtype_shape_and_strides(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + x, (x + 1).transpose(1, 2), (x * x)[:, 0], (x + x).expand(4, 2, 3, 5)

    x = torch.ones(2, 3, 5).to(dtype)
    for got, expected in zip(compiled(f)(x), f(x), strict=True):
        assert_close(got, expected)
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        assert got.stride() == expected.stride()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        lambda: torch.randn(4, 4, 3, 2).permute(3, 2, 0, 1),
        lambda: torch.randn(2, 3, 4, 8)[..., ::2],
        lambda: torch.randn(3, 3, 4, 4)[1:],
        lambda: torch.randn(1, 3, 1, 4).expand(2, 3, 4, 4),
    ],
    ids=["channels_last", "permuted", "strided", "offset", "expanded"],
)
def test_inputs_of_any_layout(make: Callable[[], torch.Tensor]) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2 + 1, x.sum(1)

    fast = compiled(f)
    for _ in range(3):
        x = make()
        assert_close(fast(x), f(x), check_stride=True)


def test_zero_sized_and_zero_dimensional() -> None:
    fast = compiled(lambda x: (x * 2, x.sum()))
    for x in (torch.randn(0, 3), torch.tensor(3.0)):
        assert_close(fast(x), (x * 2, x.sum()))


def test_outputs_outlive_the_model_and_are_ordinary_tensors() -> None:
    fast = compiled(lambda x: x + 1)
    x = torch.zeros(1000)
    kept = [fast(x + k) for k in range(5)]
    torch._dynamo.reset()
    del fast
    for k, y in enumerate(kept):
        assert_close(y, torch.full((1000,), k + 1.0))
    assert kept[0].resize_(2000).shape == (2000,)
    assert kept[1].add_(1)[0] == 3


def test_mutated_inputs() -> None:
    @compiled
    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    x = torch.zeros(3)
    for k in range(1, 4):
        assert_close(f(x), torch.full((3,), 2.0 * k))
        assert_close(x, torch.full((3,), 1.0 * k))

    @compiled
    def g(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x

    assert g(x) is x
    assert_close(x, torch.full((3,), 6.0))


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_mutated_buffers(mode: Mode) -> None:
    class Count(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.register_buffer("total", torch.zeros(3))
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            self.total += x
            return self.total * self.weight

    expected = Count()
    fast = compiled(copy.deepcopy(expected))
    with mode():
        for _ in range(3):
            x = torch.randn(3)
            assert_close(fast(x), expected(x))
    assert_close(
        dict(fast.named_buffers()), {f"_orig_mod.{k}": v for k, v in expected.named_buffers()}
    )


def test_outputs_that_are_or_view_an_input() -> None:
    fast = compiled(lambda x: (x, x.view(-1), x[1:], x * 1))
    storage = torch.randn(9, 4)
    for start in (0, 3, 6):
        x = storage[start : start + 3]
        same, flat, tail, product = fast(x)
        assert same is x
        assert flat.data_ptr() == x.data_ptr()
        assert tail.data_ptr() == x[1:].data_ptr()
        assert product.data_ptr() != x.data_ptr()
        assert_close([flat, tail, product], [x.view(-1), x[1:], x])


def test_constants_in_the_graph() -> None:
    fast = compiled(lambda x: x + torch.tensor([1.0, 2.0, 3.0]))
    for k in range(3):
        assert_close(fast(torch.full((3,), 1.0 * k)), torch.tensor([1.0, 2.0, 3.0]) + k)
    outside = torch.randn(3)
    closure = compiled(lambda x: x * outside)
    assert_close(closure(torch.ones(3)), outside)


def test_containers_and_none() -> None:
    def f(d: dict[str, torch.Tensor], n: None) -> dict[str, Any]:
        return {"sum": d["a"] + d["b"], "none": n, "list": [d["a"] * 2]}

    d = {"a": torch.randn(3), "b": torch.randn(3)}
    assert_close(compiled(f)(d, None)["sum"], d["a"] + d["b"])
    assert_close(compiled(f)(d, None)["list"], [d["a"] * 2])
    assert compiled(f)(d, None)["none"] is None


def test_a_duplicate_output() -> None:
    a, b = compiled(lambda x: [y := x + 1, y])(torch.zeros(3))
    assert a is b


def test_two_threads() -> None:
    model = small_model(19)
    fast = compiled(model)
    with torch.no_grad():
        fast(torch.randn(3, 8))
    wrong: list[str] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        try:
            with torch.no_grad():
                for _ in range(50):
                    x = torch.randn(3, 8, generator=generator)
                    assert_close(fast(x), model(x))
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert torch_pjrt.stats()["compiles"] == 1
    assert torch_pjrt.stats()["executions"] == 101


def test_torchs_configuration_is_left_as_it_was() -> None:
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    modules = (torch._dynamo.config, torch._functorch.config, torch._inductor.config)

    def everything() -> list[Any]:
        return [
            *(copy.deepcopy(module.get_config_copy()) for module in modules),
            torch.get_float32_matmul_precision(),
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
        ]

    before = everything()
    fast = compiled(small_model(20))
    fast(torch.randn(3, 8))
    fast(torch.randn(4, 8))
    x = torch.randn(3, 3)
    with pytest.raises(torch_pjrt.Error):
        torch.compile(torch.linalg.qr, backend="pjrt", options={"fallback": "error"})(x)
    assert everything() == before
