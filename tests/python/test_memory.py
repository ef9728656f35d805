"""The memory that a process needs: no more than eager's, and no more after a thousand calls."""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": (2, 3), "stride": 1, "dilation": 2},
    ],
)
def test_a_pool_without_its_indices_has_eagers_values(
    settings: dict[str, Any], dtype: torch.dtype, layout: torch.memory_format
) -> None:
    x = torch.randn(2, 3, 10, 9, generator=torch.Generator().manual_seed(0)).mul(9).to(dtype)
    if dtype.is_floating_point:
        x[0, 0, 3, 3], x[1, 1], x[1, 2] = math.nan, 0, -math.inf
    x = x.contiguous(memory_format=layout)
    fast = torch.compile(lambda x: F.max_pool2d(x, **settings), backend="pjrt")
    got, want = fast(x), F.max_pool2d(x, **settings)
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(), want.nan_to_num())
    assert got.stride() == want.stride()


def resident_mb() -> float:
    """Of this process, less what it has freed."""
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE / 2**20


def growth_mb(call: Callable[[int], None], calls: int) -> float:
    """What the later half of the calls adds to the process."""
    for k in range(calls):
        call(k)
    gc.collect()
    before = resident_mb()
    for k in range(calls, 2 * calls):
        call(k)
    gc.collect()
    return resident_mb() - before


# How often in a short run and in a long one. A leak of 1 KB a call is 5 MB in the latter.
lengths = pytest.mark.parametrize(
    "times", [1, pytest.param(10, marks=[pytest.mark.full, pytest.mark.timeout(1800)])]
)


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))


@lengths
def test_inference_does_not_grow(times: int) -> None:
    model = small_model().eval()
    fast = torch.compile(model, backend="pjrt")
    x = torch.randn(8, 16)

    def call(_: int) -> None:
        with torch.no_grad():
            fast(x.clone())

    assert growth_mb(call, 2000 * times) < 2


@lengths
def test_the_stock_loop_does_not_grow(times: int) -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    fast = torch.compile(model, backend="pjrt")

    def call(_: int) -> None:
        fast(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    assert growth_mb(call, 500 * times) < 2


@lengths
def test_train_step_does_not_grow(times: int) -> None:
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = torch_pjrt.train_step(model, optimizer, F.mse_loss)

    def call(_: int) -> None:
        step(torch.randn(8, 16), torch.randn(8, 4))

    assert growth_mb(call, 500 * times) < 2


@lengths
def test_errors_do_not_add_up(times: int) -> None:
    table = torch.randn(10, 4)
    fast = torch.compile(lambda i: table[i], backend="pjrt")

    def call(k: int) -> None:
        index = torch.tensor([1, 2, 3 if k % 2 else 10])
        if k % 2:
            fast(index)
        else:
            with pytest.raises(IndexError):
                fast(index)

    assert growth_mb(call, 500 * times) < 2


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_recompiles_add_no_more_than_torch_keeps() -> None:
    """torch._dynamo.reset() leaves memory behind, whatever the backend."""
    model = small_model().eval()
    x = torch.randn(8, 16)

    def growth(backend: str) -> float:
        def call(_: int) -> None:
            torch._dynamo.reset()
            with torch.no_grad():
                torch.compile(model, backend=backend)(x)

        return growth_mb(call, 40)

    assert growth("pjrt") < growth("aot_eager") + 2
    assert torch_pjrt.stats()["captures"] == 80


# Run in a process of its own: model, loss and input, then `call`, after which it prints the peak of
# some warm calls in MB, and 15 % of the bytes of its parameters.
_PEAK = """
import sys
import torch, torch_pjrt
from torch_pjrt.bench.models.registry import MODELS

how, name, batch, calls = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.compile(lambda x: x + 1, backend="pjrt")(torch.ones(3))  # the plugin's client
model = MODELS[name].build(seed=0)
inputs = MODELS[name].inputs(batch, torch.Generator().manual_seed(0))
if how in ("pjrt", "aot_eager"):
    fast = torch.compile(model.requires_grad_(False), backend=how)
    def call():
        with torch.no_grad():
            fast(*inputs)
else:
    optimizer = torch.optim.SGD(model.train().parameters(), lr=0.01)
    target = torch.arange(batch)
    loss_fn = torch.nn.functional.cross_entropy
    step = torch_pjrt.train_step(model, optimizer, loss_fn)
    def call():
        if how == "train_step":
            step(*inputs, target)
        else:
            optimizer.zero_grad()
            loss_fn(model(*inputs), target).backward()
            optimizer.step()
for _ in range(3):
    call()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak counts from here
for _ in range(calls):
    call()
lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(lines["VmHWM"].split()[0]) / 1024, sum(p.nbytes for p in model.parameters()) / 2**20)
"""


def peak_mb(*arguments: Any) -> tuple[float, float]:
    """The peak of a process, the median of three, and the parameters' bytes."""
    runs = []
    for _ in range(3):
        command = [sys.executable, "-c", _PEAK, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        runs.append([float(word) for word in done.stdout.split()])
    return statistics.median(run[0] for run in runs), runs[0][1]


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_vgg16_needs_what_eager_does() -> None:
    eager, _ = peak_mb("aot_eager", "vgg16", 1, 20)
    ours, parameters = peak_mb("pjrt", "vgg16", 1, 20)
    assert ours <= eager + 0.15 * parameters


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_train_step_of_resnet50_needs_what_the_eager_loop_does() -> None:
    eager, _ = peak_mb("eager_loop", "resnet50", 8, 3)
    ours, _ = peak_mb("train_step", "resnet50", 8, 3)
    assert ours <= 1.1 * eager
