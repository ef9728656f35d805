"""Data parallel training over gloo: two processes are equal to one on the joined batch."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

import torch_pjrt

pytestmark = pytest.mark.plugin

PROCESSES, BATCH, STEPS = 2, 6, 3
SECONDS = 240


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(16, width)]
        for _ in range(3):
            layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
        self.body = nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 4, 3), nn.Flatten())
        self.head = nn.Sequential(*layers, nn.Linear(width, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).relu())  # type: ignore[no-any-return]


def make(width: int) -> nn.Module:
    torch.manual_seed(0)
    return Model(width)


def batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(BATCH, 16, generator=generator),
            torch.randint(3, (BATCH,), generator=generator),
        )
        for _ in range(STEPS)
    ]


def train(model: nn.Module, run: Callable[..., Any], part: slice) -> list[float]:
    """Parameters after SGD with momentum on each batch's part, flattened."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, classes in batches():
        optimizer.zero_grad()
        nn.functional.cross_entropy(run(x[part]), classes[part]).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()  # type: ignore[no-any-return]


def ddp_of_compiled(model: nn.Module) -> Callable[..., Any]:
    return DistributedDataParallel(torch.compile(model, backend="pjrt", dynamic=False))


def compiled_ddp(model: nn.Module) -> Callable[..., Any]:
    return torch.compile(DistributedDataParallel(model), backend="pjrt", dynamic=False)


def compiled_ddp_of_buckets(model: nn.Module) -> Callable[..., Any]:
    """Of 1 MB each: DDPOptimizer cuts the graph at them."""
    return torch.compile(
        DistributedDataParallel(model, bucket_cap_mb=1), backend="pjrt", dynamic=False
    )


def worker(
    rank: int, folder: str, width: int, wrap: Callable[[nn.Module], Callable[..., Any]]
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=PROCESSES
    )
    model = make(width)
    size = BATCH // PROCESSES
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch_pjrt.CopyWarning)
        parameters = train(model, wrap(model), slice(rank * size, (rank + 1) * size))
    torch.save((parameters, torch_pjrt.stats()), f"{folder}/{rank}")
    dist.destroy_process_group()


def results(folder: Path, width: int, wrap: Callable[[nn.Module], Callable[..., Any]]) -> list[Any]:
    """Of each process: its parameters, and counts."""
    context = torch.multiprocessing.spawn(
        functools.partial(worker, folder=str(folder), width=width, wrap=wrap),
        nprocs=PROCESSES,
        join=False,
    )
    assert context is not None
    while not context.join(timeout=SECONDS):
        pass
    return [torch.load(folder / str(rank)) for rank in range(PROCESSES)]


@pytest.mark.parametrize(
    ("wrap", "width", "programs"),
    [
        (ddp_of_compiled, 16, 2),
        pytest.param(compiled_ddp, 16, 2, marks=pytest.mark.full),
        pytest.param(compiled_ddp_of_buckets, 600, None, marks=pytest.mark.full),
    ],
)
def test_two_processes_equal_one(
    tmp_path: Path,
    wrap: Callable[[nn.Module], Callable[..., Any]],
    width: int,
    programs: int | None,
) -> None:
    model = make(width)
    expected = train(model, model, slice(None))
    found = results(tmp_path, width, wrap)
    assert found[0][0] == found[1][0]
    for parameters, counts in found:
        assert_close(torch.tensor(parameters), torch.tensor(expected), rtol=1e-4, atol=1e-5)
        a_step = counts["executions"] // STEPS
        assert counts["executions"] == a_step * STEPS
        assert a_step == programs if programs else a_step >= 6
