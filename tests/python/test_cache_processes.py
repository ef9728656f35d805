"""Many processes over one folder of the cache: at once, killed, and one after the other."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torch_pjrt import cache_command

pytestmark = pytest.mark.plugin

# Prints the counts of calls with each of the sizes, which are compared with eager.
SCRIPT = """
import json, sys
import torch, torch_pjrt
kind, sizes = json.loads(sys.argv[1])
torch.manual_seed(0)
if kind == "small":
    layers = [torch.nn.Embedding(50, 8), torch.nn.Linear(8, 8), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).eval()
else:
    from torch_pjrt.bench.models.registry import MODELS
    model = MODELS["BERT_pytorch"].build(seed=0)
fast = torch.compile(model, backend="pjrt", dynamic=True)
print("ready", flush=True)
with torch.no_grad():
    for size in sizes:
        tokens = torch.randint(0, 50, (1, size))
        torch.testing.assert_close(fast(tokens), model(tokens), rtol=1e-3, atol=1e-4)
print(json.dumps(torch_pjrt.stats()))
"""
LENGTHS = list(range(16, 496, 16))


def start(kind: str, sizes: list[int]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps([kind, sizes])],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


def counts(process: subprocess.Popen[str]) -> dict[str, int]:
    out, _ = process.communicate()
    assert process.returncode == 0
    return dict(json.loads(out.splitlines()[-1]))


def check_all(folder: Path, entries: int) -> None:
    assert len(list(folder.glob("*.program"))) == entries
    assert cache_command.main(["--folder", str(folder), "verify"]) == 0


def check_at_once(folder: Path, kind: str, sizes: list[int]) -> None:
    running = [start(kind, random.Random(i).sample(sizes, len(sizes))) for i in range(4)]
    results = [counts(process) for process in running]
    for found in results:
        assert found["disk_faults"] == 0
        assert found["compiles"] + found["disk_hits"] == len(sizes)
    check_all(folder, len(sizes))


def check_restart(kind: str, sizes: list[int]) -> None:
    found = counts(start(kind, sizes))
    assert found["captures"] <= 2
    assert (found["compiles"], found["disk_hits"], found["disk_faults"]) == (0, len(sizes), 0)


def test_at_once_and_a_restart(cache_folder: Path) -> None:
    sizes = [2, 3, 4, 5, 6]
    check_at_once(cache_folder, "small", sizes)
    check_restart("small", sizes)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_at_once_and_a_restart_of_thirty_lengths(cache_folder: Path) -> None:
    check_at_once(cache_folder, "bert", LENGTHS)
    check_restart("bert", LENGTHS)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_killed_while_writing(cache_folder: Path) -> None:
    """See also DiskFaultsTest, which kills more of them."""
    sizes = list(range(2, 40))
    generator = random.Random(1)
    for _ in range(10):
        process = start("small", sizes)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(generator.uniform(0, 4))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not cache_folder.exists() or (
            cache_command.main(["--folder", str(cache_folder), "verify"]) == 0
        )
    found = counts(start("small", sizes))
    assert found["disk_faults"] == 0
    check_all(cache_folder, len(sizes))
