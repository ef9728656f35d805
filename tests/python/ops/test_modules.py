"""What users write, against eager: modules, losses, padding, resizing, and other composite ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from ops.inputs import INF, NAN
from torch import nn

import torch_pjrt


def same(fn: Callable[..., Any], *args: Any, tolerance: float = 1e-5, strides: bool = True) -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        want = fn(*args)
        got = torch.compile(fn, backend="pjrt", dynamic=False)(*args)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    for g, w in zip(
        torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want), strict=True
    ):
        assert not strides or g.stride() == w.stride()


def image(channels: int = 4, size: int = 6) -> torch.Tensor:
    return torch.randn(2, channels, size, size + 1, generator=torch.Generator().manual_seed(0))


MODULES: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "lstm": lambda: (nn.LSTM(4, 6, 2, bidirectional=True), torch.randn(5, 3, 4)),
    "gru": lambda: (nn.GRU(4, 6, batch_first=True), torch.randn(3, 5, 4)),
    "rnn": lambda: (nn.RNN(4, 6, nonlinearity="relu"), torch.randn(5, 3, 4)),
    "transformer_encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1),
        torch.randn(2, 5, 8),
    ),
    "transformer_decoder": lambda: (
        Decoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)),
        torch.randn(2, 5, 8),
    ),
    "norms": lambda: (
        nn.Sequential(
            nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.LocalResponseNorm(2)
        ),
        image(),
    ),
    "batch_norm": lambda: (nn.Sequential(nn.BatchNorm2d(4), nn.RMSNorm(7)), image()),
    "transposed": lambda: (
        nn.Sequential(
            nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2),
            nn.ConvTranspose2d(6, 2, (2, 3), dilation=2),
        ),
        image(),
    ),
    "one_dimension": lambda: (
        nn.Sequential(
            nn.Conv1d(4, 6, 3, padding="same"),
            nn.MaxPool1d(2),
            nn.AvgPool1d(2),
            nn.ConvTranspose1d(6, 2, 3),
        ),
        torch.randn(2, 4, 13),
    ),
    "three_dimensions": lambda: (
        nn.Sequential(
            nn.Conv3d(2, 4, 3, padding=1),
            nn.MaxPool3d(2),
            nn.AdaptiveAvgPool3d((2, 1, 3)),
            nn.ConvTranspose3d(4, 2, 2),
        ),
        torch.randn(1, 2, 6, 6, 10),
    ),
    "adaptive": lambda: (
        nn.Sequential(nn.AdaptiveAvgPool2d((4, 3)), nn.AdaptiveAvgPool2d(1)),
        image(),
    ),
    "shuffles": lambda: (
        nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(3), nn.ChannelShuffle(3)),
        image(4, 6)[..., :6],
    ),
    "folds": lambda: (
        nn.Sequential(nn.Unfold(3, padding=1), nn.Fold((6, 7), 3, padding=1)),
        image(),
    ),
    "prelu": lambda: (nn.Sequential(nn.PReLU(4), nn.Softmax2d(), nn.Flatten()), image()),
}


class Decoder(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x.flip(1))


@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    torch.manual_seed(0)
    module, x = MODULES[name]()
    same(module.eval(), x)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("kwargs", [{}, {"bias": False}, {"proj_size": 3}], ids=str)
def test_lstm_without_gradients(kwargs: dict[str, Any]) -> None:
    """Then torch traces an op of its CPU kernels' library for each layer."""
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 6, 2, bidirectional=True, **kwargs)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        fast = torch.compile(lstm, backend="pjrt", fullgraph=True)
        x = torch.randn(5, 3, 4)
        torch.testing.assert_close(fast(x), lstm(x), rtol=1e-5, atol=1e-5)


def test_attention_with_masks() -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    padding = torch.tensor([[False] * 5, [False, False, True, True, True]])
    x = torch.randn(2, 5, 8)
    same(lambda t, m: attention(t, t, t, key_padding_mask=m)[0], x, padding)
    # torch's decomposition gives other strides than its kernel.
    q = torch.randn(2, 2, 5, 4)
    attend = F.scaled_dot_product_attention
    same(lambda t: attend(t, t, t, is_causal=True), q, strides=False)
    lower = torch.ones(5, 5).tril() > 0
    same(lambda t, m: attend(t, t, t, attn_mask=m), q, lower, strides=False)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True).eval()
    same(lambda t, m: layer(t, src_key_padding_mask=m), x, padding)
    same(lambda t, m: layer(t, src_mask=m), x, ~lower)


