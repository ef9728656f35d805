"""Compiled functions within a program: modes of autograd, threads, weights that change."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from .conftest import Compare

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def test_modes_decide_what_requires_a_gradient() -> None:
    weight = nn.Parameter(torch.tensor([2.0, 3.0]))
    fast = torch.compile(lambda x: (x * weight, x + 1), backend="pjrt")
    x = torch.ones(2)
    for _ in range(2):
        with torch.no_grad():
            assert [y.requires_grad for y in fast(x)] == [False, False]
            with torch.enable_grad():
                assert [y.requires_grad for y in fast(x)] == [True, False]
        product, other = fast(x)
        assert (product.requires_grad, other.requires_grad) == (True, False)
        weight.grad = None
        product.sum().backward()
        assert_close(weight.grad, x)
        with torch.inference_mode():
            outputs = fast(x.clone())
            assert all(y.is_inference() for y in outputs)
            assert_close(outputs[0], weight.detach())
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(fast(x)[0].sum(), x)
    assert_close(gradient, weight.detach())


def test_threads_with_and_without_gradients() -> None:
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x.sin() @ y.cos()).relu_(), x.sum()

    fast = torch.compile(f, backend="pjrt")
    fast(torch.ones(16, 16), torch.ones(16, 16))
    wrong: list[str] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for k in range(20):
            x, y = (torch.randn(16, 16, generator=generator) for _ in range(2))
            x.requires_grad_(seed % 2 == 1)
            got, want = fast(x, y), f(x, y)
            if not all(torch.allclose(a, b, atol=1e-4) for a, b in zip(got, want, strict=True)):
                wrong.append(f"thread {seed}, call {k}")
            if x.requires_grad:
                (a,) = torch.autograd.grad(got[0].sum(), x)
                (b,) = torch.autograd.grad(want[0].sum(), x)
                if not torch.allclose(a, b, atol=1e-4):
                    wrong.append(f"gradient of thread {seed}, call {k}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_weights_are_read_anew_after_steps_and_replacements() -> None:
    torch.manual_seed(0)
    eager = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    model = copy.deepcopy(eager)
    fast = torch.compile(model, backend="pjrt")
    both: Any = ((eager, eager), (model, fast))
    optimizers = [torch.optim.Adam(m.parameters(), 0.05) for m, _ in both]
    for _ in range(4):
        x = torch.randn(5, 4)
        for (_, run), optimizer in zip(both, optimizers, strict=True):
            optimizer.zero_grad()
            run(x).square().mean().backward()
            optimizer.step()
        assert_close(list(model.parameters()), list(eager.parameters()), rtol=1e-4, atol=1e-5)
    state = {name: torch.randn_like(t) for name, t in eager.state_dict().items()}
    for m, _ in both:
        m.load_state_dict(state)
    assert_close(fast(x), eager(x))
    for m, _ in both:
        m[0].weight.data = torch.ones(8, 4)
        with torch.no_grad():
            m[2].weight[0, 0] = 3
            m[2].bias.copy_(torch.tensor([5.0, 6.0]))
    assert_close(fast(x), eager(x))
    for m, _ in both:
        m[0].weight = nn.Parameter(torch.full((8, 4), 0.1))
    assert_close(fast(x), eager(x))
    for m, run in both:
        m.zero_grad()
        run(x).sum().backward()
    assert_close([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()])


@pytest.mark.parametrize("sides", [(1, 2, 2, 0), (-1, 3, 1, 1), (0, 0, 0, 0)], ids=str)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_padding(same_gradients: Compare, mode: str, sides: tuple[int, ...]) -> None:
    x = torch.arange(48.0).reshape(1, 2, 4, 6).requires_grad_()
    same_gradients(lambda x: (F.pad(x, sides, mode=mode) * 1.5).square(), x)


def test_padding_by_nothing_is_a_copy() -> None:
    x = torch.tensor([2.0])
    y = torch.compile(lambda x: F.pad(x, (0, 0)), backend="pjrt")(x)
    x[0] = 1
    assert y.item() == 2


def test_rows_that_are_named_twice(same_gradients: Compare) -> None:
    """Sums get each of them, an assignment the last or any, as in eager."""
    x = torch.arange(1.0, 9.0).reshape(4, 2).requires_grad_()
    v = (torch.arange(10.0).reshape(5, 2) - 3).requires_grad_()
    i = torch.tensor([0, 2, 0, 0, 2])

    def f(x: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        y = x.clone()
        y[i] += x[i]  # once, since all of a row's are equal
        wide = i[:, None].expand(-1, 2)
        return (
            y,
            x.index_add(0, i, v),
            x.scatter_add(0, wide, v),
            x.index_put((i,), v, accumulate=True),
            x.scatter_reduce(0, wide, v, "mean"),
            F.embedding(i, x).pow(2),
        )

    same_gradients(f, x, v)


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_rows_that_are_named_twice_in_other_reductions() -> None:
    def f(x: Tensor, v: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        wide = i[:, None].expand(-1, 2)
        y = x.clone()
        y[[0, 0]] += 1
        y[[0, 0]].add_(1)  # of a copy
        return (
            y,
            x[[-1, 1, -1]],
            x.scatter_reduce(0, wide, v, "amax", include_self=False),
            x.index_reduce(0, i, v, "prod"),
            torch.bincount(i, minlength=4),
        )

    x, v = torch.arange(1.0, 9.0).reshape(4, 2), torch.arange(10.0).reshape(5, 2) - 3
    i = torch.tensor([0, 2, 0, 0, 2])
    assert_close(torch.compile(f, backend="pjrt")(x, v, i), f(x, v, i))
