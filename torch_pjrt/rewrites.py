"""Decompositions of our own, for ops that torch has none for: ATen ops in terms of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import torch_internals

aten = torch.ops.aten

_SUM, _MEAN, _MAX = range(3)  # modes of embedding_bag


def _opmath(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which torch's CPU kernels compute."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _adaptive_mean(x: Tensor, dim: int, windows: int) -> Tensor:
    """Means of `windows` windows that cover the dim evenly, overlapping where they must."""
    size = x.shape[dim]
    if size % windows == 0:
        return x.unflatten(dim, (windows, size // windows)).mean(dim + 1)
    size = int(size)  # of the bounds of windows that differ
    bounds = [(k * size // windows, -((-(k + 1) * size) // windows)) for k in range(windows)]
    parts = [x.narrow(dim, start, end - start).mean(dim, keepdim=True) for start, end in bounds]
    return torch.cat(parts, dim)


def _adaptive_avg_pool3d(self: Tensor, output_size: Sequence[int]) -> Tensor:
    x = self.to(_opmath(self.dtype))
    for k, windows in enumerate(output_size):
        x = _adaptive_mean(x, self.dim() - 3 + k, int(windows))
    return x.to(self.dtype)


def _adaptive_max_pool(self: Tensor, output_size: Sequence[int]) -> Any:
    """Maxima of windows that cover the image evenly, and where they stand in it."""
    rank = len(output_size)
    op = aten.adaptive_max_pool2d if rank == 2 else aten.adaptive_max_pool3d
    simple = torch_internals.decomposition(op.default)(self, output_size)
    if simple is not NotImplemented:  # windows of one size, side by side
        return simple
    x, sizes = self, [int(s) for s in self.shape[-rank:]]
    place = torch.zeros((), dtype=torch.int64)
    for k, (size, windows) in enumerate(zip(sizes, output_size, strict=True)):
        number = torch.arange(windows)
        first, end = number * size // windows, ((number + 1) * size + windows - 1) // windows
        widest = max(-(-(w + 1) * size // windows) - w * size // windows for w in range(windows))
        # A window that is less wide ends with its last element over again.
        index = torch.minimum(first.unsqueeze(1) + torch.arange(widest), (end - 1).unsqueeze(1))
        dim = self.dim() - rank + 2 * k
        x = x.index_select(dim, index.view(-1)).unflatten(dim, (windows, widest))
        shape = [1] * (2 * rank)
        shape[2 * k : 2 * k + 2] = windows, widest
        place = place * size + index.view(shape)
    batch = self.dim() - rank
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    x = x.permute([*range(batch), *(batch + d for d in order)]).flatten(-rank)
    place = place.permute(order).flatten(-rank)
    values, nth = x.max(-1)
    return values, place.expand(x.shape).gather(-1, nth.unsqueeze(-1)).squeeze(-1)


def _addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if not (self.is_floating_point() or self.is_complex()):
        alpha, beta = int(alpha), int(beta)  # as eager does
    dtype = _opmath(self.dtype)
    product = torch.bmm(batch1.to(dtype), batch2.to(dtype)).sum(0) * alpha
    # With beta = 0, self isn't read: NaN there counts for nothing.
    return (product if beta == 0 else product + self.to(dtype) * beta).to(self.dtype)


def _cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if x1.shape[-1] == 0:  # of which vector_norm takes no maximum
        return difference.sum(-1)
    # A negative dim is one that torch's shape function takes for empty, where another dim is.
    return torch.linalg.vector_norm(difference, p, difference.dim() - 1)


def _diagonal_scatter(
    self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    places = torch.arange(self.numel()).view(self.shape).diagonal(offset, dim1, dim2)
    return _put(self, places, src)


def _put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = self.reshape(-1)
    written = flat.index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return written.view(self.shape)


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The bags, the bag of each index, each bag's size, and the indices of the maxima.

    A bag's size counts no padding. Eager leaves some of the last three empty.
    """
    count = indices.shape[0]
    starts = (offsets[:-1] if include_last_offset else offsets).to(torch.int64)
    bags = starts.shape[0]
    begun = torch.zeros(count + 1, dtype=torch.int64).index_add(0, starts, torch.ones_like(starts))
    bag = begun.cumsum(0)[:count] - 1
    kept = indices != padding_idx
    size = torch.zeros(bags, dtype=torch.int64).index_add(0, bag, kept.to(torch.int64))
    rows = weight.index_select(0, indices).to(_opmath(weight.dtype))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    shape = (bags, weight.shape[1])
    if mode != _MAX:
        rows = torch.where(kept.unsqueeze(1), rows, 0.0)
        result = torch.zeros(shape, dtype=rows.dtype).index_add(0, bag, rows)
        if mode == _MEAN:
            result = result / size.clamp(min=1).unsqueeze(1)
        return result.to(weight.dtype), bag, size, torch.zeros_like(size)
    spread = bag.unsqueeze(1).expand(rows.shape)
    rows = torch.where(kept.unsqueeze(1), rows, -math.inf)
    top = torch.full(shape, -math.inf, dtype=rows.dtype).scatter_reduce(0, spread, rows, "amax")
    is_top = (rows == top.gather(0, spread)) & kept.unsqueeze(1)
    place = torch.where(is_top, torch.arange(count).unsqueeze(1), count)
    first = torch.full(shape, count).scatter_reduce(0, spread, place, "amin")
    has_any = (size > 0).unsqueeze(1)
    padded = torch.cat([indices.to(torch.int64), torch.zeros(1, dtype=torch.int64)])
    top = torch.where(has_any, top, 0.0)
    return top.to(weight.dtype), bag, size, padded.take(first)


