"""The ops that random ops become: draws, and pure functions of them.

A draw stands for two random numbers that a call takes from its device's default generator. They
name a stream of random bits, of which the other ops make tensors on that device: equal draws give
equal tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from .torch_internals import OpOverload

__all__ = [
    "bernoulli",
    "binomial",
    "integers",
    "is_draw",
    "is_random",
    "normal",
    "permutation",
    "poisson",
    "uniform",
]

Size = int | torch.SymInt
Device = torch.device | None  # None: the CPU

_library = torch.library.Library("torch_pjrt", "DEF")
# Each draw has a site of its own, so that no two of a graph are taken for one.
_library.define(
    "draw(int site, *, Device? device=None) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag),
)
for _schema in (
    "random_bernoulli(Tensor draw, SymInt[] size, float p) -> Tensor",
    "random_binomial(Tensor draw, Tensor count, Tensor chance) -> Tensor",
    "random_integers(Tensor draw, SymInt[] size, SymInt low, SymInt last) -> Tensor",
    "random_normal(Tensor draw, SymInt[] size, *, ScalarType dtype) -> Tensor",
    "random_permutation(Tensor draw, SymInt n) -> Tensor",
    "random_poisson(Tensor draw, Tensor rate) -> Tensor",
    "random_uniform(Tensor draw, SymInt[] size, *, ScalarType dtype) -> Tensor",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))

_ops = torch.ops.torch_pjrt
_sites = itertools.count()


@torch.library.register_fake("torch_pjrt::draw", lib=_library)
def _draw_type(site: int, *, device: torch.device | None = None) -> torch.Tensor:
    return torch.empty(2, dtype=torch.int64, device=device or "cpu")


@torch.library.register_fake("torch_pjrt::random_bernoulli", lib=_library)
def _bernoulli_type(draw: torch.Tensor, size: Sequence[Size], p: float) -> torch.Tensor:
    return draw.new_empty(size, dtype=torch.bool)


@torch.library.register_fake("torch_pjrt::random_binomial", lib=_library)
def _binomial_type(draw: torch.Tensor, count: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    return count.new_empty(count.shape)


@torch.library.register_fake("torch_pjrt::random_poisson", lib=_library)
def _poisson_type(draw: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    return rate.new_empty(rate.shape)


@torch.library.register_fake("torch_pjrt::random_integers", lib=_library)
def _integers_type(draw: torch.Tensor, size: Sequence[Size], low: Size, last: Size) -> torch.Tensor:
    return draw.new_empty(size)


@torch.library.register_fake("torch_pjrt::random_permutation", lib=_library)
def _permutation_type(draw: torch.Tensor, n: Size) -> torch.Tensor:
    return draw.new_empty([n])


@torch.library.register_fake("torch_pjrt::random_normal", lib=_library)
@torch.library.register_fake("torch_pjrt::random_uniform", lib=_library)
def _float_type(draw: torch.Tensor, size: Sequence[Size], *, dtype: torch.dtype) -> torch.Tensor:
    return draw.new_empty(size, dtype=dtype)


def is_draw(op: object) -> bool:
    """Whether the op of a graph's node is a draw."""
    return op is _ops.draw.default


def is_random(op: object) -> bool:
    """Whether the op takes numbers from a generator: a draw, or a random op of ATen."""
    return isinstance(op, OpOverload) and torch.Tag.nondeterministic_seeded in op.tags


def _draw(device: Device) -> torch.Tensor:
    return _ops.draw(next(_sites), device=device)


def bernoulli(size: Sequence[Size], p: float, device: Device = None) -> torch.Tensor:
    """A bool tensor, true with probability p (to within 2**-32)."""
    return _ops.random_bernoulli(_draw(device), size, p)


def binomial(count: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    """Successes among `count` trials, each with probability `chance`; all float64, of one shape."""
    return _ops.random_binomial(_draw(count.device), count, chance)


def integers(size: Sequence[Size], low: Size, last: Size, device: Device = None) -> torch.Tensor:
    """An int64 tensor, even over low to last, both included."""
    return _ops.random_integers(_draw(device), size, low, last)


def normal(size: Sequence[Size], dtype: torch.dtype, device: Device = None) -> torch.Tensor:
    """Mean 0, standard deviation 1."""
    return _ops.random_normal(_draw(device), size, dtype=dtype)


def permutation(n: Size, device: Device = None) -> torch.Tensor:
    """An int64 tensor of 0 to n - 1 in random order."""
    return _ops.random_permutation(_draw(device), n)


def poisson(rate: torch.Tensor) -> torch.Tensor:
    """Events where `rate` are expected; both float64."""
    return _ops.random_poisson(_draw(rate.device), rate)


def uniform(size: Sequence[Size], dtype: torch.dtype, device: Device = None) -> torch.Tensor:
    """Even over [0, 1), multiples of 2**-k where k is the number of the dtype's digits."""
    return _ops.random_uniform(_draw(device), size, dtype=dtype)
