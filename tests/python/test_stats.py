"""torch_pjrt.stats(), reset_stats(), and the log."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

NAMES = {
    "captures",
    "compiles",
    "executions",
    "memory_hits",
    "disk_hits",
    "disk_faults",
    "evictions",
    "lowerings",
    "warmups",
    "programs",
    "program_bytes",
    "graph_breaks",
    "skipped_frames",
    "host_to_device_bytes",
    "device_to_host_bytes",
    "copied_inputs",
    "donated_inputs",
    "relaid_inputs",
    "relaid_bytes",
    "fallbacks",
    "recompile_limits",
}
SCRIPT = """
import torch
torch.compile(lambda x: x * 2, backend="pjrt")(torch.ones(3))
"""


NOW = {"programs", "program_bytes"}  # no counts


def counts() -> dict[str, int]:
    stats = torch_pjrt.stats()
    return {name: count for name, count in stats.items() if count and name not in NOW}


def test_counts() -> None:
    assert set(torch_pjrt.stats()) == NAMES
    assert counts() == {}
    fast = torch.compile(lambda x: x * 2, backend="pjrt")
    fast(torch.ones(3, 17))
    assert counts().items() >= {"captures": 1, "compiles": 1, "executions": 1}.items()
    assert "memory_hits" not in counts()
    fast(torch.ones(3, 17))
    assert counts().items() >= {"compiles": 1, "executions": 2, "memory_hits": 1}.items()
    torch_pjrt.reset_stats()
    assert counts() == {}


def test_copied_inputs() -> None:
    fast = torch.compile(lambda x: x * 2, backend="pjrt")
    dense = torch.ones(64, 64)
    fast(dense)
    fast(dense.t())
    assert torch_pjrt.stats()["copied_inputs"] == 0
    fast(dense[:, ::2])
    assert torch_pjrt.stats()["copied_inputs"] == 1


def test_stats_are_a_copy() -> None:
    torch_pjrt.stats()["captures"] = 7
    assert torch_pjrt.stats()["captures"] == 0


def run(logs: str | None) -> str:
    """What a process that compiles and calls a function writes to stderr."""
    env = {k: v for k, v in os.environ.items() if k != "TORCH_LOGS"}
    env["TORCH_PJRT_CACHE"] = "0"  # what is loaded is not lowered, and has no text
    if logs is not None:
        env["TORCH_LOGS"] = logs
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    return done.stderr


def test_logs() -> None:
    assert run(None) == ""
    lines = run("torch_pjrt")
    assert "capture: 1 ops, 1 inputs" in lines
    assert "compile: " in lines
    assert "stablehlo" not in lines
    everything = run("+torch_pjrt")
    assert "aten::mul.Tensor" in everything
    assert "stablehlo.multiply" in everything
    assert "func.func" in everything
