"""Saved tensors whose memory results of the backward take, and those that somebody else has too."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def f(x: Tensor, w: Tensor) -> Tensor:
    """Saves the product, of the type of x and of its gradient."""
    return (x @ w).sin().cos()


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(64, 64, generator=generator) for _ in range(2))
    return x.requires_grad_(), w.requires_grad_()


def expected(times: int = 1) -> list[Tensor]:
    x, w = inputs()
    for _ in range(times):
        f(x, w).square().sum().backward()
    return [x.grad, w.grad]  # type: ignore[list-item]


def compiled(function: Callable[..., Any] = f) -> Callable[..., Any]:
    fast: Callable[..., Any] = torch.compile(function, backend="pjrt")
    return fast


def donated() -> int:
    count: int = torch_pjrt.stats()["donated_inputs"]
    torch_pjrt.reset_stats()
    return count


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    assert_close(found, wanted, rtol=1e-5, atol=1e-4)


def saved_of(y: Tensor) -> list[Tensor]:
    """What the compiled forward saved, as its node in the graph shows it."""
    saved: list[Tensor] = list(y.grad_fn.saved_tensors)  # type: ignore[union-attr]
    return saved


def test_a_gradient_takes_the_memory() -> None:
    fast = compiled()
    for _ in range(3):
        x, w = inputs()
        y = fast(x, w)
        own = {t.data_ptr() for t in saved_of(y)} - {x.data_ptr(), w.data_ptr()}
        y.square().sum().backward()
        assert donated() == 1
        assert {x.grad.data_ptr(), w.grad.data_ptr()} & own  # type: ignore[union-attr]
        assert_same([x.grad, w.grad], expected())
    assert torch_pjrt.stats()["copied_inputs"] == 0


def test_a_graph_that_is_kept_gives_nothing_away() -> None:
    fast = compiled()
    for _ in range(2):
        x, w = inputs()
        loss = fast(x, w).square().sum()
        loss.backward(retain_graph=True)
        assert donated() == 0
        loss.backward()
        assert donated() == 1
        assert_same([x.grad, w.grad], expected(2))
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_gradients_of_gradients_are_an_error_as_before() -> None:
    x, w = inputs()
    (gradient,) = torch.autograd.grad(compiled()(x, w).square().sum(), x, create_graph=True)
    assert donated() == 0
    assert_same([gradient], expected()[:1])
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


HOLDERS: dict[str, Callable[[Tensor], Any]] = {
    "the tensor": lambda t: t,
    "a detached one": lambda t: t.detach(),
    "a view": lambda t: t[3:5, ::2],
    "the storage": lambda t: t.untyped_storage(),
    "numpy": lambda t: t.detach().numpy(),
    "dlpack": lambda t: torch.utils.dlpack.to_dlpack(t),
    "another graph": lambda t: torch.ones(64, 64, requires_grad=True) * t,
}


def read(held: Any) -> Tensor:
    """A copy of what the holder sees."""
    if isinstance(held, torch.UntypedStorage):
        return torch.tensor(held.tolist())
    if type(held).__name__ == "PyCapsule":
        return torch.utils.dlpack.from_dlpack(held).clone()
    if isinstance(held, Tensor) and held.grad_fn is not None:
        return torch.autograd.grad(held.sum(), held.grad_fn.next_functions[0][0].variable)[0]
    return torch.as_tensor(held).clone()


@pytest.mark.parametrize("name", HOLDERS)
def test_what_somebody_holds_stays(name: str) -> None:
    fast = compiled()
    x, w = inputs()
    y = fast(x, w)
    held, before = [], []
    for t in saved_of(y):
        # A capsule is read once.
        held.append(HOLDERS[name](t))
        before.append(t.clone() if name in ("dlpack", "another graph") else read(held[-1]))
    del t
    y.square().sum().backward()
    assert donated() == 0
    assert_same([x.grad, w.grad], expected())
    assert [torch.equal(read(h), b) for h, b in zip(held, before, strict=True)] == [True] * len(
        held
    )


def test_a_weak_reference_sees_no_other_values() -> None:
    x, w = inputs()
    y = compiled()(x, w)
    seen = [weakref.ref(t) for t in saved_of(y)]
    y.square().sum().backward()
    gc.collect()
    assert_same([x.grad, w.grad], expected())
    assert all(r() is None or r() in (x, w) for r in seen if r() is not x and r() is not w)


def test_hooks_that_keep_what_they_were_given() -> None:
    fast = compiled()
    kept: list[Tensor] = []

    def keep(t: Tensor) -> Tensor:
        kept.append(t)
        return t

    for unpack in (lambda t: t, lambda t: t.clone()):
        kept.clear()
        x, w = inputs()
        with torch.autograd.graph.saved_tensors_hooks(keep, unpack):
            y = fast(x, w)
        before = [t.clone() for t in kept]
        y.square().sum().backward()
        assert kept
        assert all(torch.equal(t, b) for t, b in zip(kept, before, strict=True))
        assert_same([x.grad, w.grad], expected())


def test_hooks_that_give_one_tensor_twice() -> None:
    """Both graphs get the same tensor back, and the first backward must leave it as it is."""
    fast = compiled()
    packed: list[Tensor] = []

    def remember(t: Tensor) -> int:
        packed.append(t)
        return len(packed) - 1

    x, w = inputs()
    with torch.autograd.graph.saved_tensors_hooks(remember, lambda k: packed[k]):
        loss = fast(x, w).square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert donated() == 0
    assert_same([x.grad, w.grad], expected(2))


def test_activations_that_are_returned_stay() -> None:
    def g(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        h = x @ w
        return h.sin().cos(), h

    fast = compiled(g)
    x, w = inputs()
    y, h = fast(x, w)
    before = h.detach().clone()
    y.square().sum().backward()
    assert donated() == 0
    assert torch.equal(h, before)
    assert_same([x.grad, w.grad], expected())


def test_views_of_activations_that_are_returned_stay() -> None:
    def g(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        h = x @ w
        return h.sin().cos(), h[::2].t()

    fast = compiled(g)
    x, w = inputs()
    y, h = fast(x, w)
    before = h.detach().clone()
    y.square().sum().backward()
    assert torch.equal(h, before)
    assert_same([x.grad, w.grad], expected())


def test_an_input_that_changes_stays() -> None:
    def g(x: Tensor, w: Tensor, cache: Tensor) -> Tensor:
        h = x @ w
        cache.copy_(h.detach())
        return h.sin().cos()

    fast = compiled(g)
    x, w = inputs()
    cache = torch.zeros(64, 64)
    fast(x, w, cache).square().sum().backward()
    assert_close(cache, (x @ w).detach(), rtol=1e-5, atol=1e-5)
    assert_same([x.grad, w.grad], expected())


def test_sizes_that_change() -> None:
    fast = torch.compile(f, backend="pjrt", dynamic=True)
    for rows in (64, 96, 40):
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(rows, 64, generator=generator).requires_grad_()
        _, w = inputs()
        fast(x, w).square().sum().backward()
        found = [x.grad, w.grad]
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        f(x, w).square().sum().backward()
        assert_same(found, [x.grad, w.grad])
    assert donated() == 3


def test_a_value_error_in_the_backward() -> None:
    """Of a bad index, which the forward finds out first; and the next step goes well."""

    def g(x: Tensor, w: Tensor, i: Tensor) -> Tensor:
        return f(x, w)[i]

    fast = compiled(g)
    x, w = inputs()
    good, bad = torch.arange(64), torch.arange(64) + 1
    with pytest.raises(IndexError):
        fast(x, w, bad)
    fast(x, w, good).square().sum().backward()
    assert_same([x.grad, w.grad], expected())


def test_blocks_of_a_model_one_after_another() -> None:
    """Each block by itself: its input's gradient takes the place of an activation."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(32, 128), nn.Linear(128, 32)
            self.norm = nn.LayerNorm(32)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.second(F.gelu(self.first(self.norm(x))))

    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(3)))
    other = copy.deepcopy(model)
    fast = nn.Sequential(*(torch.compile(block, backend="pjrt") for block in other))
    x = torch.randn(64, 32)
    for _ in range(3):
        for m in (model, other):
            m.zero_grad()
        model(x).square().mean().backward()
        fast(x).square().mean().backward()
        for a, b in zip(other.parameters(), model.parameters(), strict=True):
            assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)
    assert torch_pjrt.stats()["copied_inputs"] == 0
