"""The dtypes and kinds of tensors that a Graph can hold."""

from __future__ import annotations

import torch

from .errors import failure

DTYPES = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
}


def dtype_name(dtype: torch.dtype, where: str, source: str) -> str:
    """The core's name. Raises Error (unsupported) saying `where` it is and the user's line."""
    name = DTYPES.get(dtype)
    if name is None:
        raise failure(
            "unsupported",
            what=f"{where} has dtype {dtype}",
            at=source,
            remedy=f"convert it first, e.g. by .to({_nearest(dtype)}); these are supported: "
            + ", ".join(str(d).removeprefix("torch.") for d in DTYPES),
        )
    return name


def _nearest(dtype: torch.dtype) -> torch.dtype:
    """A supported dtype that holds the elements of one that isn't."""
    if dtype.is_complex:
        return torch.complex64
    if dtype.is_floating_point:
        return torch.float32
    return torch.int32 if dtype.itemsize <= 2 else torch.int64


def problem(tensor: torch.Tensor) -> tuple[str, str] | None:
    """What keeps a tensor from being one of ours, and the remedy."""
    if tensor.layout is not torch.strided:
        return f"has layout {tensor.layout}", "make it dense first: .to_dense()"
    if tensor.device.type == "meta":
        return "is a meta tensor, which has no data", "make a real one: module.to_empty(device=...)"
    if tensor.device.type not in ("cpu", "pjrt"):
        return f"is on device {tensor.device}", 'move it first: .cpu() or .to("pjrt")'
    return None
