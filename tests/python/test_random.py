"""Random ops in compiled functions: where their numbers come from, and how they are distributed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import torch_pjrt
from torch_pjrt import random_ops

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

aten = torch.ops.aten
COUNT = 40_000


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", fullgraph=True, **kwargs)


def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return F.dropout(x, 0.25), F.dropout(x, 0.25), torch.rand_like(x), torch.randn(x.shape)


def seeded(function: Callable[..., Any], *args: Any, seed: int = 3) -> Any:
    torch.manual_seed(seed)
    return function(*args)


# --- where the numbers come from


def test_each_call_and_each_op_has_fresh_numbers() -> None:
    fast, x = compiled(several), torch.ones(100)
    first, second = fast(x), fast(x)
    for a, b in zip(first, second, strict=True):
        assert not torch.equal(a, b)
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_seed_repeats_the_numbers_from_the_compiling_call_on(mode: Any) -> None:
    fast, x = compiled(several), torch.ones(100)
    with mode():
        compiling = seeded(fast, x)
        assert torch_pjrt.stats()["captures"] == 1
        assert_close(seeded(fast, x), compiling, rtol=0, atol=0)
        assert not torch.equal(seeded(fast, x, seed=4)[0], compiling[0])
    torch._dynamo.reset()
    assert_close(seeded(compiled(several), x), compiling, rtol=0, atol=0)


def test_new_seeds_compile_nothing() -> None:
    fast, x = compiled(several), torch.ones(101)
    fast(x)
    torch_pjrt.reset_stats()
    for seed in range(20):
        seeded(fast, x, seed=seed)
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"], counts["executions"]) == (0, 0, 20)


def test_equal_graphs_share_their_program() -> None:
    x = torch.ones(102)
    seeded(compiled(lambda t: F.dropout(t, 0.25)), x)
    torch._dynamo.reset()
    torch_pjrt.reset_stats()
    fast = compiled(lambda t: F.dropout(t, 0.35))
    y = seeded(fast, x)
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"]) == (1, 0)
    assert set(y.tolist()) == {0.0, (torch.ones(()) / 0.65).item()}


def test_a_call_advances_the_generator_alike_whether_it_compiles_or_not() -> None:
    fast = compiled(several)
    states = []
    for _ in range(2):
        for size in (5, 6):
            seeded(fast, torch.ones(size))
            states.append(torch.get_rng_state())
    for state in states[1:]:
        assert torch.equal(state, states[0])
    torch.manual_seed(3)
    assert not torch.equal(torch.get_rng_state(), states[0])


def test_the_state_is_saved_and_restored() -> None:
    fast, x = compiled(several), torch.ones(100)
    fast(x)
    state = torch.get_rng_state()
    wanted = [fast(x), torch.rand(3), fast(x)]
    torch.set_rng_state(state)
    assert_close([fast(x), torch.rand(3), fast(x)], wanted, rtol=0, atol=0)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        fast(x)
    after_fork = torch.rand(3)
    torch.set_rng_state(state)
    fast(x), torch.rand(3), fast(x)
    assert torch.equal(torch.rand(3), after_fork)


def test_an_explicit_generator_is_used() -> None:
    def f(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
        return x * 2 + torch.rand(5, generator=g)

    x = torch.ones(5)
    fast = torch.compile(f, backend="pjrt")  # Dynamo breaks the graph at the op
    for seed in range(3):
        wanted = f(x, torch.Generator().manual_seed(seed))
        assert_close(fast(x, torch.Generator().manual_seed(seed)), wanted)


def test_a_seed_set_inside_of_the_function() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(7)
        return F.dropout(x)

    fast = torch.compile(f, backend="pjrt")
    assert torch.equal(fast(torch.ones(50)), fast(torch.ones(50)))


def test_an_unused_random_result_takes_nothing() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.rand(1000)
        return torch.rand_like(x)

    x = torch.ones(20)
    assert torch.equal(seeded(compiled(f), x), seeded(compiled(torch.rand_like), x))


def test_threads_take_numbers_of_their_own() -> None:
    fast, x = compiled(lambda t: torch.rand_like(t)), torch.ones(64)
    fast(x)
    torch_pjrt.reset_stats()
    results: list[torch.Tensor] = []

    def work() -> None:
        results.extend(fast(x) for _ in range(30))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.stack(results).unique(dim=0).shape[0] == len(results) == 120
    assert torch_pjrt.stats()["compiles"] == 0


def test_dynamic_shapes() -> None:
    fast = compiled(several, dynamic=True)
    for size in (4, 9, 7):
        for got in seeded(fast, torch.ones(size, 3)):
            assert got.shape == (size, 3)
    assert torch_pjrt.stats()["captures"] == 1


def test_elements_don_t_depend_on_the_size() -> None:
    long = seeded(compiled(lambda: torch.rand(50)))
    torch._dynamo.reset()
    assert torch.equal(seeded(compiled(lambda: torch.rand(20))), long[:20])


# --- distributions: bounds are seven standard errors wide, or more


def check_moments(values: torch.Tensor, mean: float, std: float) -> None:
    x = values.double().flatten()
    assert abs(x.mean() - mean) < 7 * std / x.numel() ** 0.5 + 1e-9
    assert abs(x.std() - std) < 0.05 * std + 1e-9
    # Neighbours are uncorrelated.
    centred = x - x.mean()
    assert abs((centred[1:] * centred[:-1]).mean()) < 7 * std**2 / x.numel() ** 0.5 + 1e-9


RESOLUTION = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


@pytest.mark.parametrize("dtype", RESOLUTION, ids=str)
def test_uniform_and_normal(dtype: torch.dtype) -> None:
    def f() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(COUNT, dtype=dtype), torch.randn(COUNT, dtype=dtype)

    u, z = seeded(compiled(f))
    assert (u.dtype, z.dtype) == (dtype, dtype)
    assert u.min() >= 0
    assert u.max() < 1
    steps = u.double() * 2 ** RESOLUTION[dtype]
    assert torch.equal(steps, steps.round())
    if dtype.itemsize == 2:
        assert u.unique().numel() == 2 ** RESOLUTION[dtype]
    half_step = 2.0 ** -(RESOLUTION[dtype] + 1)
    check_moments(u.double() + half_step, 0.5, 1 / 12**0.5)
    check_moments(z, 0, 1)
    within = [(z.abs() < k).double().mean().item() for k in (1, 2, 3)]
    assert_close(within, [math.erf(k / 2**0.5) for k in (1, 2, 3)], rtol=0, atol=0.015)
    assert z.abs().max() < 10


IN_PLACE = [
    ("uniform_", (-2.0, 5.0), 1.5, 7 / 12**0.5),
    ("normal_", (3.0, 2.0), 3.0, 2.0),
    ("exponential_", (4.0,), 0.25, 0.25),
    ("log_normal_", (0.5, 0.25), math.exp(0.53125), math.exp(0.53125) * 0.25396),
    ("geometric_", (0.25,), 4.0, 12**0.5),
    ("bernoulli_", (0.3,), 0.3, 0.21**0.5),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("op", "args", "mean", "std"), IN_PLACE, ids=[row[0] for row in IN_PLACE])
def test_in_place_ops(
    op: str, args: tuple[float, ...], mean: float, std: float, dtype: torch.dtype
) -> None:
    x = torch.zeros(COUNT, dtype=dtype)
    out = seeded(compiled(lambda t: getattr(t, op)(*args)), x)
    assert out.dtype == dtype
    assert torch.equal(out, x)
    if dtype is torch.bfloat16:
        assert abs(out.double().mean() - mean) < 0.02 * std + 0.01 * abs(mean)
    else:
        check_moments(out, mean, std)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_exponential_is_never_zero(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        random_ops, "uniform", lambda size, dtype, device=None: torch.zeros(size, dtype=dtype)
    )
    assert compiled(lambda t: t.exponential_())(torch.zeros(3, dtype=dtype)).min() > 0


def test_cauchy() -> None:
    x = seeded(compiled(lambda: torch.empty(COUNT).cauchy_(1.0, 0.5)))
    assert_close(
        x.quantile(torch.tensor([0.25, 0.5, 0.75])), torch.tensor([0.5, 1, 1.5]), rtol=0, atol=0.05
    )


def test_normal_of_tensors() -> None:
    mean, std = torch.full((COUNT,), 2.0), torch.full((1,), 3.0)

    def f(m: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.normal(m, s),
            torch.normal(m, 3.0),
            torch.normal(2.0, s.expand(COUNT)),
            torch.normal(2.0, 3.0, (COUNT,)),
        )

    for values in seeded(compiled(f), mean, std):
        assert values.shape == (COUNT,)
        check_moments(values, 2, 3)


RANGES = [(0, 2), (-5, 7), (3, 4), (-(2**62), 2**62 + 5), (-(2**63), 2**63 - 1), (0, 2**32 + 1)]


@pytest.mark.parametrize(("low", "high"), RANGES, ids=str)
def test_randint(low: int, high: int) -> None:
    x = seeded(compiled(lambda: torch.randint(low, high, (COUNT,))))
    assert low <= x.min()
    assert x.max() < high
    width = high - low
    check_moments(x, low + (width - 1) / 2, ((width**2 - 1) / 12) ** 0.5)
    if width < 100:
        counts = torch.bincount(x - low, minlength=width)
        assert (counts - COUNT / width).abs().max() < 7 * (COUNT / width) ** 0.5


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.bool, torch.float16], ids=str
)
def test_integers_of_a_dtype(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.randint(0, 2, (9,), dtype=dtype),
            torch.randint_like(x, 1, 2),
            aten.random.default(x),
        )

    small, ones, every = compiled(f)(torch.zeros(COUNT, dtype=dtype))
    assert small.dtype == ones.dtype == every.dtype == dtype
    assert ones.double().eq(1).all()
    last = 2**11 if dtype.is_floating_point else 1
    if not dtype.is_floating_point and dtype != torch.bool:
        last = torch.iinfo(dtype).max
    assert every.min() == 0 or last > COUNT
    assert 0.99 * last <= every.double().max() <= last


def test_integers_over_all_of_int64() -> None:
    least, last = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        draw = torch.ops.torch_pjrt.draw(0)
        return (
            torch.ops.torch_pjrt.random_integers(draw, [COUNT], least, last),
            aten.random.to(x, 3),
        )

    every, three = seeded(compiled(f), torch.zeros(COUNT, dtype=torch.int64))
    check_moments(every, -0.5, 2**64 / 12**0.5)
    assert three.unique().tolist() == [0, 1, 2]


def test_changing_bounds_compile_nothing_new() -> None:
    fast = compiled(lambda x, high: x + torch.randint(high, x.shape), dynamic=True)
    x = torch.zeros(50, dtype=torch.int64)
    fast(x, 10), fast(x, 20)
    torch_pjrt.reset_stats()
    for high in (30, 5, 1000):
        assert 0.7 * high <= fast(x, high).max() < high
    assert torch_pjrt.stats()["compiles"] == 0


@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_randperm(n: int) -> None:
    fast = compiled(lambda: torch.randperm(n))
    x = fast()
    assert torch.equal(x.sort().values, torch.arange(n))
    assert n < 1000 or not torch.equal(x, fast())


def test_every_permutation_is_as_likely() -> None:
    fast = compiled(lambda: torch.stack([torch.randperm(3) for _ in range(20)]))
    torch.manual_seed(5)
    rows = torch.cat([fast() for _ in range(60)])
    _, counts = rows.unique(dim=0, return_counts=True)
    assert counts.shape == (6,)
    assert (counts - 200).abs().max() < 100


def test_bernoulli_of_tensors() -> None:
    p = torch.tensor([0.0, 0.2, 1.0, 0.7])

    def f(p: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.bernoulli(p.expand(COUNT, 4)), x.bernoulli_(p.double())

    for values in seeded(compiled(f), p, torch.zeros(COUNT, 4, dtype=torch.float16)):
        rates = values.double().mean(0)
        assert (rates[0], rates[2]) == (0, 1)
        assert_close(rates, p.double(), rtol=0, atol=0.02)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)], ids=str)
def test_scalar_and_empty_shapes(shape: tuple[int, ...]) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (*several(x), torch.randint(3, x.shape), torch.bernoulli(x, 0.5))

    for got in compiled(f)(torch.ones(shape)):
        assert got.shape == shape


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(4, 3).t(),
        torch.ones(3, 1).expand(3, 4),
        torch.ones(4, 6)[:, ::2],
    ],
    ids=["channels_last", "transposed", "expanded", "strided"],
)
def test_strides_are_eagers(x: torch.Tensor) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.rand_like(x),
            torch.randn_like(x, memory_format=torch.contiguous_format),
            torch.randint_like(x, 5),
            torch.bernoulli(x, 0.5),
            torch.bernoulli(x),
            F.dropout(x),
        )

    for got, wanted in zip(compiled(f)(x), f(x), strict=True):
        assert got.shape == wanted.shape
        assert got.stride() == wanted.stride()


# --- dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [0.1, 0.42, 0.87])
def test_dropout_scales_as_eager(p: float, dtype: torch.dtype) -> None:
    x = torch.rand(COUNT, dtype=dtype) + 1
    y = seeded(compiled(lambda t: F.dropout(t, p)), x)
    kept = y != 0
    assert abs(kept.double().mean() - (1 - p)) < 7 * (p * (1 - p) / COUNT) ** 0.5
    assert torch.equal(y[kept], (x * torch.ones((), dtype=dtype).div(1 - p))[kept])


def test_dropout_at_its_ends() -> None:
    x = torch.tensor([1.0, -2.0, float("nan"), float("inf")])
    for p in (0.0, 1.0):
        fast = compiled(lambda t, p=p: F.dropout(t, p))
        assert_close(fast(x), F.dropout(x, p), equal_nan=True, rtol=0, atol=0)
    assert_close(compiled(torch.nn.Dropout(0.5).eval())(x), x, equal_nan=True)


@pytest.mark.parametrize(
    "module",
    [
        torch.nn.Dropout2d(0.4),
        torch.nn.Dropout3d(0.4),
        torch.nn.AlphaDropout(0.4),
        torch.nn.FeatureAlphaDropout(0.4),
        torch.nn.RReLU(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_other_modules(module: torch.nn.Module) -> None:
    x = -torch.ones(16, 64, *[3] * (2 if isinstance(module, torch.nn.Dropout2d) else 3))
    got, wanted = compiled(module)(x), module(x)
    assert abs(got.mean() - wanted.mean()) < 0.2
    assert abs(got.std() - wanted.std()) < 0.2
    whole = got.flatten(2)
    if isinstance(module, torch.nn.Dropout2d | torch.nn.Dropout3d):
        assert torch.equal(whole, whole[..., :1].expand_as(whole))
        assert set(got.unique().tolist()) == set(wanted.unique().tolist())


def test_attention_with_dropout() -> None:
    q = torch.randn(2, 2, 16, 8)
    fast = compiled(lambda t: F.scaled_dot_product_attention(t, t, t, dropout_p=0.5))
    assert torch.equal(seeded(fast, q), seeded(fast, q))
    mean = torch.stack([fast(q) for _ in range(300)]).mean(0)
    assert_close(mean, F.scaled_dot_product_attention(q, q, q), rtol=0, atol=0.7)


# --- errors


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: torch.randint(0, 300, (2,), dtype=torch.uint8), "out of bounds for unsigned char"),
        (lambda: torch.empty(3).uniform_(2, 1), r"expects to return a \[from, to\) range"),
        (lambda: torch.empty(3).bernoulli_(1.5), r"expects p to be in \[0, 1\]"),
        (lambda: torch.randperm(300, dtype=torch.uint8), "doesn't fit"),
        (lambda: torch.rand(3, dtype=torch.int64), "no lowering for aten::rand"),
        (lambda: torch.rand(3, device="meta"), "no lowering for aten::rand"),
        (lambda: torch.randn(3, dtype=torch.complex64), "no lowering for aten::randn"),
        (lambda: torch._standard_gamma(torch.ones(3)), "no lowering for aten::_standard_gamma"),
    ],
)
def test_wrong_arguments(function: Callable[[], torch.Tensor], message: str) -> None:
    with pytest.raises(torch_pjrt.Error, match=message):
        torch.compile(function, backend="pjrt", options={"fallback": "error"})()
