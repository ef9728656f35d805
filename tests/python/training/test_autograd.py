"""Everything that autograd lets a user do around a compiled forward and backward."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import torch_pjrt

from .conftest import Compare

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Tensor = torch.Tensor


def make(width: int = 16) -> tuple[nn.Module, nn.Module]:
    """A model and an equal one that is to be compiled."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 4))
    return model, copy.deepcopy(model)


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", **kwargs)


def assert_same_gradients(got: nn.Module, expected: nn.Module) -> None:
    for p, q in zip(got.parameters(), expected.parameters(), strict=True):
        if q.grad is None:
            assert p.grad is None
            continue
        assert p.grad is not None
        assert_close(p.grad, q.grad)
        assert p.grad.stride() == q.grad.stride()


def test_the_stock_loop_compiles_two_programs() -> None:
    eager, model = make(21)
    fast = compiled(model)
    x = torch.randn(3, 8)
    for _ in range(3):
        eager(x).square().mean().backward()
        fast(x).square().mean().backward()
    assert_same_gradients(model, eager)
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"], counts["executions"]) == (2, 2, 6)
    assert counts["copied_inputs"] == 0


def test_frozen_parameters() -> None:
    eager, model = make()
    for m in (eager, model):
        m[0].requires_grad_(False)
    x = torch.randn(3, 8)
    compiled(model)(x).sum().backward()
    eager(x).sum().backward()
    assert_same_gradients(model, eager)
    assert model[0].weight.grad is None


def test_freezing_between_steps_is_seen() -> None:
    eager, model = make()
    fast = compiled(model)
    x = torch.randn(3, 8)
    for frozen in (False, True, False):
        for m in (eager, model):
            m.zero_grad()
            m[2].requires_grad_(not frozen)
        fast(x).sum().backward()
        eager(x).sum().backward()
        assert_same_gradients(model, eager)


