"""align_(): moves weights, once, to memory that programs can use as it lies."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch

from .copies import CopyWarning, listed
from .errors import failure

from . import _C  # isort: skip

__all__ = ["align_"]

T = TypeVar("T")


def align_(target: T, *, unshare: bool = False) -> T:
    """Moves tensors that no program can use in place to addresses that are multiples of 64.

    `target` is a module (its parameters and buffers, and tensors that are plain attributes of it or
    of its submodules), a tensor, or an iterable or mapping of these. Returns it.

    The tensors stay the same objects with the same values, strides, hooks and gradients; whatever
    shares a storage, or overlaps another of these, does so afterwards. What is lost is the tie to
    memory outside of torch: a mapped file (safetensors, torch.load(mmap=True)) or a NumPy array no
    longer sees what is written to the tensor, nor the other way round. That old memory is freed
    with the new. Memory that is shared with other processes raises Error (invalid) unless
    `unshare`.

    Tensors on another device, sparse ones and tensor subclasses are left alone. Views of one
    storage that can't all be aligned together are named in a CopyWarning. No compiled function
    may use the tensors during the call.
    """
    named = list(_tensors(target, ""))
    crooked = [(name, tensor) for name, tensor in named if _is_crooked(tensor)]
    shared = [name for name, tensor in crooked if tensor.is_shared()]
    if shared and not unshare:
        raise failure(
            "invalid",
            what="these tensors are shared with other processes, or are a mapped file: "
            + listed(shared),
            remedy="pass unshare=True to give each process a copy of its own",
        )
    if not crooked:
        return target
    _C.align([tensor for _, tensor in named])
    left = [name for name, tensor in named if _is_crooked(tensor)]
    if left:
        warnings.warn(
            "views of one storage that can't all be aligned together: " + listed(left) + "\n"
            "  remedy: give them storages of their own, if nothing depends on the shared one",
            CopyWarning,
            stacklevel=2,
        )
    return target


def _is_crooked(tensor: torch.Tensor) -> bool:
    """Whether a program would have to copy the tensor for its address."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.numel() == 0:
        return False
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return False  # its memory isn't its own
    if tensor.untyped_storage().nbytes() == 0:
        return False  # its memory was given back by resize_(0)
    return tensor.data_ptr() % _C.HOST_ALIGNMENT != 0


def _tensors(target: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors of the target, by name."""
    if isinstance(target, torch.Tensor):
        yield name or "the tensor", target
    elif isinstance(target, torch.nn.Module):
        for prefix, module in target.named_modules(prefix=name):
            held = {**module._parameters, **module._buffers, **vars(module)}
            for key, value in held.items():
                if isinstance(value, torch.Tensor):
                    yield _join(prefix, key), value
    elif isinstance(target, Mapping):
        for key, value in target.items():
            yield from _tensors(value, _join(name, str(key)))
    elif isinstance(target, Iterable) and not isinstance(target, str | bytes):
        for index, value in enumerate(target):
            yield from _tensors(value, _join(name, str(index)))
    else:
        raise failure(
            "invalid",
            what=f"align_ takes a module or tensors, got a {type(target).__name__}",
            remedy="pass a module, a tensor, or an iterable of these",
        )


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