ACTIVATIONS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    F.celu, F.elu, F.gelu, F.hardsigmoid, F.hardswish, F.hardtanh, F.leaky_relu, F.logsigmoid,
    F.mish,
    F.relu6, F.selu, F.silu, F.softplus, F.softshrink, F.softsign, F.tanhshrink, F.hardshrink,
    lambda x: F.glu(x, 0), lambda x: F.softmin(x, -1), lambda x: F.threshold(x, 0.5, 2),
    F.normalize,
    torch.sigmoid, torch.nan_to_num, torch.logit, torch.frac, lambda x: torch.lerp(x, x * 2, 0.3),
    lambda x: torch.logaddexp(x, x * 2), lambda x: torch.xlogy(x, x), torch.sgn,
    torch.square, torch.angle,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_activations(dtype: torch.dtype) -> None:
    x = torch.linspace(-6, 6, 24, dtype=dtype).reshape(4, 6)
    tolerance = 2e-2 if dtype is torch.bfloat16 else 2e-6
    same(lambda t: [f(t) for f in ACTIVATIONS], x, tolerance=tolerance)


def test_losses() -> None:
    x, y = torch.rand(4, 5), torch.rand(4, 5)
    classes = torch.tensor([0, 4, -100, 2])
    losses = [
        F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits, F.kl_div, F.poisson_nll_loss, F.soft_margin_loss,
        F.cosine_similarity, F.pairwise_distance, torch.cdist, torch.dist,
    ]  # fmt: skip
    same(lambda a, b: [f(a, b) for f in losses], x, y)
    reductions = ("none", "mean", "sum")
    same(
        lambda a, c: [F.cross_entropy(a, c, reduction=r, label_smoothing=0.1) for r in reductions],
        x,
        classes,
    )
    same(
        lambda a, c: [
            F.nll_loss(a.log_softmax(1), c, torch.arange(1.0, 6), reduction=r) for r in reductions
        ],
        x,
        classes,
    )
    same(lambda a, c: F.nll_loss(a.log_softmax(1)[:, :, None], c[:, None]), x, classes)
    same(lambda a, c: F.multi_margin_loss(a, c), x[:2], classes[:2])
    same(lambda a, b: F.triplet_margin_loss(a, b, a.flip(0)), x, y)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, float("inf")])
def test_distances_of_no_points_and_of_points_without_coordinates(p: float) -> None:
    same(lambda a, b: torch.cdist(a, b, p), torch.rand(3, 0), torch.rand(2, 0))
    same(lambda a, b: torch.cdist(a, b, p), torch.rand(0, 4), torch.rand(2, 4))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    x = torch.arange(48.0).reshape(1, 2, 4, 6)
    pads = [(1, 2, 2, 0), (-1, 3, 1, 1), (0, 0, 0, 0)]
    for y in (x, x.contiguous(memory_format=torch.channels_last)):
        for pad in pads:
            same(lambda t, pad=pad: F.pad(t, pad, mode=mode) * 1.5, y)
    same(lambda t: F.pad(t, (2, 1), mode=mode) + 0, x[0])


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_resizing_of_any_size(mode: str) -> None:
    """Of symbolic sizes: the scale is computed by the program."""
    corners = [None] if mode in ("nearest", "area") else [False, True]

    def resize(x: torch.Tensor) -> list[torch.Tensor]:
        h, w = x.shape[-2:]
        sizes: list[dict[str, Any]] = [{"size": (h * 2, w + 1)}, {"scale_factor": (1.5, 0.5)}]
        return [
            F.interpolate(x, mode=mode, align_corners=c, **size) for size in sizes for c in corners
        ]

    fast = torch.compile(resize, backend="pjrt", dynamic=True)
    for size in (5, 8, 9):
        x = image(3, size)
        torch.testing.assert_close(fast(x), resize(x), rtol=1e-4, atol=1e-4)


def test_resizing() -> None:
    x = image(3, 5)
    calls: list[dict[str, Any]] = [
        {"scale_factor": 2, "mode": "nearest"},
        {"size": (7, 3), "mode": "nearest"},
        {"size": (7, 3), "mode": "nearest-exact"},
        {"scale_factor": (1.7, 0.6), "mode": "bilinear"},
        {"size": (9, 11), "mode": "bilinear", "align_corners": True},
        {"size": (9, 4), "mode": "bicubic"},
        {"size": (2, 3), "mode": "area"},
    ]
    same(lambda t: [F.interpolate(t, **c) for c in calls], x)
    same(lambda t: [F.interpolate(t[0], size=9, mode=m) for m in ("nearest", "linear")], x)
    same(
        lambda t: [
            F.interpolate(t[None], size=(2, 7, 3), mode=m) for m in ("nearest", "trilinear")
        ],
        x,
    )
    grid = torch.rand(2, 4, 3, 2) * 2.4 - 1.2
    same(
        lambda t, g: [
            F.grid_sample(t, g, m, p, False)
            for m in ("bilinear", "nearest")
            for p in ("zeros", "border")
        ],
        x,
        grid,
    )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding_bag(mode: str, padding: int | None) -> None:
    table = torch.randn(6, 3)
    index, offsets = torch.tensor([0, 5, 2, 2, 1, 4, 3]), torch.tensor([0, 2, 2, 5, 7])
    same(
        lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=padding),
        table,
        index,
        offsets,
    )
    same(
        lambda w, i: F.embedding_bag(i, w, mode=mode, padding_idx=padding),
        table,
        index[:6].view(2, 3),
    )
    if mode == "sum":
        weights = torch.rand(7)
        same(
            lambda w, i, o, p: F.embedding_bag(i, w, o, mode=mode, per_sample_weights=p),
            table,
            index,
            offsets,
            weights,
        )
        same(
            lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, include_last_offset=True),
            table,
            index,
            offsets,
        )


