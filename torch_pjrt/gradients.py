"""Decompositions of backward ops that torch has none for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor
aten = torch.ops.aten

_SUM, _MEAN, _MAX = range(3)  # modes of embedding_bag


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._embedding_bag_backward.default: _embedding_bag,
        aten._embedding_bag_per_sample_weights_backward.default: _embedding_bag_weights,
        aten.masked_scatter_backward.default: _masked_scatter,
        aten.rrelu_with_noise_backward.default: _rrelu,
        aten.replication_pad1d_backward.default: _replication_pad,
        aten.replication_pad2d_backward.default: _replication_pad,
        aten.replication_pad3d_backward.default: _replication_pad,
    }


def _opmath(t: Tensor) -> Tensor:
    """In the dtype in which sums are taken: float32 for the 16-bit ones."""
    return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t


def _embedding_bag(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int | torch.SymInt,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Any:
    """The gradient of the table, from that of the bags [bags, size]."""
    zeros = _opmath(grad.new_zeros(())).expand(num_weights, grad.shape[1])
    if mode == _MAX:
        # Each element of a bag has a row of its own; an empty bag has none.
        values = torch.where((bag_size > 0).unsqueeze(1), _opmath(grad), 0.0)
        columns = torch.arange(grad.shape[1]).expand(grad.shape)
        total = zeros.index_put((maximum_indices, columns), values, accumulate=True)
        return total.to(grad.dtype)
    rows = _opmath(grad)
    if mode == _MEAN:
        rows = rows / bag_size.clamp(min=1).unsqueeze(1)
    rows = rows.index_select(0, offset2bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        one = torch.ones_like(indices)
        uses = torch.zeros(num_weights, dtype=indices.dtype).index_put((indices,), one, True)
        rows = rows / uses.index_select(0, indices).unsqueeze(1)
    rows = torch.where((indices != padding_idx).unsqueeze(1), rows, 0.0)
    if sparse:
        return torch.sparse_coo_tensor(
            indices.unsqueeze(0),
            rows.to(grad.dtype),
            (num_weights, grad.shape[1]),  # type: ignore[arg-type]
            check_invariants=False,
        )
    return zeros.index_put((indices,), rows, accumulate=True).to(grad.dtype)


def _embedding_bag_weights(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    """The gradient of per_sample_weights: <row, gradient of its bag>."""
    rows = _opmath(weight).index_select(0, indices)
    products = (rows * _opmath(grad).index_select(0, offset2bag)).sum(1)
    return torch.where(indices != padding_idx, products, 0.0).to(grad.dtype)


def _masked_scatter(
    grad_output: Tensor, mask: Tensor, sizes: Sequence[int | torch.SymInt]
) -> Tensor:
    """Of the source: the gradients where the mask is true, and zeros behind them."""
    grad, here = (t.reshape(-1) for t in torch.broadcast_tensors(grad_output, mask))
    source = grad.new_zeros(sizes)
    count = source.numel()
    # One place more takes what isn't the source's.
    place = torch.where(here, here.to(torch.int64).cumsum(0) - 1, count).clamp(max=count)
    return grad.new_zeros(count + 1).index_put((place,), grad)[:count].view(source.shape)


def _rrelu(
    grad_output: Tensor,
    self: Tensor,
    noise: Tensor,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> Tensor:
    if training:
        return grad_output * noise
    return torch.where(self > 0, grad_output, grad_output * ((lower + upper) / 2))


def _replication_pad(grad_output: Tensor, self: Tensor, padding: Sequence[int]) -> Tensor:
    """Each element gets the gradients of all its copies."""
    total = _opmath(grad_output)
    for k in range(len(padding) // 2):
        before, after = padding[2 * k : 2 * k + 2]
        dim = self.dim() - 1 - k
        size = self.shape[dim]
        source = torch.arange(-before, size + after).clamp(0, size - 1)
        shape = list(total.shape)
        shape[dim] = size
        total = total.new_zeros(shape).index_add(dim, source, total)
    return total.to(grad_output.dtype)
