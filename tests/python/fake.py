"""The fake plugin's control functions (src/fake_plugin/control.h), for the process's one copy."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

from torch_pjrt import plugins

OPTIONS = {"plugin": "fake"}
RESOURCE_EXHAUSTED = 8


def library() -> ctypes.CDLL:
    """The plugin, loaded; its functions take str as bytes."""
    fake = ctypes.CDLL(plugins.choose("fake"))
    for function, arguments in {
        "set": (ctypes.c_char_p, ctypes.c_int64),
        "fail_with": (ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32),
        "delay": (ctypes.c_char_p, ctypes.c_int64),
        "calls": (ctypes.c_char_p,),
        "live": (ctypes.c_char_p,),
        "running": (),
    }.items():
        entry = getattr(fake, f"torch_pjrt_fake_{function}")
        entry.argtypes = arguments
        entry.restype = (
            ctypes.c_int64 if function in ("calls", "live", "running") else ctypes.c_bool
        )
    return fake


@contextlib.contextmanager
def failing(function: str, code: int) -> Iterator[None]:
    """The next call of a PJRT function fails."""
    fake = library()
    assert fake.torch_pjrt_fake_fail_with(function.encode(), 1, code)
    try:
        yield
    finally:
        fake.torch_pjrt_fake_reset()
