"""PyTorch programs on any PJRT device: `torch.compile(model, backend="pjrt")`.

Importing this package checks torch's version, loads torch and the C++ core, and registers
device="pjrt". It starts no thread and loads no plugin.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .align import align_
    from .compiler import FallbackWarning
    from .compiles import explain_compiles
    from .copies import CopyWarning
    from .device import HostOpWarning
    from .errors import Error, OutOfMemoryError
    from .explanation import explain
    from .frozen import freeze
    from .package_load import load
    from .package_save import save
    from .policy import no_compile, set_compile_policy
    from .step import ThreeProgramsWarning, train_step
    from .warm import warmup

__version__ = "0.1.0"
__all__ = [
    "CopyWarning",
    "Error",
    "FallbackWarning",
    "HostOpWarning",
    "OutOfMemoryError",
    "ThreeProgramsWarning",
    "__version__",
    "align_",
    "explain",
    "explain_compiles",
    "freeze",
    "load",
    "no_compile",
    "reset_stats",
    "save",
    "set_compile_policy",
    "set_max_program_bytes",
    "stats",
    "train_step",
    "warmup",
]

# name -> the module that it comes from, imported when it is first asked for
_MODULES = {
    "CopyWarning": "copies",
    "Error": "errors",
    "FallbackWarning": "compiler",
    "HostOpWarning": "device",
    "OutOfMemoryError": "errors",
    "ThreeProgramsWarning": "step",
    "align_": "align",
    "explain": "explanation",
    "explain_compiles": "compiles",
    "freeze": "frozen",
    "load": "package_load",
    "no_compile": "policy",
    "save": "package_save",
    "set_compile_policy": "policy",
    "train_step": "step",
    "warmup": "warm",
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


def _register() -> None:
    from . import device

    device.register()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _core() -> Any:
    import torch  # noqa: F401  (the core needs its libraries)

    from . import _C

    return _C


def _dynamo_counts() -> dict[str, int]:
    """Since the start; Dynamo's counts, which torch._dynamo.utils.counters.clear() sets to 0."""
    internals = sys.modules.get(f"{__name__}.torch_internals")  # absent until our first capture
    if internals is None:
        return dict.fromkeys(("graph_breaks", "skipped_frames", "recompile_limits"), 0)
    counts: dict[str, int] = internals.dynamo_counts()
    return counts


_dynamo_counts_before: dict[str, int] = {}  # the last reset


def stats() -> dict[str, int]:
    """Counts since the start of the process or the last `reset_stats()`.

    captures: graphs that Dynamo gave us. lowerings: programs made from a graph. compiles: programs
    that PJRT compiled. executions: programs run. memory_hits: calls that found their program
    compiled. disk_hits: programs that an earlier process compiled, and that were loaded from disk
    instead. disk_faults: programs that could not be read from or kept on disk. warmups: of compiles
    and disk_hits, those made by `warmup()`, ahead of any execution.
    host_to_device_bytes, device_to_host_bytes: bytes copied, 0 where the device uses the tensors'
    own memory. copied_inputs: inputs that had to be copied for their layout or alignment.
    relaid_inputs: weights that were copied into the memory order that the device reads best.
    relaid_bytes: of such copies that are kept now; a reset leaves it.
    fallbacks: ops that eager ran, since no program could.
    evictions: programs that left the memory for want of room. programs, program_bytes: in memory
    now, which no reset changes.
    graph_breaks, skipped_frames, recompile_limits: by Dynamo, whatever the backend: where a
    function's graph ended before the function, functions that it couldn't capture, and functions
    that reached its limit of recompiles, so that other calls of them run in eager.
    """
    counts = _dynamo_counts()
    since = {n: max(0, count - _dynamo_counts_before.get(n, 0)) for n, count in counts.items()}
    return {**_core().stats(), **since}


def reset_stats() -> None:
    """Sets the counts of `stats()` to 0."""
    global _dynamo_counts_before
    _core().reset_stats()
    _dynamo_counts_before = _dynamo_counts()


def set_max_program_bytes(max_bytes: int) -> None:
    """How much memory compiled programs may take together, instead of TORCH_PJRT_MAX_PROGRAM_BYTES.
    Those used longest ago are given up at once; the one used last stays."""
    _core().set_max_program_bytes(max_bytes)


_register()
