"""Gradients of the layers and losses of torch.nn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from .conftest import Compare

pytestmark = pytest.mark.plugin

Tensor = torch.Tensor
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batch_norm_updates_its_statistics(same_gradients: Compare, dtype: torch.dtype) -> None:
    same_gradients(nn.BatchNorm2d(4, dtype=dtype), leaf(2, 4, 5, 5, dtype=dtype), steps=3)


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm1d(4, momentum=None),  # a cumulative average
        nn.BatchNorm1d(4, affine=False),
        nn.BatchNorm1d(4, track_running_stats=False),
        nn.BatchNorm1d(4).eval(),
    ],
    ids=["cumulative", "not affine", "without statistics", "eval"],
)
def test_batch_norm_settings(same_gradients: Compare, norm: nn.Module) -> None:
    same_gradients(norm, leaf(6, 4), steps=2)


def test_batch_norm_switches_between_training_and_eval() -> None:
    torch._dynamo.reset()
    norm, other = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    fast = torch.compile(other, backend="pjrt")
    for training in (True, False, True):
        x = torch.randn(6, 4)
        norm.train(training)
        other.train(training)
        torch.testing.assert_close(fast(x), norm(x))
        torch.testing.assert_close(other.state_dict(), norm.state_dict())


class Norms(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = nn.LayerNorm(4, dtype=dtype)
        self.both = nn.LayerNorm((6, 4), dtype=dtype)
        self.group = nn.GroupNorm(2, 6, dtype=dtype)
        self.instance = nn.InstanceNorm1d(6, affine=True, dtype=dtype)
        self.rms = nn.RMSNorm(4, dtype=dtype)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        norms = (self.layer, self.both, self.group, self.instance, self.rms)
        return tuple(norm(x[k]) for k, norm in enumerate(norms))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_other_norms(same_gradients: Compare, dtype: torch.dtype) -> None:
    same_gradients(Norms(dtype), leaf(5, 3, 6, 4, dtype=dtype))


ACTIVATIONS: list[Callable[[Tensor], Tensor]] = [
    F.relu,
    F.relu6,
    F.gelu,
    lambda x: F.gelu(x, approximate="tanh"),
    F.silu,
    F.elu,
    F.leaky_relu,
    F.softplus,
    F.hardswish,
    F.hardsigmoid,
    F.hardtanh,
    F.mish,
    torch.tanh,
    torch.sigmoid,
    F.logsigmoid,
    F.selu,
    F.celu,
    F.softsign,
    F.tanhshrink,
    F.softshrink,
    F.hardshrink,
    F.glu,
    lambda x: F.softmax(x, -1),
    lambda x: F.log_softmax(x, 0),
    lambda x: F.threshold(x, 0.1, 20),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_activations(same_gradients: Compare, dtype: torch.dtype) -> None:
    activations = list(ACTIVATIONS)
    if dtype == torch.float64:
        # Eager's float64 kernel divides by 6 in float32.
        activations.remove(F.hardsigmoid)
    x = torch.randn(len(activations), 4, 6, dtype=dtype)
    x[:, 0, 0] = 0  # where many of them have a kink
    same_gradients(lambda t: [f(t[k]) for k, f in enumerate(activations)], x.requires_grad_())


TARGET = torch.tensor([1, 0, 3, -100])
WEIGHT = torch.tensor([0.5, 1.0, 2.0, 0.1, 3.0])
PROBABILITIES = torch.rand(4, 5, generator=torch.Generator().manual_seed(3))
LOSSES: list[Callable[[Tensor], Tensor]] = [
    lambda x: F.cross_entropy(x, TARGET),
    lambda x: F.cross_entropy(x, TARGET, weight=WEIGHT, reduction="sum"),
    lambda x: F.cross_entropy(x, TARGET, weight=WEIGHT, reduction="none"),
    lambda x: F.cross_entropy(x, TARGET, label_smoothing=0.1),
    lambda x: F.cross_entropy(x, PROBABILITIES),
    lambda x: F.nll_loss(x, TARGET),
    lambda x: F.mse_loss(x, PROBABILITIES),
    lambda x: F.l1_loss(x, PROBABILITIES),
    lambda x: F.smooth_l1_loss(x, PROBABILITIES),
    lambda x: F.huber_loss(x, PROBABILITIES, delta=0.3),
    lambda x: F.binary_cross_entropy_with_logits(x, PROBABILITIES),
    lambda x: F.binary_cross_entropy(x.sigmoid(), PROBABILITIES),
    lambda x: F.kl_div(x, PROBABILITIES, reduction="batchmean"),
    lambda x: F.cosine_similarity(x, PROBABILITIES),
    lambda x: F.triplet_margin_loss(x, PROBABILITIES, x * 2),
]


def test_losses(same_gradients: Compare) -> None:
    same_gradients(lambda t: [f(t[k]) for k, f in enumerate(LOSSES)], leaf(len(LOSSES), 4, 5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "settings", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}], ids=str
)
def test_embedding_of_repeated_indices(
    same_gradients: Compare, settings: dict[str, Any], dtype: torch.dtype
) -> None:
    index = torch.tensor([[0, 1], [1, 6], [1, 0]])
    same_gradients(lambda w, i: F.embedding(i, w, **settings), leaf(7, 4, dtype=dtype), index)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("norm", [2.0, float("inf")])
def test_embedding_shortens_the_rows_it_reads(norm: float, dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    table = nn.Embedding(10, 4, max_norm=0.8, norm_type=norm, dtype=dtype)
    with torch.no_grad():
        table.weight[1] *= 1e-3  # short enough already
    other = copy.deepcopy(table)
    before = table.weight.detach().clone()
    fast = torch.compile(other, backend="pjrt", dynamic=False)
    for index in ([[1, 2, 2]], [[3, 1, 9]], [[1, 2, 2]]):
        want, got = table(torch.tensor(index)), fast(torch.tensor(index))
        assert_close(got, want)
        want.sum().backward()
        got.sum().backward()
        assert_close(other.weight, table.weight)
    assert_close(other.weight.grad, table.weight.grad)
    assert torch.equal(other.weight[[1, 4]], before[[1, 4]])
    assert not torch.equal(other.weight[2], before[2])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(same_gradients: Compare, mode: str) -> None:
    index, offsets = torch.tensor([0, 1, 1, 6, 2, 0]), torch.tensor([0, 2, 2, 5])  # one is empty

    def bags(table: Tensor, i: Tensor, o: Tensor) -> Tensor:
        return F.embedding_bag(i, table, o, mode=mode, padding_idx=2)

    same_gradients(bags, leaf(7, 4), index, offsets)


def test_weights_of_embedding_bags(same_gradients: Compare) -> None:
    index = torch.tensor([[0, 1], [1, 6]])

    def bags(table: Tensor, i: Tensor, weights: Tensor) -> Tensor:
        return F.embedding_bag(i, table, mode="sum", per_sample_weights=weights)

    same_gradients(bags, leaf(7, 4), index, leaf(2, 2))


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU])
def test_recurrent(same_gradients: Compare, kind: Any) -> None:
    layers = kind(4, 5, batch_first=True)
    with torch._dynamo.config.patch(allow_rnn=True):  # by default Dynamo leaves them to eager
        same_gradients(layers, leaf(2, 2, 4))


def test_a_transformer_layer(same_gradients: Compare) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    same_gradients(layer, leaf(2, 3, 8))


REARRANGED: list[Callable[[Tensor], Tensor]] = [
    lambda x: x[torch.tensor([0, 2, 2])],
    lambda x: x[:, 1:, None],
    lambda x: x[1] * 2,
    lambda x: x.gather(1, torch.tensor([[0, 1], [1, 1]])),
    lambda x: torch.cat([x, x.flip(0)], 1),
    lambda x: torch.stack(x.unbind(1), 0),
    lambda x: x.max(1)[0],
    lambda x: x.amax(0),
    lambda x: x.sort(1)[0],
    lambda x: x.cumsum(1),
    lambda x: x.var(1),
    lambda x: x.norm(),
    lambda x: x.logsumexp(1),
    lambda x: x.clamp(-0.5, 0.5),
    lambda x: torch.where(x > 0, x, x.exp()),
    lambda x: F.pad(x, (1, 2)),
    lambda x: F.pad(x, (1, 2), mode="reflect"),
    lambda x: x.expand(2, 3, 4) * 1,
    lambda x: torch.zeros(3, 4).scatter_add(1, torch.tensor([[0, 0], [1, 1]]), x[:2, :2]),
    lambda x: torch.zeros(3, 4).index_add(0, torch.tensor([1, 1, 0]), x),
    lambda x: torch.einsum("ij,kj->ik", x, x),
    lambda x: x.tril(),
]


def test_replication_padding(same_gradients: Compare) -> None:
    def pad(x: Tensor) -> tuple[Tensor, Tensor]:
        return F.pad(x, (2, 1), mode="replicate"), F.pad(x, (0, 2, 3, 1), mode="replicate")

    same_gradients(pad, leaf(2, 3, 4))


def test_rearranging(same_gradients: Compare) -> None:
    x = leaf(len(REARRANGED), 3, 4)
    same_gradients(lambda t: [f(t[k]) for k, f in enumerate(REARRANGED)], x)