def test_backward_twice() -> None:
    eager, model = make()
    fast = compiled(model)
    x = torch.randn(3, 8)
    for _ in range(2):  # the second time, both programs exist
        for run, m in ((fast, model), (eager, eager)):
            m.zero_grad()
            y = run(x)
            y.sum().backward(retain_graph=True)
            y.square().sum().backward()
        assert_same_gradients(model, eager)
    y = fast(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_a_second_derivative_is_an_error() -> None:
    x = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(compiled(lambda t: t**3)(x).sum(), x, create_graph=True)
    assert_close(gradient, 3 * x**2)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


def test_saved_tensors_hooks() -> None:
    eager, model = make()
    fast = compiled(model)
    packed: list[Tensor] = []

    def pack(t: Tensor) -> Tensor:
        packed.append(t)
        return t.clone()

    x = torch.randn(3, 8)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = fast(x)
    y.sum().backward()
    eager(x).sum().backward()
    assert packed
    assert_same_gradients(model, eager)


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_activation_checkpointing(where: str) -> None:
    eager, model = make()

    def f(m: nn.Module, x: Tensor) -> Tensor:
        return checkpoint(m, x, use_reentrant=False) * 2

    x = torch.randn(3, 8, requires_grad=True)
    if where == "inside":
        fast = compiled(f)
        fast(model, x).sum().backward()
    else:
        f(compiled(model), x).sum().backward()
    got, x.grad = x.grad, None
    f(eager, x).sum().backward()
    assert_close(got, x.grad)
    assert_same_gradients(model, eager)


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (x > 0)  # not the true derivative: it has to be this one that runs


def test_a_custom_function(same_gradients: Compare) -> None:
    def f(x: Tensor) -> Tensor:
        return Clipped.apply(x.sin()) + 1  # type: ignore[no-any-return]

    same_gradients(f, torch.randn(4, 5, requires_grad=True))


def test_hooks_of_tensors_and_modules() -> None:
    eager, model = make()
    seen: list[str] = []
    for m in (eager, model):
        m[0].weight.register_hook(lambda g: g * 2)
        m[0].bias.register_post_accumulate_grad_hook(lambda p: seen.append("bias"))
        m.register_full_backward_hook(lambda *_: seen.append("module"))
        m[1].register_forward_hook(lambda m, args, y: y * 0.5)
    x = torch.randn(3, 8, requires_grad=True)
    y = compiled(model)(x)
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    fast_seen = list(seen)
    seen.clear()
    z = eager(x)
    z.register_hook(lambda g: g + 1)
    z.sum().backward()
    assert sorted(fast_seen) == sorted(seen)
    assert_same_gradients(model, eager)


TANGENTS: list[Callable[[], Tensor]] = [
    lambda: torch.ones(()).expand(3, 4),
    lambda: torch.randn(4, 3).t(),
    lambda: torch.randn(3, 8)[:, ::2],
    lambda: torch.randn(13)[1:].view(3, 4),
    lambda: torch.zeros(3, 4),
]


@pytest.mark.parametrize("index", range(len(TANGENTS)))
def test_tangents_of_any_layout(index: int) -> None:
    eager, model = make()
    fast = compiled(model)
    x = torch.randn(3, 8)
    fast(x).backward(torch.ones(3, 4))
    model.zero_grad()
    tangent = TANGENTS[index]()
    fast(x).backward(tangent)
    eager(x).backward(tangent)
    assert_same_gradients(model, eager)


def test_outputs_that_need_no_gradient_or_get_none() -> None:
    def f(x: Tensor, w: Tensor) -> tuple[Any, ...]:
        y = (x * w).sin()
        return y, y, x * 2, (x > 0), w.detach() * 3, None, 7

    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    outputs = compiled(f)(x, w)
    expected = f(x, w)
    for got, want in zip(outputs, expected, strict=True):
        if isinstance(want, Tensor):
            assert_close(got, want)
            assert got.requires_grad == want.requires_grad
        else:
            assert got == want
    (outputs[0] + outputs[1]).sum().backward()
    got, w.grad = w.grad, None
    (expected[0] + expected[1]).sum().backward()
    assert_close(got, w.grad)


def test_only_one_of_several_outputs_is_differentiated() -> None:
    x = torch.randn(3, requires_grad=True)
    a, b = compiled(lambda t: (t.sin(), t.exp()))(x)
    b.sum().backward()
    assert_close(x.grad, x.exp())
    assert a.requires_grad


def test_gradients_of_inputs_alone_and_by_autograd_grad() -> None:
    eager, model = make()
    x = torch.randn(3, 8, requires_grad=True)
    (got,) = torch.autograd.grad(compiled(model)(x).sum(), x)
    (want,) = torch.autograd.grad(eager(x).sum(), x)
    assert_close(got, want)
    assert all(p.grad is None for p in model.parameters())


def test_inputs_that_are_used_twice_or_not_at_all(same_gradients: Compare) -> None:
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    same_gradients(lambda a, b: a * a + a.detach(), x, y)
    same_gradients(lambda a, b: (a + b, a - b), x, y)  # the tangents are the gradients


def test_an_input_changed_in_place(same_gradients: Compare) -> None:
    def f(x: Tensor) -> Tensor:
        y = x.sin()
        y.mul_(2)
        return y

    same_gradients(f, torch.randn(3, 4, requires_grad=True))


def test_a_gradient_that_the_user_changes_leaves_the_others_alone() -> None:
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    fast = compiled(lambda a, b: a + b)
    tangent = torch.ones(3)
    fast(x, y).backward(tangent)
    assert x.grad is not None
    x.grad.mul_(5)
    assert_close(y.grad, torch.ones(3))
    assert_close(tangent, torch.ones(3))


def test_batch_sizes_become_dynamic() -> None:
    eager, model = make(22)
    fast = compiled(model)
    for batch in (3, 5, 7, 2, 5):
        for m in (eager, model):
            m.zero_grad()
        x = torch.randn(batch, 8)
        fast(x).square().mean().backward()
        eager(x).square().mean().backward()
        assert_same_gradients(model, eager)
    counts = torch_pjrt.stats()
    assert counts["captures"] == 4  # forward and backward, static and dynamic
    assert counts["compiles"] == 8


def test_autocast(same_gradients: Compare) -> None:
    _, model = make()

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.model(x).float()

    same_gradients(Mixed(), torch.randn(3, 8), tolerance=3e-2)


def test_backward_in_another_thread() -> None:
    eager, model = make()
    x = torch.randn(3, 8)
    loss = compiled(model)(x).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    eager(x).sum().backward()
    assert_same_gradients(model, eager)


def test_two_models_in_turns() -> None:
    """Each backward finds the values that its own forward saved."""
    eager, model = make()
    fast = compiled(model)
    x, y = torch.randn(3, 8), torch.randn(3, 8)
    first, second = fast(x).square().sum(), fast(y).square().sum()
    first.backward()
    second.backward()
    (eager(x).square().sum() + eager(y).square().sum()).backward()
    assert_same_gradients(model, eager)


def test_switching_between_training_and_inference() -> None:
    eager, model = make()
    fast = compiled(model)
    x = torch.randn(3, 8)
    for _ in range(2):
        with torch.no_grad():
            assert_close(fast(x), eager(x))
        fast(x).sum().backward()
        eager(x).sum().backward()
        with torch.inference_mode():
            assert_close(fast(x), eager(x))
    assert_same_gradients(model, eager)


def test_an_error_at_backward_names_its_forward() -> None:
    def sorted_rows(x: Tensor) -> Tensor:
        return NoRule.apply(x)  # type: ignore[no-any-return]

    class NoRule(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return torch.linalg.qr(grad)[1]

    fast = compiled(sorted_rows, options={"fallback": "error"})
    y = fast(torch.randn(3, 3, requires_grad=True))
    with pytest.raises(torch_pjrt.Error, match="linalg_qr") as caught:
        y.sum().backward()
    assert caught.value.code == "unsupported"
    assert "in the backward of: " in str(caught.value)
    assert "in sorted_rows" in str(caught.value)


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_saved_is_not_copied(dynamic: bool) -> None:
    """Views that are saved for the backward: with gaps, expanded, of inputs and of results."""

    def f(x: Tensor, table: Tensor, index: Tensor, mask: Tensor) -> Tensor:
        y = table[index[:, : x.shape[1]].expand(len(x), x.shape[1])] * x
        first = y[:, 0].tanh() @ table.T  # of each row the first place
        part = y[:, ::2] * y[:, 1::2].exp()
        hidden = mask[:, : x.shape[1], None].expand(len(x), x.shape[1], 4)
        return first.sum() + part.sin().sum() + torch.where(hidden, y.sin(), y).sum()

    torch.manual_seed(0)
    table = torch.randn(4, 4, requires_grad=True)
    index, mask = torch.randint(0, 4, (1, 16)), torch.rand(1, 16) > 0.5
    fast = compiled(f, dynamic=dynamic)
    for batch in (3, 5):
        x = torch.randn(batch, 8, 4, requires_grad=True)
        for run in (f, fast):
            x.grad = table.grad = None
            torch_pjrt.reset_stats()
            run(x, table, index, mask).backward()
            if run is f:
                expected = (x.grad, table.grad)
        assert_close((x.grad, table.grad), expected)
        assert torch_pjrt.stats()["copied_inputs"] == 0