@pytest.mark.parametrize("function", [torch.max, torch.min])
def test_extreme_of_nothing_raises(function: Callable[..., Any], fresh: None) -> None:
    with pytest.raises(torch_pjrt.Error, match="has no elements"):
        torch.compile(function, backend="pjrt")(torch.empty(0))


def test_rewritten_ops() -> None:
    x, mask = torch.arange(24.0).reshape(4, 6), torch.arange(24).reshape(4, 6) % 3 == 0
    index = torch.tensor([0, 2, 0])
    functions: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda t: t.masked_fill(mask, -INF),
        lambda t: t.masked_scatter(mask, torch.arange(30.0)),
        lambda t: torch.addbmm(torch.ones(2, 2), t.view(3, 2, 4), t.view(3, 4, 2), beta=0.5),
        lambda t: t.diagonal_scatter(torch.ones(4), 1),
        lambda t: t.put(index, torch.ones(3), accumulate=True),
        lambda t: t.index_add(0, index, torch.ones(3, 6), alpha=2),
        lambda t: t.index_copy(0, torch.tensor([3, 1]), torch.ones(2, 6)),
        lambda t: t.index_fill(1, index, 7),
        lambda t: t.select_scatter(torch.ones(6), 0, -1),
        lambda t: t.tril(1) + t.triu(-1),
        lambda t: t.roll((1, -2), (0, 1)),
        lambda t: t.rot90() * 2,
        lambda t: t.take(torch.tensor([-1, 3])),
        lambda t: t.take_along_dim(torch.tensor([[1, 0]]), 1),
        lambda t: t.as_strided((2, 3), (6, 2), 1) + 1,
        lambda t: torch.linspace(0, 1, 7) + torch.eye(7),
        lambda t: torch.logspace(0, 2, 5),
        lambda t: t.logsumexp(1),
        lambda t: t.norm() + t.std() + t.var(unbiased=False),
        lambda t: t.nansum(0),
        lambda t: t.count_nonzero(1),
        lambda t: torch.stack(t.aminmax(dim=1)),
        lambda t: torch.einsum("ij,kj->ik", t, t),
        lambda t: torch.kron(t[:2, :2], t[:2, :2]),
        lambda t: torch.trapezoid(t),
        lambda t: t.diff(dim=1),
        lambda t: t.quantile(0.3, 1),
        lambda t: t.unflatten(1, (2, 3)).movedim(0, -1).contiguous(),
        lambda t: torch.repeat_interleave(t, 2, 1),
        lambda t: torch.cross(t[:, :3], t[:, 3:], dim=1),
        lambda t: torch.block_diag(t, t[:1]),
        lambda t: torch.tensor([1.0, NAN]).nan_to_num(),
        lambda t: torch.isin(index, torch.tensor([2, 5])),
    ]  # fmt: skip
    same(lambda t: [f(t) for f in functions], x, tolerance=2e-6)


def test_max_unpooling_keeps_the_memory_format() -> None:
    x = torch.randn(2, 3, 4, 4)
    for image in (x, x.contiguous(memory_format=torch.channels_last)):
        pooled, index = F.max_pool2d(image, 2, return_indices=True)
        same(lambda a, i: F.max_unpool2d(a, i, 2), pooled, index)


def test_a_copy_of_a_view_by_strides() -> None:
    same(lambda t: torch.as_strided_copy(t, (2, 3), (1, 2), 1), torch.randn(4, 4))


def test_integers_by_fractions() -> None:
    x, a, b = (
        torch.arange(-n, n).reshape(shape)
        for n, shape in ((2, (2, 2)), (6, (3, 2, 2)), (6, (3, 2, 2)))
    )
    same(lambda x, a, b: torch.addbmm(x, a, b, beta=0.6, alpha=2.7), x, a, b)
