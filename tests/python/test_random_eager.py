"""options={"random": "eager"}: random ops give eager's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def compiled(function: Any, *, fallback: str = "partition", **kwargs: Any) -> Any:
    options = {"random": "eager", "fallback": fallback}
    return torch.compile(function, backend="pjrt", fullgraph=True, options=options, **kwargs)


def same(function: Callable[..., Any], *args: Any, fast: Any = None) -> None:
    """Two calls give what two calls in eager give, and leave the generator as these do."""
    fast = fast or compiled(function)
    torch.manual_seed(11)
    got = [fast(*args), fast(*args), torch.rand(2)]
    torch.manual_seed(11)
    wanted = [function(*args), function(*args), torch.rand(2)]
    assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


def factories() -> tuple[torch.Tensor, ...]:
    return (
        torch.rand(3, 4),
        torch.randn(20, dtype=torch.float64),
        torch.randint(-3, 9, (5,)),
        torch.randperm(6),
        torch.normal(1.0, 2.0, (4,)),
        torch.rand(2, dtype=torch.bfloat16),
    )


def like(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.rand_like(x),
        torch.randn_like(x + 1),
        torch.randint_like(x, 2, 5),
        torch.bernoulli(x * 2, 0.3),
        (x + 1).clone().normal_(2, 3),
        torch.empty_like(x).uniform_(-1, 1),
        torch.empty_like(x).exponential_(),
    )


def dropouts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        F.dropout(x, 0.1),
        F.dropout(x * 2, 0.25),
        F.dropout(x, 0.0),
        F.dropout(x, 1.0),
        F.dropout2d(x, 0.5),
    )


def test_factories() -> None:
    same(factories)


@pytest.mark.parametrize("function", [like, dropouts])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "permuted", "empty"])
def test_results_of_an_inputs_shape(function: Callable[..., Any], layout: str) -> None:
    x = torch.ones(2, 3, 4, 5)
    if layout == "channels_last":
        x = x.to(memory_format=torch.channels_last)
    if layout == "permuted":
        x = x.permute(3, 1, 0, 2)
    if layout == "empty":
        x = x[:0]
    same(function, x)


def test_in_place_on_contiguous_tensors() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.alpha_dropout(x, 0.3, training=True), (x + 1).bernoulli_(0.3)

    same(f, torch.ones(5, 7))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_dropout_of_other_dtypes(dtype: torch.dtype) -> None:
    same(lambda x: F.dropout(x, 0.1), torch.rand(100).to(dtype))


def test_arguments_that_are_inputs() -> None:
    p = torch.tensor([0.1, 0.9, 0.5])
    same(lambda p: (torch.bernoulli(p), torch.normal(p, p), torch.multinomial(p, 2)), p)
    same(lambda p: torch.poisson(p), p * 9)


def test_an_unused_result_is_drawn_too() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        F.dropout(x)
        torch.randn(7)
        return x + torch.rand(4)

    same(f, torch.ones(4))


def test_dynamic_shapes() -> None:
    def f(x: torch.Tensor, n: int) -> tuple[torch.Tensor, ...]:
        both = torch.cat([x, x])
        return F.dropout(both, 0.5), torch.rand_like(both.t()), torch.randint(n, (n + x.shape[0],))

    fast = compiled(f, dynamic=True)
    for rows in (4, 7, 5):
        same(f, torch.ones(rows, 3), 2 * rows + 1, fast=fast)
    assert torch_pjrt.stats()["captures"] == 1


def test_a_model_in_training_mode() -> None:
    model = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.3, batch_first=True)
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        torch.manual_seed(1)
        got = compiled(model)(x)
        torch.manual_seed(1)
        assert_close(got, model(x))


def test_the_two_modes_are_told_apart() -> None:
    x = torch.ones(50)
    ours = torch.compile(F.dropout, backend="pjrt")
    torch.manual_seed(2)
    default = ours(x)
    torch.manual_seed(2)
    eager = compiled(F.dropout)(x)
    assert not torch.equal(default, eager)
    torch.manual_seed(2)
    assert torch.equal(F.dropout(x), eager)
    torch.manual_seed(2)
    assert torch.equal(ours(x), default)


def test_new_seeds_compile_nothing() -> None:
    fast, x = compiled(dropouts), torch.ones(1, 2, 3, 4)
    fast(x)
    torch_pjrt.reset_stats()
    for seed in range(5):
        torch.manual_seed(seed)
        fast(x)
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"], counts["executions"]) == (0, 0, 5)


def test_what_depends_on_computed_tensors_is_refused() -> None:
    with pytest.raises(torch_pjrt.Error, match="computed by the program") as caught:
        compiled(lambda x: torch.bernoulli(x * 0.5), fallback="error")(torch.ones(3))
    assert caught.value.code == "unsupported"
    assert "aten::bernoulli" in str(caught.value)
    assert __file__ in str(caught.value)


def test_torchs_configuration_is_left_as_it_was() -> None:
    import torch._inductor.config

    before = torch._inductor.config.fallback_random
    compiled(F.dropout)(torch.ones(3))
    assert torch._inductor.config.fallback_random == before
