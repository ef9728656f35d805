"""Random ops of ATen in terms of random_ops, with eager's types, strides and distributions.

A rewrite that returns NotImplemented leaves its op in the graph, where the error names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import checks, random_ops, torch_internals
from .errors import failure
from .random_ops import Device, Size
from .torch_internals import OpOverload

aten = torch.ops.aten
Make = Callable[[Sequence[Size]], Tensor]
Rewrite = Callable[..., Any]

_TABLE: dict[OpOverload, Rewrite] = {}


def table() -> dict[OpOverload, Rewrite]:
    """Random op -> its rewrite."""
    return dict(_TABLE)


def _of(*ops: OpOverload) -> Callable[[Rewrite], Rewrite]:
    def register(rewrite: Rewrite) -> Rewrite:
        _TABLE.update(dict.fromkeys(ops, rewrite))
        return rewrite

    return register


def _supported(dtype: torch.dtype, options: dict[str, Any]) -> bool:
    """Whether the tensor is one of floats, made by the default generator."""
    return dtype.is_floating_point and _is_default(options)


def _is_default(options: dict[str, Any]) -> bool:
    device = options.get("device")
    return (
        options.get("generator") is None
        and (device is None or torch.device(device).type in ("cpu", "pjrt"))
        and options.get("layout") in (None, torch.strided)
    )


def like(tensor: Tensor, make: Make, memory_format: torch.memory_format | None = None) -> Tensor:
    """What `make` gives for a size, with the shape and the memory order of empty_like(tensor)."""
    order = torch_internals.memory_order(tensor, memory_format or torch.preserve_format)
    if order == sorted(order):
        return make(tensor.shape)
    back = [order.index(dim) for dim in range(len(order))]
    return make([tensor.shape[dim] for dim in order]).permute(back)


def _computed(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which eager computes the elements of one of that dtype."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def _check_as_eager(dtype: torch.dtype, fill: str, *numbers: Any) -> None:
    """Raises what eager's in-place op, e.g. uniform_, raises for these numbers and that dtype."""
    if any(isinstance(number, torch.SymInt | torch.SymFloat) for number in numbers):
        return
    try:
        with torch_internals.real_tensors():
            getattr(torch.empty(0, dtype=dtype, device="cpu"), fill)(*numbers)
    except RuntimeError as error:
        raise failure(
            "invalid", what=str(error), remedy="pass arguments that eager takes"
        ) from None


def _last_integer(dtype: torch.dtype) -> int:
    """The greatest number up to which the dtype holds every integer from 0."""
    if dtype == torch.bool:
        return 1
    if dtype.is_floating_point:
        return int(2 / torch.finfo(dtype).eps)
    return torch.iinfo(dtype).max


# --- of a size, and like a tensor

Sample = Callable[[Sequence[Size], torch.dtype, Device], Tensor]


def _of_size(sample: Sample) -> Rewrite:
    def rewrite(size: Sequence[Size], *, dtype: torch.dtype | None = None, **options: Any) -> Any:
        dtype = dtype or torch.get_default_dtype()
        if not _supported(dtype, options):
            return NotImplemented
        return sample(size, dtype, options.get("device"))

    return rewrite


def _of_like(sample: Sample) -> Rewrite:
    def rewrite(
        self: Tensor,
        *,
        dtype: torch.dtype | None = None,
        memory_format: torch.memory_format | None = None,
        **options: Any,
    ) -> Any:
        dtype = dtype or self.dtype
        if not _supported(dtype, options):
            return NotImplemented
        device = options.get("device") or self.device
        return like(self, lambda size: sample(size, dtype, device), memory_format)

    return rewrite


_of(aten.rand.default, aten.rand.generator)(_of_size(random_ops.uniform))
_of(aten.rand_like.default, aten.rand_like.generator)(_of_like(random_ops.uniform))
_of(aten.randn.default, aten.randn.generator)(_of_size(random_ops.normal))
_of(aten.randn_like.default, aten.randn_like.generator)(_of_like(random_ops.normal))


# --- uniform


