"""What the stock loop meets beside the ordinary: layouts, reentrant checkpoints, dropout in
attention, recurrent layers, statistics that are switched on and off."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import torch_pjrt

from .conftest import Compare

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="pjrt", dynamic=False)


def test_gradients_of_channels_last_and_transposed_weights(same_gradients: Compare) -> None:
    class Convolutional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 4, 3, bias=False).to(memory_format=torch.channels_last)
            self.turned = nn.Parameter(torch.randn(5, 4).t())
            self.norm = nn.BatchNorm2d(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.first(x)).relu().mean((2, 3)) @ self.turned

    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last).requires_grad_()
    same_gradients(Convolutional(), x)


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_checkpoints_of_both_kinds(where: str, use_reentrant: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    other = copy.deepcopy(model)

    def f(m: Any, x: Tensor) -> Tensor:
        return checkpoint(m, x, use_reentrant=use_reentrant) * 2  # type: ignore[no-any-return]

    fast = compiled(other)
    inside = compiled(f)
    found = []
    for run, m in ((f, model), (inside, other) if where == "inside" else (f, fast)):
        x = torch.ones(3, 8, requires_grad=True)
        run(m, x).sum().backward()
        found.append(x.grad)
    assert_close(found[1], found[0])
    for p, q in zip(other.parameters(), model.parameters(), strict=True):
        assert_close(p.grad, q.grad)


def test_dropout_under_a_reentrant_checkpoint_keeps_its_mask() -> None:
    """The forward runs again in the backward, from the generator's state of the first time."""
    fast = compiled(nn.Dropout(0.5))
    x = torch.ones(40, 50, requires_grad=True)
    y = checkpoint(fast, x, use_reentrant=True)
    y.sum().backward()
    assert_close(x.grad, y.detach())


@pytest.mark.parametrize(
    "dims",
    [
        (2, 1, 5, 7),
        *(
            pytest.param(dims, marks=pytest.mark.full)
            for dims in ((5, 7), (1, 7), (2, 2, 5, 7), (1, 1, 1, 7))
        ),
    ],
)
def test_attention_masks_that_broadcast(same_gradients: Compare, dims: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    mask = torch.rand(dims) > 0.3

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        numbers = torch.zeros(dims).masked_fill(~mask, -1.5)
        return F.scaled_dot_product_attention(q, k, v, mask) + (
            F.scaled_dot_product_attention(q, k, v, numbers)
        )

    heads = [torch.randn(2, 2, n, 4, requires_grad=True) for n in (5, 7, 7)]
    same_gradients(attend, *heads)


def test_attention_without_heads_and_multi_head(same_gradients: Compare) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: Tensor) -> list[Tensor]:
            y, weights = self.attention(x, x, x)
            alone, _ = self.attention(x, x, x, need_weights=False)
            return [y, weights, alone, F.scaled_dot_product_attention(x, x, x, is_causal=True)]

    same_gradients(Both(), torch.randn(2, 5, 8, requires_grad=True))


@pytest.mark.parametrize("masked", [False, True])
def test_dropout_in_attention_has_one_mask(masked: bool) -> None:
    """Backward through the values is by the weights that the forward used."""
    mask = torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) > 0.3
    mask[:, 0] = True

    def attend(q: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(
            q, q, v, mask if masked else None, dropout_p=0.5, is_causal=not masked
        )

    fast = compiled(attend)
    q, v = torch.randn(2, 2, 6, 6), torch.eye(6).expand(2, 2, 6, 6).clone().requires_grad_()
    torch.manual_seed(1)
    weights = fast(q, v)  # of the identity, the output is the weights after dropout
    tangent = torch.randn(2, 2, 6, 6)
    weights.backward(tangent)
    assert_close(v.grad, weights.detach().mT @ tangent)
    torch.manual_seed(1)
    assert torch.equal(fast(q, v.detach()), weights.detach())
    assert not torch.equal(fast(q, v.detach()), weights.detach())


@pytest.mark.parametrize(
    "kind", [nn.LSTM, *(pytest.param(k, marks=pytest.mark.full) for k in (nn.GRU, nn.RNN))]
)
def test_recurrent_layers(same_gradients: Compare, kind: Any) -> None:
    torch.manual_seed(0)
    layers = kind(4, 3, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.randn(2, 3, 4, requires_grad=True)
    with torch._dynamo.config.patch(allow_rnn=True):
        same_gradients(layers, x)


def test_recurrent_layers_are_left_to_eager_by_default(same_gradients: Compare) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(4, 3, batch_first=True)
            self.head = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(x.tanh())[0])  # type: ignore[no-any-return]

    torch.manual_seed(0)
    same_gradients(Model(), torch.randn(2, 3, 4, requires_grad=True))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_statistics_over_train_and_eval(momentum: float | None) -> None:
    """Running statistics, the count of batches, and gradients, through every switch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3, momentum=momentum))
    other = copy.deepcopy(model)
    fast = compiled(other)
    for training in (True, True, False, True):
        x = torch.randn(4, 2, 5, 5)
        for m, run in ((model, model), (other, fast)):
            m.train(training)
            m.zero_grad()
            run(x).square().mean().backward()
        assert_close(other.state_dict(), model.state_dict())
        for p, q in zip(other.parameters(), model.parameters(), strict=True):
            assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)
    assert int(other.state_dict()["1.num_batches_tracked"]) == 3


def test_the_same_value_twice_and_an_input_as_outputs() -> None:
    """Equal outputs are computed once, and each has its own gradient."""

    def f(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        y = (x @ w).tanh()
        return y, (x @ w).tanh(), y.view(-1), w, y * 2

    torch.manual_seed(0)
    fast = compiled(f)
    x = torch.randn(3, 4)
    found = []
    for run in (f, fast):
        w = torch.arange(8.0).view(4, 2).requires_grad_()
        outputs = run(x, w)
        torch_pjrt.reset_stats()
        (outputs[0].sum() + 2 * outputs[1].sum() + outputs[2].square().sum()).backward()
        found.append((w.grad, *[y.detach() for y in outputs]))
    assert_close(found[1], found[0])
    assert torch_pjrt.stats()["copied_inputs"] == 0
