"""PyTorch programs on any PJRT device, traced once.

Importing this package loads neither torch nor the C++ core and starts no thread.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def _core() -> Any:
    return importlib.import_module("torch_pjrt._C")


def stats() -> dict[str, int]:
    """Counts since the start of the process or the last `reset_stats()`."""
    return dict(_core().stats())


def reset_stats() -> None:
    """Sets every count of `stats()` to 0."""
    _core().reset_stats()
