"""The memory of a training step on device="pjrt", by what the process needs at most."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torch_pjrt

ROOT = str(Path(torch_pjrt.__file__).parent.parent)

# Prints the peak of some warm steps in MB.
_PEAK = """
import ctypes, gc, sys
import torch, torch_pjrt
from torch_pjrt.bench import train_loop
from torch_pjrt.bench.models.registry import MODELS

how, name, batch, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
(torch.ones(3, device="pjrt") + 1).cpu()  # the plugin's client
spec = MODELS[name]
generator = torch.Generator().manual_seed(0)
inputs = spec.inputs(batch, generator)
model = spec.build(seed=0)
classes = train_loop.classes_for(model, inputs, generator)
model.train()
if how != "eager":
    model.to("pjrt")
    inputs, classes = (tuple(t.to("pjrt") for t in group) for group in (inputs, classes))
optimizer = torch.optim.AdamW(model.parameters())
whole = torch_pjrt.train_step(model, optimizer, train_loop.loss_of)
def step():
    if how == "train_step":
        whole(*inputs, classes)
        return
    optimizer.zero_grad()
    train_loop.loss_of(model(*inputs), classes).backward()
    optimizer.step()
    if how == "lazy":
        torch.pjrt.mark_step()
for _ in range(3):
    step()
    torch.pjrt.synchronize()
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak counts from here
for _ in range(steps):
    step()
torch.pjrt.synchronize()
lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(lines["VmHWM"].split()[0]) / 1024)
"""


def peak_mb(*arguments: Any) -> float:
    code = f"import sys; sys.path.insert(0, {ROOT!r})\n" + _PEAK
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["train_step", "lazy"])
def test_a_step_of_bert_needs_little_more_than_eagers(how: str) -> None:
    eager = peak_mb("eager", "BERT_pytorch", 4, 3)
    assert peak_mb(how, "BERT_pytorch", 4, 3) <= 1.1 * eager
