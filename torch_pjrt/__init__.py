"""PyTorch programs on any PJRT device: `torch.compile(model, backend="pjrt")`.

Importing this package checks torch's version. It loads neither torch nor the C++ core, and starts
no thread.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .align import align_
    from .compiler import FallbackWarning
    from .copies import CopyWarning
    from .errors import Error, OutOfMemoryError
    from .explanation import explain
    from .package_load import load
    from .package_save import save
    from .step import ThreeProgramsWarning, train_step

__version__ = "0.1.0"
__all__ = [
    "CopyWarning",
    "Error",
    "FallbackWarning",
    "OutOfMemoryError",
    "ThreeProgramsWarning",
    "__version__",
    "align_",
    "explain",
    "load",
    "reset_stats",
    "save",
    "stats",
    "train_step",
]

# name -> the module that it comes from, imported when it is first asked for
_MODULES = {
    "CopyWarning": "copies",
    "Error": "errors",
    "FallbackWarning": "compiler",
    "OutOfMemoryError": "errors",
    "ThreeProgramsWarning": "step",
    "align_": "align",
    "explain": "explanation",
    "load": "package_load",
    "save": "package_save",
    "train_step": "step",
}

_TORCH = (2, 13)  # the extension is built against its ABI


def _check_torch() -> None:
    loaded = sys.modules.get("torch")
    if loaded is not None:
        found = str(loaded.__version__)
    else:
        from importlib import metadata

        try:
            found = metadata.version("torch")
        except metadata.PackageNotFoundError:
            found = "not installed"
    wanted = "{}.{}".format(*_TORCH)
    if found.split("+")[0].split(".")[:2] != wanted.split("."):
        raise ImportError(
            f"torch_pjrt {__version__} needs torch {wanted}, and torch is {found} here. "
            f"Install it with: {sys.executable} -m pip install 'torch=={wanted}.*'"
        )


_check_torch()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _core() -> Any:
    import torch  # noqa: F401  (the core needs its libraries)

    from . import _C

    return _C


def _recompile_limits() -> int:
    """Since the start; Dynamo's count, which torch._dynamo.utils.counters.clear() sets to 0."""
    internals = sys.modules.get(f"{__name__}.torch_internals")  # absent until our first capture
    return internals.recompile_limits() if internals else 0


_recompile_limits_before = 0  # the last reset


def stats() -> dict[str, int]:
    """Counts since the start of the process or the last `reset_stats()`.

    captures: graphs that Dynamo gave us. compiles: programs that PJRT compiled.
    executions: programs run. memory_hits: calls that found their program compiled.
    disk_hits: programs that an earlier process compiled, and that were loaded from disk instead.
    disk_faults: programs that could not be read from or kept on disk.
    host_to_device_bytes, device_to_host_bytes: bytes copied, 0 where the device uses the tensors'
    own memory. copied_inputs: inputs that had to be copied for their layout or alignment.
    relaid_inputs: weights that were copied into the memory order that the device reads best.
    relaid_bytes: of such copies that are kept now; a reset leaves it.
    fallbacks: ops that eager ran, since no program could.
    recompile_limits: functions, whatever their backend, that reached Dynamo's limit of recompiles,
    so that calls of another kind than those compiled run in eager.
    """
    limits = max(0, _recompile_limits() - _recompile_limits_before)
    return {**_core().stats(), "recompile_limits": limits}


def reset_stats() -> None:
    """Sets every count of `stats()` to 0."""
    global _recompile_limits_before
    _core().reset_stats()
    _recompile_limits_before = _recompile_limits()
