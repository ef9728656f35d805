"""The entries of PyTorch's OpInfo database, and samples of them as functions of their tensors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

# The dtypes that are tried beside float32, with so many samples of each.
OTHER_DTYPES = (
    torch.int64,
    torch.bool,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.complex64,
)
OTHERS_TRIED = 3

# The test of PyTorch's from which its tolerances are taken.
_PEERS = (("TestCommon", "test_compare_cpu"), ("TestInductorOpInfo", "test_comprehensive"))
# Their results are memory as it was found.
_UNINITIALISED = frozenset(
    ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
)

Function = Callable[..., Any]


# Where the dim stands in the arguments of ops that give elements and their places in it.
_DIM_ARGUMENT = {"kthvalue": 1, "median": 0, "mode": 0, "nanmedian": 0, "sort": 0, "topk": 1}


@dataclass(frozen=True)
class Sample:
    """One call: `function(*tensors)`; all arguments that are no tensors are part of it.
    `on_device`: the same where it makes tensors on device="pjrt". `dim`: along which the second
    result has the places of the elements of the first."""

    function: Function
    tensors: list[torch.Tensor]
    on_device: Function
    dim: int | None = None


class Entry:
    """One OpInfo. `key`: its name, with its variant if it has one."""

    def __init__(self, info: Any) -> None:
        self._info = info
        variant = info.variant_test_name
        self.key: str = f"{info.name}.{variant}" if variant else info.name

    @property
    def aten_name(self) -> str:
        return str(self._info.aten_name or self._info.name)

    @property
    def has_values(self) -> bool:
        return self._info.name not in _UNINITIALISED

    def dtypes(self) -> list[torch.dtype]:
        """Those of its CPU kernels that are tried, float32 first."""
        known = self._info.supported_dtypes("cpu")
        return [dtype for dtype in (torch.float32, *OTHER_DTYPES) if dtype in known]

    def has_backward(self, dtype: torch.dtype) -> bool:
        return self._info.supports_autograd and dtype in self._info.supported_backward_dtypes("cpu")

    def samples(self, dtype: torch.dtype, *, gradients: bool = False) -> Iterator[Sample]:
        """The same at each call."""
        seed(0)
        for sample in self._info.sample_inputs("cpu", dtype, requires_grad=gradients):
            seed(0)  # for what a sample is made of, whatever ran in between
            yield self._sample((sample.input, *sample.args), sample.kwargs)

    def _sample(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sample:
        leaves, spec = tree_flatten((args, kwargs))
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        moved = ["pjrt" if _is_cpu(leaf) else leaf for leaf in leaves]
        place = _DIM_ARGUMENT.get(self._info.name)
        dim = None
        if place is not None:
            dim = kwargs.get("dim", args[1 + place] if len(args) > 1 + place else -1)

        def call(leaves: list[Any]) -> Function:
            def function(*tensors: torch.Tensor) -> Any:
                filled = list(leaves)
                for place, tensor in zip(places, tensors, strict=True):
                    filled[place] = tensor
                args, kwargs = tree_unflatten(filled, spec)
                return self._info.op(*args, **kwargs)

            return function

        return Sample(call(leaves), [leaves[place] for place in places], call(moved), dim)

    def tolerance(self, dtype: torch.dtype) -> tuple[float, float]:
        """Relative and absolute: assert_close's, or what PyTorch's tests of the entry allow."""
        rtol, atol = torch.testing._comparison.default_tolerances(dtype)
        for suite, test in _PEERS:
            for decorate in self._info.get_decorators(suite, test, "cpu", dtype, {}):
                if isinstance(decorate, toleranceOverride) and dtype in decorate.d:
                    given = decorate.d[dtype]
                    rtol, atol = max(rtol, given.rtol), max(atol, given.atol)
        return rtol, atol


def _is_cpu(leaf: Any) -> bool:
    return isinstance(leaf, torch.device | str) and str(leaf) == "cpu"


def seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(number)


def entries() -> dict[str, Entry]:
    """By key, in the database's order."""
    return {entry.key: entry for entry in map(Entry, op_db)}
