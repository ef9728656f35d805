"""Copies of weights in the device's memory order, for a model that was loaded from a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torch_pjrt

IMAGE = torch.randn(2, 16, 9, 8)
LONGER = torch.randn(3, 16, 9, 8)

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def net() -> nn.Sequential:
    """A convolution and a linear layer of more than 16 KiB each: both are worth a copy."""
    layers = (nn.Conv2d(16, 64, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(64, 128)).eval()


def loaded(tmp_path: Path, model: nn.Module, **options: Any) -> Any:
    path = tmp_path / "model.tpc"
    fast = torch.compile(model, backend="pjrt", options=options)
    torch_pjrt.save(fast, path, [(IMAGE,), (LONGER,)])
    torch_pjrt.reset_stats()
    return torch_pjrt.load(path, model)


def relaid() -> int:
    return torch_pjrt.stats()["relaid_inputs"]


def check(model: nn.Module, fast: Any, image: torch.Tensor) -> None:
    torch.testing.assert_close(fast(image), model(image), rtol=1e-5, atol=1e-5)


def test_weights_are_copied_once_for_all_sizes(tmp_path: Path) -> None:
    model = net()
    fast = loaded(tmp_path, model)
    for image in (IMAGE, LONGER, IMAGE):
        check(model, fast, image)
    assert relaid() == 2
    assert torch_pjrt.stats()["captures"] == torch_pjrt.stats()["lowerings"] == 0
    model[3].weight.mul_(2)
    for image in (IMAGE, LONGER):
        check(model, fast, image)
    assert relaid() == 3


def test_frozen_weights_stay_as_they_were(tmp_path: Path) -> None:
    model = net()
    fast = loaded(tmp_path, model, freeze=True)
    before = fast(IMAGE)
    model[0].weight.mul_(2)
    torch.testing.assert_close(fast(IMAGE), before)
    model[0].weight.data = model[0].weight.clone()
    check(model, fast, IMAGE)
    assert relaid() == 3


def test_ops_that_are_to_run_in_eager_cant_be_saved(tmp_path: Path) -> None:
    fast = torch.compile(net(), backend="pjrt", options={"eager_ops": ["aten::convolution"]})
    with pytest.raises(torch_pjrt.Error, match="aten::convolution") as raised:
        torch_pjrt.save(fast, tmp_path / "model.tpc", [(IMAGE,)])
    assert raised.value.code == "unsupported"


# What a plugin writes of a program that it has read may lack its code.
FROM_DISK = """
import shutil, sys, os, torch, torch_pjrt
step, path = sys.argv[1:]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.Softmax(1))
fast, calls = torch.compile(model, backend="pjrt", dynamic=True), [(torch.randn(5, 64),)]
with torch.no_grad():
    if step == "load":
        shutil.rmtree(os.environ["TORCH_PJRT_CACHE_DIR"])
        fast = torch_pjrt.load(path, model)
        torch.testing.assert_close(fast(*calls[0]), model(*calls[0]))
    else:
        torch_pjrt.save(fast, path, calls)
print(*[torch_pjrt.stats()[name] for name in ("lowerings", "disk_hits")])
"""


def test_programs_that_came_from_disk_are_saved_whole(tmp_path: Path) -> None:
    for step, counts in (("first", "1 0"), ("from disk", "0 0"), ("load", "0 1")):
        command = [sys.executable, "-c", FROM_DISK, step, str(tmp_path / "model.tpc")]
        assert subprocess.check_output(command, text=True).strip() == counts, step
