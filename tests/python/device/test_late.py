"""Executions that end late: who waits for them, and who doesn't. By the fake plugin, which executes
nothing and ends when it is told to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch_pjrt

ROOT = Path(torch_pjrt.__file__).parent.parent

# An execution ends long after a step has returned, unless the machine stands still.
_BEGIN = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
import os
os.environ["TORCH_PJRT_PLUGIN"] = "fake"
import threading, time, torch
from torch import nn
from fake import library
import torch_pjrt
fake = library()
assert fake.torch_pjrt_fake_set(b"late_ms", {late})
running = fake.torch_pjrt_fake_running
"""


def run(code: str, late: int = 2000) -> None:
    begin = _BEGIN.format(root=str(ROOT), tests=str(ROOT / "tests" / "python"), late=late)
    done = subprocess.run(
        [sys.executable, "-c", begin + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_only_a_read_waits() -> None:
    run("""
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to("pjrt")
optimizer = torch.optim.AdamW(model.parameters())
x = torch.ones(3, 4, device="pjrt")
fast = torch.compile(lambda x: model(x).square().mean(), backend="pjrt")

def step():
    optimizer.zero_grad()
    loss = fast(x)
    loss.backward()
    optimizer.step()
    torch.pjrt.mark_step()
    return loss.detach()

for _ in range(3):
    step()
torch.pjrt.synchronize()
assert running() == 0
torch_pjrt.reset_stats()
loss = step()
assert running() == 3, running()  # forward, backward, optimizer
torch.pjrt.mark_step()  # nothing is pending
assert running() == 3
assert torch_pjrt.stats()["executions"] == 3
loss.item()
assert running() < 3
torch.pjrt.synchronize()
assert running() == 0
""")


def test_train_step_does_not_wait() -> None:
    run("""
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to("pjrt")
optimizer = torch.optim.AdamW(model.parameters())
step = torch_pjrt.train_step(model, optimizer, nn.functional.mse_loss)
x, y = torch.ones(3, 4, device="pjrt"), torch.ones(3, 2, device="pjrt")
for _ in range(4):
    step(x, y)
torch.pjrt.synchronize()
torch_pjrt.reset_stats()
losses = [step(x, y), step(x, y)]
assert running() == 2, running()
assert torch_pjrt.stats()["executions"] == 2
assert torch_pjrt.stats()["compiles"] == 0
assert torch_pjrt.stats()["device_to_host_bytes"] == 0
losses[0].item()
assert running() <= 1
""")


def test_recording_and_mark_step_wait_for_no_execution() -> None:
    """While another thread's execution is on its way to the device, which holds that thread."""
    run(
        """
x = torch.ones(8, device="pjrt") * 2
torch.pjrt.mark_step()
assert fake.torch_pjrt_fake_delay(b"PJRT_LoadedExecutable_Execute", 3000)
recorded = []
def record_and_run():
    recorded.append(x + 1)
    torch.pjrt.mark_step()
thread = threading.Thread(target=record_and_run)
before = fake.torch_pjrt_fake_calls(b"PJRT_LoadedExecutable_Execute")
thread.start()
while fake.torch_pjrt_fake_calls(b"PJRT_LoadedExecutable_Execute") == before:
    time.sleep(0.01)
torch.pjrt.mark_step()  # nothing of this thread's is pending
z = recorded[0] * 3
assert z.shape == (8,)
assert thread.is_alive()
thread.join()
""",
        late=1,
    )
