"""Where a run took place: versions, processor, threads, date."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

# what it is called in a record -> the distribution whose version it is
_DISTRIBUTIONS = {
    "torch_pjrt": "torch-pjrt",
    "plugin (xla-cpu-pjrt)": "xla-cpu-pjrt",
    "transformers": "transformers",
}


def describe(threads: int | None) -> dict[str, Any]:
    """`threads` is what was asked for; without it torch's own number is recorded."""
    import torch

    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    versions |= {name: _version(package) for name, package in _DISTRIBUTIONS.items()}
    return {
        "versions": versions,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": usable_cores(),
        "threads": threads or torch.get_num_threads(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def usable_cores() -> int:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_cores(count: int) -> None:
    """Keeps this process, and what it starts, to its first `count` CPUs (where the system can).

    This is what holds for eager and for a plugin alike: a PJRT CPU plugin takes its number of
    threads from the affinity, and has no option for it.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