@_of(aten.uniform.default)
def _uniform(self: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    if not _supported(self.dtype, {"generator": generator}):
        return NotImplemented
    _check_as_eager(self.dtype, "uniform_", low, high)
    values = like(self, lambda size: random_ops.uniform(size, self.dtype, self.device))
    if (low, high) == (0, 1):
        return values
    return (values.to(_computed(self.dtype)) * (high - low) + low).to(self.dtype)


@_of(aten.exponential.default)
def _exponential(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Any:
    if not _supported(self.dtype, {"generator": generator}):
        return NotImplemented
    values = like(self, lambda size: random_ops.uniform(size, _computed(self.dtype), self.device))
    # Never 0, as in eager: it serves as a divisor.
    least = torch.finfo(self.dtype).eps / 2
    return ((-torch.log1p(-values)).clamp(min=least) / lambd).to(self.dtype)


@_of(aten.geometric.default)
def _geometric(self: Tensor, p: float, *, generator: Any = None) -> Any:
    if not _is_default({"generator": generator}) or self.dtype.is_complex:
        return NotImplemented
    values = like(self, lambda size: random_ops.uniform(size, _computed(self.dtype), self.device))
    log_of_failure = math.log1p(-p) if p < 1 else -math.inf
    return (torch.log1p(-values) / log_of_failure).ceil().clamp(min=1).to(self.dtype)


@_of(aten.cauchy.default)
def _cauchy(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
    if not _supported(self.dtype, {"generator": generator}):
        return NotImplemented
    values = like(self, lambda size: random_ops.uniform(size, _computed(self.dtype), self.device))
    angle = (values - 0.5) * math.pi
    return (angle.sin() / angle.cos() * sigma + median).to(self.dtype)


# --- normal


def _scaled(values: Tensor, mean: float | Tensor, std: float | Tensor) -> Tensor:
    if not isinstance(std, float) or std != 1:
        values = values * std
    return values if isinstance(mean, float) and mean == 0 else values + mean


@_of(aten.normal_functional.default)
def _normal_like(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> Any:
    if not _supported(self.dtype, {"generator": generator}):
        return NotImplemented
    values = like(self, lambda size: random_ops.normal(size, _computed(self.dtype), self.device))
    return _scaled(values, mean, std).to(self.dtype)


@_of(aten.log_normal.default)
def _log_normal(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
    if not _supported(self.dtype, {"generator": generator}):
        return NotImplemented
    values = like(self, lambda size: random_ops.normal(size, _computed(self.dtype), self.device))
    return _scaled(values, mean, std).exp().to(self.dtype)


@_of(aten.normal.float_float)
def _normal(
    mean: float,
    std: float,
    size: Sequence[Size],
    *,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Any:
    dtype = dtype or torch.get_default_dtype()
    if not _supported(dtype, options):
        return NotImplemented
    device = options.get("device")
    return _scaled(random_ops.normal(size, _computed(dtype), device), mean, std).to(dtype)


@_of(aten.normal.Tensor_float, aten.normal.float_Tensor, aten.normal.Tensor_Tensor)
def _normal_of_tensors(
    mean: float | Tensor, std: float | Tensor = 1.0, *, generator: Any = None
) -> Any:
    tensors = [given for given in (mean, std) if isinstance(given, Tensor)]
    dtype = tensors[0].dtype
    if not _supported(dtype, {"generator": generator}):
        return NotImplemented
    size = torch.broadcast_shapes(*(given.shape for given in tensors))
    device = tensors[0].device
    if isinstance(std, Tensor):
        std = checks.checked(std, ~(std >= 0), "normal expects all elements of std >= 0.0")
    return _scaled(random_ops.normal(size, _computed(dtype), device), mean, std).to(dtype)


# --- integers


@_of(aten.randint.default, aten.randint.generator)
def _randint(high: Size, size: Sequence[Size], **options: Any) -> Any:
    return _randint_from(0, high, size, **options)


@_of(aten.randint.low, aten.randint.low_generator)
def _randint_from(
    low: Size,
    high: Size,
    size: Sequence[Size],
    *,
    dtype: torch.dtype | None = torch.int64,
    **options: Any,
) -> Any:
    dtype = dtype or torch.int64
    if not _is_default(options) or dtype.is_complex:
        return NotImplemented
    _check_as_eager(dtype, "random_", low, high)
    if isinstance(high, torch.SymInt) and high - 1 > _last_integer(dtype):
        return NotImplemented
    return random_ops.integers(size, low, high - 1, options.get("device")).to(dtype)


@_of(aten.randint_like.default, aten.randint_like.generator)
def _randint_like(self: Tensor, high: Size, **options: Any) -> Any:
    return _randint_like_from(self, 0, high, **options)


@_of(aten.randint_like.low_dtype, aten.randint_like.low_generator_dtype)
def _randint_like_from(
    self: Tensor,
    low: Size,
    high: Size,
    *,
    dtype: torch.dtype | None = None,
    memory_format: torch.memory_format | None = None,
    **options: Any,
) -> Any:
    dtype = dtype or self.dtype
    if not _is_default(options) or dtype.is_complex:
        return NotImplemented
    device = options.get("device") or self.device
    return like(
        self,
        lambda size: _randint_from(low, high, size, dtype=dtype, device=device),
        memory_format,
    )


# aten::random.from has no rewrite: torch can't write a graph with an op of that name.
@_of(aten.random.default, aten.random.to)
def _random(self: Tensor, to: int | None = None, *, generator: Any = None) -> Any:
    if not _is_default({"generator": generator}) or self.dtype.is_complex:
        return NotImplemented
    _check_as_eager(self.dtype, "random_", 0, to)
    last = _last_integer(self.dtype) if to is None else to - 1
    return like(self, lambda size: random_ops.integers(size, 0, last, self.device).to(self.dtype))


@_of(aten.randperm.default, aten.randperm.generator)
def _randperm(n: Size, *, dtype: torch.dtype | None = torch.int64, **options: Any) -> Any:
    dtype = dtype or torch.int64
    if not _is_default(options) or dtype.is_complex:
        return NotImplemented
    if n > _last_integer(dtype):
        raise failure(
            "invalid", what=f"randperm({n}) doesn't fit into {dtype}", remedy="use torch.int64"
        )
    return random_ops.permutation(n, options.get("device")).to(dtype)


# --- categories and counts

_NO_WEIGHT = "probability tensor contains either `inf`, `nan` or element < 0"
_NO_WEIGHTS = "invalid multinomial distribution (sum of probabilities <= 0)"
_MULTINOMIAL = "invalid multinomial distribution (encountering probability entry "


@_of(aten.multinomial.default)
def _multinomial(
    self: Tensor, num_samples: Size, replacement: bool = False, *, generator: Any = None
) -> Any:
    if not _supported(self.dtype, {"generator": generator}):
        return NotImplemented
    weights = self
    if replacement and num_samples != 1:
        weights = checks.checked(weights, ~(weights >= 0), _MULTINOMIAL + "< 0)")
        infinite = ~(weights < math.inf)
        weights = checks.checked(weights, infinite, _MULTINOMIAL + "= infinity or NaN)")
    else:
        weights = checks.checked(weights, ~((weights >= 0) & (weights < math.inf)), _NO_WEIGHT)
    weights = checks.checked(weights, weights.double().sum(-1) <= 0, _NO_WEIGHTS)
    if replacement and num_samples != 1:
        below = weights.double().cumsum(-1)
        values = random_ops.uniform([*self.shape[:-1], num_samples], torch.float64, self.device)
        return torch.searchsorted(below / below[..., -1:], values, right=True)
    # The first arrivals of events with these rates.
    rates = weights.to(_computed(self.dtype))
    keys = rates / _exponential(torch.empty_like(rates, memory_format=torch.contiguous_format))
    if num_samples == 1:
        return keys.argmax(-1, keepdim=True)
    return keys.topk(num_samples, -1)[1]


@_of(aten.poisson.default)
def _poisson(self: Tensor, generator: Any = None) -> Any:
    if not _supported(self.dtype, {"generator": generator}):
        return NotImplemented
    message = "invalid Poisson rate, expected rate to be non-negative"
    rate = checks.checked(self, ~(self >= 0), message)
    return random_ops.poisson(rate.double().contiguous()).to(self.dtype)


@_of(aten.binomial.default)
def _binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Any:
    if not _supported(count.dtype, {"generator": generator}):
        return NotImplemented
    chance = prob.double().expand(count.shape)
    return random_ops.binomial(count.double().contiguous(), chance).to(count.dtype)


# --- bernoulli, whose results are contiguous in eager too; and dropout


_NO_PROBABILITY = (
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
    "improved?  If so, please report an enhancement request to PyTorch.)"
)


@_of(aten.bernoulli.p)
def _bernoulli(self: Tensor, p: float, *, generator: Any = None) -> Any:
    if not _is_default({"generator": generator}):
        return NotImplemented
    _check_as_eager(self.dtype, "bernoulli_", p)
    return random_ops.bernoulli(self.shape, p, self.device).to(self.dtype)


@_of(aten.bernoulli.default)
def _bernoulli_of_self(self: Tensor, *, generator: Any = None) -> Any:
    return _bernoulli_of(self, self, generator=generator)


@_of(aten.bernoulli.Tensor)
def _bernoulli_of(self: Tensor, p: Tensor, *, generator: Any = None) -> Any:
    if not _is_default({"generator": generator}):
        return NotImplemented
    p = checks.checked(p, ~((p >= 0) & (p <= 1)), _NO_PROBABILITY)
    values = random_ops.uniform(self.shape, _computed(p.dtype), self.device)
    return (values < p).to(self.dtype, memory_format=torch.contiguous_format)


def dropout_noise(mask: Tensor, keep: float, dtype: torch.dtype) -> Tensor:
    """1 / keep where the mask is true, else 0; rounded as eager rounds it."""
    one = torch.ones((), dtype=dtype)
    return torch.where(mask, one / keep, torch.zeros((), dtype=dtype))


@_of(aten.native_dropout.default)
def _native_dropout(self: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False or p == 0:
        return self.clone(), torch.ones_like(self, dtype=torch.bool)
    mask = like(self, lambda size: random_ops.bernoulli(size, 1 - p, self.device))
    return self * dropout_noise(mask, 1 - p, self.dtype), mask


@_of(aten.native_dropout_backward.default)
def dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    # The factor of the forward, whatever `scale` is rounded to.
    return grad * dropout_noise(mask, 1 / scale if scale else math.inf, grad.dtype)


@_of(aten.rrelu_with_noise_functional.default)
def _rrelu_with_noise(
    self: Tensor,
    noise: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    if not _supported(self.dtype, {"generator": generator}):
        return NotImplemented
    zero = torch.zeros((), dtype=self.dtype)
    if not training:
        return torch.where(self > zero, self, self * ((lower + upper) / 2)), noise
    slopes = _uniform(self, lower, upper)
    is_negative = self <= zero
    slopes = torch.where(is_negative, slopes, torch.ones((), dtype=self.dtype))
    return self * slopes, slopes
