"""Random categories and counts: multinomial, poisson, binomial."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

COUNT = 40_000
exactly = {"rtol": 0, "atol": 0}


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", fullgraph=True, **kwargs)


def seeded(function: Any, *args: Any, seed: int = 3) -> Any:
    torch.manual_seed(seed)
    return function(*args)


def check_frequencies(values: torch.Tensor, expected: torch.Tensor) -> None:
    """By chi-square: the values, counts from 0, against their probabilities."""
    seen = torch.bincount(values.reshape(-1).long(), minlength=len(expected)).double()
    assert len(seen) == len(expected), "a value that is too unlikely"
    wanted = expected.double() * values.numel()
    often = wanted >= 8
    assert abs(seen[~often].sum() - wanted[~often].sum()) < 10 + 5 * wanted[~often].sum().sqrt()
    freedom = max(int(often.sum()) - 1, 1)
    square = ((seen - wanted)[often] ** 2 / wanted[often]).sum()
    assert square < freedom + 6 * math.sqrt(2 * freedom) + 10


def poisson_probabilities(rate: float) -> torch.Tensor:
    k = torch.arange(int(rate + 12 * math.sqrt(rate) + 15), dtype=torch.float64)
    return torch.exp(k * math.log(rate) - rate - torch.lgamma(k + 1))


def binomial_probabilities(count: int, chance: float) -> torch.Tensor:
    k = torch.arange(count + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(k + 1) - torch.lgamma(count - k + 1)
    return torch.exp(ways + k * math.log(chance) + (count - k) * math.log1p(-chance))


def test_poisson_is_distributed_as_it_should() -> None:
    rates = torch.tensor([0.1, 3.0, 9.9, 10.0, 12.5, 40.0, 1000.0])
    fast = compiled(torch.poisson)
    values = seeded(fast, rates.expand(COUNT, -1))
    for rate, column in zip(rates.tolist(), values.unbind(1), strict=True):
        check_frequencies(column, poisson_probabilities(rate))


def test_binomial_is_distributed_as_it_should() -> None:
    pairs = [(1, 0.5), (5, 0.3), (40, 0.9), (100, 0.5), (1000, 0.02), (1000, 0.003), (70, 0.25)]
    counts, chances = torch.tensor(pairs).expand(COUNT, -1, 2).unbind(-1)
    values = seeded(compiled(torch.binomial), counts, chances)
    for (count, chance), column in zip(pairs, values.unbind(1), strict=True):
        check_frequencies(column, binomial_probabilities(count, chance))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_counts_at_the_edges(dtype: torch.dtype) -> None:
    rates = torch.tensor([0.0, 0.0, 2.0**60, math.inf], dtype=dtype)
    assert compiled(torch.poisson)(rates).tolist() == [0, 0, 2.0**60, math.inf]
    counts = torch.tensor([5, 5, 0, -1, 7, math.nan, 5], dtype=dtype)
    chances = torch.tensor([0, 1, 0.5, 0.5, 1.5, 0.5, math.nan], dtype=dtype)
    got = compiled(torch.binomial, dynamic=False)(counts, chances)
    assert got.dtype is dtype
    wanted = torch.tensor([0, 5, 0, 0, 7, math.nan, math.nan], dtype=dtype)
    assert_close(got, wanted, equal_nan=True, **exactly)


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (0, 2)])
def test_shapes_and_strides_of_counts(shape: tuple[int, ...]) -> None:
    x = torch.full(shape, 4.0).t() if len(shape) == 2 else torch.full(shape, 4.0)
    fast = compiled(lambda t: (torch.poisson(t), torch.binomial(t, t / 8)), dynamic=False)
    for got in fast(x):
        assert (got.shape, got.dtype) == (x.shape, x.dtype)
        assert got.is_contiguous()


def test_large_means() -> None:
    fast = compiled(lambda r, p: (torch.poisson(r), torch.binomial(r, p)))
    rate = torch.full((COUNT,), 1e9, dtype=torch.float64)
    counts, successes = seeded(fast, rate, torch.full((COUNT,), 0.25, dtype=torch.float64))
    for values, mean, variance in ((counts, 1e9, 1e9), (successes, 2.5e8, 1.875e8)):
        assert abs(values.mean() - mean) < 5 * math.sqrt(variance / COUNT)
        assert abs(values.var() / variance - 1) < 0.05
        assert_close(values, values.round(), **exactly)


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_multinomial_with_replacement(rows: int | None, dtype: torch.dtype) -> None:
    weights = torch.tensor([1.0, 0, 4, 3, 0], dtype=dtype)
    given = weights if rows is None else weights.expand(rows, -1).contiguous()
    values = seeded(compiled(lambda w: torch.multinomial(w, COUNT, True)), given)
    assert values.dtype is torch.int64
    assert values.shape == ((COUNT,) if rows is None else (rows, COUNT))
    for row in values.view(-1, COUNT):
        check_frequencies(row, weights / 8)


def test_multinomial_of_one() -> None:
    weights = torch.tensor([1.0, 0, 4, 3, 0])
    fast = compiled(lambda w: (torch.multinomial(w, 1), torch.multinomial(w, 1, True)))
    for values in seeded(fast, weights.expand(COUNT, -1)):
        assert values.shape == (COUNT, 1)
        check_frequencies(torch.cat([values.view(-1), torch.tensor([4])]), weights / 8)


def test_multinomial_without_replacement() -> None:
    weights = torch.tensor([1.0, 0, 4, 3])
    values = seeded(compiled(lambda w: torch.multinomial(w, 3)), weights.expand(COUNT, -1))
    assert_close(values.sort(1)[0], torch.tensor([0, 2, 3]).expand(COUNT, -1))
    first, second = values[:, 0], values[:, 1]
    check_frequencies(first, weights / 8)
    check_frequencies(second[first == 2], torch.tensor([1 / 4, 0, 0, 3 / 4]))
    # Categories of weight 0 come last.
    assert compiled(lambda w: torch.multinomial(w, 4))(weights)[3] == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.poisson(x * 9),
        lambda x: torch.binomial((x * 30).round(), x / 2),
        lambda x: torch.multinomial(x, 5, True),
        lambda x: torch.multinomial(x, 5),
    ],
)
def test_a_seed_repeats_them_and_another_compiles_nothing(function: Any) -> None:
    fast, x = compiled(function), torch.rand(3, 50) + 0.1
    first = seeded(fast, x)
    torch_pjrt.reset_stats()
    assert_close(seeded(fast, x), first, **exactly)
    assert not torch.equal(fast(x), first)
    assert not torch.equal(seeded(fast, x, seed=4), first)
    assert torch_pjrt.stats()["compiles"] == torch_pjrt.stats()["captures"] == 0


def test_sampling_of_tokens_with_dynamic_sizes() -> None:
    def sample(logits: torch.Tensor, temperature: float) -> torch.Tensor:
        top = logits.topk(4, -1)
        chosen = torch.multinomial((top[0] / temperature).softmax(-1), 1)
        return top[1].gather(-1, chosen)

    fast = compiled(sample, dynamic=True)
    for batch, tokens in ((2, 30), (5, 30), (3, 41)):
        logits = torch.randn(batch, tokens)
        token = fast(logits, 0.7)
        assert token.shape == (batch, 1)
        assert (logits.topk(4, -1)[1] == token).any(1).all()
    assert torch_pjrt.stats()["captures"] == 1


def test_distributions_of_torch() -> None:
    def samples(p: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.distributions.Categorical(p, validate_args=False).sample((7,)),
            torch.distributions.Poisson(p * 5, validate_args=False).sample((7,)),
            torch.distributions.Binomial(9, p, validate_args=False).sample((7,)),
        )

    fast = compiled(samples)
    p = torch.rand(4, 6) + 0.01
    p = p / p.sum(-1, keepdim=True)
    for got, wanted in zip(fast(p), samples(p), strict=True):
        assert (got.shape, got.dtype, got.stride()) == (wanted.shape, wanted.dtype, wanted.stride())


def test_binomial_of_symbolic_sizes_runs_in_eager() -> None:
    """torch can't trace it, for any backend."""
    fast = torch.compile(lambda x: torch.binomial(x, x / 8) * 2, backend="pjrt", dynamic=True)
    for n in (3, 5):
        got = fast(torch.full((n,), 6.0))
        assert got.shape == (n,)
        assert ((got >= 0) & (got <= 12)).all()
