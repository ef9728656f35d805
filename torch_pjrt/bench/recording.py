"""`bench --recording`: what recording ops on device="pjrt" costs, beside running them in eager.

Nothing that is recorded is run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import torch
from torch import nn

from . import environment, on_device, report, timing

COLUMNS = ["work", "eager µs", "recorded µs", "recorded / eager", "at most"]
NOTES = (
    "The fastest round, measured in turns. eager: on the CPU, computed. recorded: on device pjrt, "
    "where nothing is run. Quote ratios only.",
)
OPS = 100
Work = Callable[[], object]


def chain(x: torch.Tensor) -> Work:
    """A chain of ops on a tiny tensor."""

    def run() -> torch.Tensor:
        y = x
        for _ in range(OPS // 4):
            y = (y + x).mul(0.5).sin() - x
        return y

    return run


def narrow_resnet18() -> nn.Module:
    """resnet18 with 4, 8, 16 and 32 channels."""
    from .models.registry import MODELS

    model = MODELS["resnet18"].build(0)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Conv2d):
                narrow: nn.Module = nn.Conv2d(
                    max(child.in_channels // 16, 3),
                    child.out_channels // 16,
                    child.kernel_size,  # type: ignore[arg-type]
                    child.stride,  # type: ignore[arg-type]
                    child.padding,  # type: ignore[arg-type]
                    bias=False,
                )
            elif isinstance(child, nn.BatchNorm2d):
                narrow = nn.BatchNorm2d(child.num_features // 16)
            elif isinstance(child, nn.Linear):
                narrow = nn.Linear(child.in_features // 16, child.out_features)
            else:
                continue
            setattr(parent, name, narrow)
    return model.eval()


def model_works() -> tuple[Work, Work]:
    model, x = narrow_resnet18(), torch.randn(1, 3, 8, 8)
    own, on = on_device.copied(model), x.to("pjrt")
    return lambda: model(x), lambda: own(on)


def rows(repeat: int) -> list[list[str]]:
    """The cells of COLUMNS, of each kind of work."""
    x = torch.randn(4)
    works: Sequence[tuple[str, tuple[Work, Work], float]] = (
        (f"a chain of {OPS} ops", (chain(x), chain(x.to("pjrt"))), 1.5),
        ("resnet18 of 4 channels, 1x3x8x8", model_works(), 2.0),
    )
    found = []
    with torch.no_grad():
        for name, (eager, recorded), bound in works:
            sides = [timing.Side("eager", eager), timing.Side("recorded", recorded)]
            timing.warm_up(sides, tuple, 3)
            samples = timing.measure(sides, tuple, repeat, 5)
            # Whatever else the machine does adds to a round and never takes away.
            least = {side.name: min(samples.seconds[side.name]) for side in sides}
            times = [f"{least[side.name] * 1e6:.1f}" for side in sides]
            ratio = least["recorded"] / least["eager"]
            found.append([name, *times, f"{ratio:.3f}", f"{bound}"])
    return found


def run(repeat: int) -> bool:
    """Measures and prints; whether each ratio is within its bound. Sets this process's plugin."""
    os.environ["TORCH_PJRT_PLUGIN"] = "fake"
    cells = rows(repeat)
    where = environment.describe(None)
    print(f"torch-pjrt benchmark: recording on device pjrt; {where['date']}")
    print(f"{where['processor']}, {where['cores']} cores; torch {where['versions']['torch']}\n")
    print("\n".join([report.drawn(COLUMNS, cells, sys.stdout), "", *NOTES]), flush=True)
    return all(float(row[3]) <= float(row[4]) for row in cells)
