"""The warning about inputs that are copied at each call because of where they lie in memory."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from . import _C  # isort: skip

__all__ = ["CopyWarning", "listed", "users_frame", "warn"]


class CopyWarning(UserWarning):
    """Inputs are copied at each call. The message names them and says how to avoid it."""


_SHOWN = 5  # names in a message
# Whose frames are not the user's: torch's, ours, and code that torch.fx makes.
_NOT_THE_USERS = (
    *(str(Path(module).parent) + os.sep for module in (torch.__file__, __file__)),
    "<eval_with_key>",
)

# What the core says -> what is wrong with the inputs, and what to do.
_REASONS = {
    "not aligned": (
        f"their addresses are not multiples of {_C.HOST_ALIGNMENT}",
        "torch_pjrt.align_(model) moves parameters and buffers once and for all; pass a .clone() "
        "of another tensor",
    ),
    "lazy": (
        "they are conjugated, negated or zero in name only",
        "pass .resolve_conj().resolve_neg() of them, made once",
    ),
    "not dense": (
        "there are gaps between their elements, or elements share memory",
        "pass them as .contiguous(), made once",
    ),
    "overlaps": (
        "they are written to and overlap other inputs in memory",
        "pass tensors with memory of their own",
    ),
    "device memory": (
        "the plugin has memory of its own",
        "none that is needed: the results are right, and each call costs these transfers",
    ),
}


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def warn(copied: Sequence[tuple[str, str]]) -> None:
    """Called by the core at the end of the first call that copies them: (name, reason) each."""
    for reason, (problem, remedy) in _REASONS.items():
        names = [name for name, why in copied if why == reason]
        if names:
            warnings.warn(
                f"inputs are copied at each call because {problem}: {listed(names)}\n"
                f"  remedy: {remedy}",
                CopyWarning,
                stacklevel=users_frame(),
            )


def users_frame() -> int:
    """The stack level, seen from the caller, of the innermost frame of the user's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    return level