def _embedding_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The table, of whose rows those named and longer than max_norm are scaled to it."""
    rows = self.index_select(0, indices.reshape(-1))
    norms = torch.linalg.vector_norm(rows, norm_type, 1, keepdim=True).double()
    dtype = _opmath(self.dtype)
    scaled = rows.to(dtype) * (max_norm / (norms + 1e-7)).to(dtype)
    rows = torch.where(norms > max_norm, scaled.to(self.dtype), rows)
    # Of a row that is named twice, equal values are written.
    return self.index_put((indices.reshape(-1),), rows)


_KEYS = 1  # mask_type of a mask [N, L] of keys; the others broadcast to [N, heads, L, L]


def _transformer_encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """What torch.nn.TransformerEncoderLayer calls in inference; True in a bool mask hides."""

    def attention(x: Tensor) -> Tensor:
        shape = (*x.shape[:-1], num_heads, embed_dim // num_heads)
        q, k, v = (
            part.view(shape).transpose(-3, -2)
            for part in F.linear(x, qkv_weight, qkv_bias).split(embed_dim, -1)
        )
        scores = (q * (shape[-1] ** -0.5)) @ k.transpose(-2, -1)
        if mask is not None:
            hidden = mask[:, None, None, :] if mask_type == _KEYS else mask
            is_bool = mask.dtype is torch.bool
            scores = scores.masked_fill(hidden, -math.inf) if is_bool else scores + hidden
        y = (scores.softmax(-1) @ v).transpose(-3, -2).reshape(x.shape)
        return F.linear(y, proj_weight, proj_bias)

    def feed_forward(x: Tensor) -> Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def norm_1(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attention(norm_1(src))
        return x + feed_forward(norm_2(x))
    x = norm_1(src + attention(src))
    return norm_2(x + feed_forward(x))


def _trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    product = i1.new_ones(())
    for factor, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in dims:
            factor = factor.unsqueeze(dim)
        product = product * factor
    return product.sum(tuple(sumdim)) if sumdim else product


def _lstm_layer(
    input: Tensor,
    weight0: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    weight3: Tensor,
    hx_: Tensor,
    cx_: Tensor,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> Any:
    """One direction of one layer of an LSTM over [time, batch, features], as torch traces it
    without gradients. The last result is scratch memory of its kernel, which nothing reads."""
    if mode != 2 or num_layers != 1 or bidirectional or batch_first or batch_sizes:
        return NotImplemented
    h, c = hx_[0], cx_[0]
    projected = F.linear(input, weight0, weight2 + weight3 if has_biases else None)
    steps: list[Tensor] = []
    for x in reversed(projected.unbind()) if reverse else projected.unbind():
        i, f, g, o = (x + F.linear(h, weight1)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        steps.append(h)
    y = torch.stack(steps[::-1] if reverse else steps)
    return y, h.unsqueeze(0), c.unsqueeze(0), input.new_empty((0,), dtype=torch.uint8)


def _max_unpool2d(self: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    """torch's decomposition, with the memory format of the input, as in eager."""
    result = torch_internals.decomposition(aten.max_unpool2d.default)(self, indices, output_size)
    return result.contiguous(memory_format=torch_internals.suggested_format(self))


# Of a float type: the integers of its size, and the bits of the mantissa and of the exponent.
_BITS = {torch.float32: (torch.int32, 23, 8), torch.float64: (torch.int64, 52, 11)}


def _frexp(self: Tensor) -> tuple[Tensor, Tensor]:
    """x = mantissa * 2**exponent, of a mantissa in [0.5, 1)."""
    x = self.to(_opmath(self.dtype))
    integers, place, count = _BITS[x.dtype]
    ones = (1 << count) - 1
    bits = x.view(integers)
    raw = (bits >> place) & ones
    is_plain = (raw != 0) & (raw != ones)  # not 0, infinite or NaN
    below = ones // 2 - 1  # what stands for an exponent of 0
    mantissa = ((bits & ~(ones << place)) | (below << place)).view(x.dtype)
    exponent = torch.where(is_plain, raw - below, 0).to(torch.int32)
    return torch.where(is_plain, mantissa, x).to(self.dtype), exponent


OWN: dict[Any, Callable[..., Any]] = {
    aten._adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    aten._cdist_forward.default: _cdist_forward,
    aten._embedding_bag.default: _embedding_bag,
    aten._embedding_bag_forward_only.default: _embedding_bag,
    aten._transformer_encoder_layer_fwd.default: _transformer_encoder_layer,
    aten._trilinear.default: _trilinear,
    aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    aten.adaptive_max_pool3d.default: _adaptive_max_pool,
    aten.addbmm.default: _addbmm,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.embedding_renorm.default: _embedding_renorm,
    aten.frexp.Tensor: _frexp,
    aten.max_unpool2d.default: _max_unpool2d,
    aten.mkldnn_rnn_layer.default: _lstm_layer,
    aten.put.default: _put,
}
