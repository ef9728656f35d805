"""torch.pjrt where another extension holds torch's place for a device from outside."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from .device import unavailable

    raise unavailable()
