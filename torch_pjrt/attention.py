"""Scaled dot-product attention as plain ops, forward and backward.

torch's own decomposition covers the forward alone, and gives no usable logsumexp for the backward.
The two here compute the same scores, so that they are one value when forward and backward are one
graph, and whoever cuts it decides whether to keep the probabilities or to compute them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._scaled_dot_product_flash_attention_for_cpu.default: _forward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _backward,
    }


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Output [batch, heads, queries, size], laid out as the query; logsumexp, as by position."""
    weights, divisor, logsumexp = _weights(_scores(query, key, is_causal, attn_mask, scale))
    # One exp for each score, and a division for each output instead of one for each score.
    output = weights @ _for_all_heads(value, query) / divisor
    return _laid_out(output.to(query.dtype), query), _by_position(logsumexp)


def _backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, each laid out by position.

    Neither `out` nor `logsumexp` is read. A probability exp(score - logsumexp) would have the
    rounding error of logsumexp, which is large where the scores are. And where one probability is
    nearly 1, the gradient of its score is a difference of nearly equal numbers, both of which have
    to come from the same products.
    """
    weights, divisor, _ = _weights(_scores(query, key, is_causal, attn_mask, scale))
    weights = weights / divisor
    grad = grad_out.to(weights.dtype)
    grad_weights = grad @ _for_all_heads(value, query).mT
    # What softmax takes away from each row's gradient.
    shared = (weights * grad_weights).sum(-1, keepdim=True)
    grad_scores = weights * (grad_weights - shared) * _scale(query, scale)
    grad_query = grad_scores @ _for_all_heads(key, query)
    grad_key = _for_own_heads(grad_scores.mT @ query.to(grad.dtype), key)
    grad_value = _for_own_heads(weights.mT @ grad, value)
    return (
        _by_position(grad_query.to(query.dtype)),
        _by_position(grad_key.to(key.dtype)),
        _by_position(grad_value.to(value.dtype)),
    )


def _scale(query: Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def _scores(
    query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, scale: float | None
) -> Tensor:
    """float32 for 16-bit operands, as in the fused kernel."""
    compute = torch.float64 if query.dtype is torch.float64 else torch.float32
    scores = query.to(compute) @ _for_all_heads(key, query).mT * _scale(query, scale)
    if is_causal:
        rows = torch.arange(scores.shape[-2], device=scores.device)[:, None]
        columns = torch.arange(scores.shape[-1], device=scores.device)
        scores = torch.where(columns <= rows, scores, -torch.inf)
    if mask is not None:
        scores = (
            torch.where(mask, scores, -torch.inf)
            if mask.dtype is torch.bool
            else scores + mask.to(compute)
        )
    return scores


def _weights(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The probabilities, but for a divisor for each row; that divisor; and logsumexp."""
    highest = scores.amax(-1, keepdim=True)
    highest = torch.where(highest == -torch.inf, 0.0, highest)  # a row that is masked altogether
    weights = (scores - highest).exp()
    total = weights.sum(-1, keepdim=True)
    logsumexp = (total.log() + highest).squeeze(-1)
    return weights, torch.where(total == 0, 1.0, total), logsumexp


def _for_all_heads(t: Tensor, query: Tensor) -> Tensor:
    """A key or value with a head for each of the query's, in the type of the scores."""
    t = t.to(torch.float64 if query.dtype is torch.float64 else torch.float32)
    batch, heads, positions, size = t.shape
    if heads == query.shape[1]:
        return t
    repeats = query.shape[1] // heads
    shared = t.unsqueeze(2).expand(batch, heads, repeats, positions, size)
    return shared.reshape(batch, heads * repeats, positions, size)


def _for_own_heads(grad: Tensor, t: Tensor) -> Tensor:
    """The sum over the query's heads that share one of `t`'s."""
    heads = t.shape[1]
    if heads == grad.shape[1]:
        return grad
    return grad.unflatten(1, (heads, grad.shape[1] // heads)).sum(2)


def _laid_out(t: Tensor, like: Tensor) -> Tensor:
    """The same tensor with its dims in memory in the order of `like`'s, without gaps."""
    order = sorted(range(t.dim()), key=lambda dim: -like.stride()[dim])
    return t.permute(order).contiguous().permute([order.index(dim) for dim in range(t.dim())])


def _by_position(t: Tensor) -> Tensor:
    """The same tensor with memory ordered by batch, position, head."""
    return t.transpose(1, 2).contiguous().transpose(1, 2)
