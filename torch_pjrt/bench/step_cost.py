"""`bench --training --null-device`: what a step of training costs the host, as one program and as
three.

Both run on the fake plugin, which executes nothing. Three programs are the stock loop with the
model and its loss compiled, and optimizer.step() compiled too. Values are no concern here: that
both train as eager does is for --accuracy and the tests.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

import torch_pjrt

from . import counters, environment, report, timing, train_loop
from .models.registry import Spec

COLUMNS = ["model", "optimizer", "batch", "three programs µs", "train_step µs", "ratio", "result"]
NOTES = (
    "Time per step, the fastest round, measured in turns, on a plugin that executes nothing. three "
    "programs: the compiled model with its loss, the backward, and the compiled optimizer.step().",
    "ratio: train_step / three programs. Quote ratios only.",
)
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": functools.partial(torch.optim.SGD, lr=train_loop.LEARNING_RATE),
    "AdamW": functools.partial(torch.optim.AdamW, lr=train_loop.LEARNING_RATE),
}
WARM_UP_ROUNDS = 4
# Programs run in a step.
EXECUTIONS = {"three programs": 3, "train_step": 1}


def three_programs(spec: Spec, make: Callable[[Any], torch.optim.Optimizer]) -> train_loop.Step:
    """The stock loop, in three programs."""
    model = spec.build(0).train()
    optimizer = make(model.parameters())

    def loss_of(*arguments: Any) -> torch.Tensor:
        return train_loop.loss_of(model(*arguments[:-1]), arguments[-1])

    loss_fn = torch.compile(loss_of, backend="pjrt")
    update = torch.compile(optimizer.step, backend="pjrt")

    def step(*arguments: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(*arguments)
        loss.backward()
        update()
        return loss.detach()

    return step


def one_program(spec: Spec, make: Callable[[Any], torch.optim.Optimizer]) -> train_loop.Step:
    model = spec.build(0).train()
    step: train_loop.Step = torch_pjrt.train_step(
        model, make(model.parameters()), train_loop.loss_of
    )
    return step


def row(spec: Spec, optimizer: str, batch: int, repeat: int, iterations: int) -> list[str]:
    """Measures, and gives the cells of COLUMNS."""
    make = OPTIMIZERS[optimizer]
    generator = torch.Generator().manual_seed(0)
    inputs = spec.inputs(batch, generator)
    classes = train_loop.classes_for(spec.build(0), inputs, generator)
    steps = {"three programs": three_programs(spec, make), "train_step": one_program(spec, make)}
    watches = {name: counters.Watch(True) for name in steps}
    sides = [timing.Side(name, steps[name], watches[name].watching) for name in steps]
    timing.warm_up(sides, lambda: (*inputs, classes), WARM_UP_ROUNDS)
    samples = timing.measure(sides, lambda: (*inputs, classes), repeat, iterations)
    # Whatever else the machine does adds to a round and never takes away.
    three, one = (min(samples.seconds[name]) for name in steps)
    wrong = [
        f"{name}: {watches[name].moved}"
        for name, count in EXECUTIONS.items()
        if watches[name].moved.get("executions") != count * repeat * iterations
        or watches[name].moved.get("compiles")
    ]
    times = [f"{seconds * 1e6:.0f}" for seconds in (three, one)]
    result = "WRONG: " + "; ".join(wrong) if wrong else "passed"
    return [spec.name, optimizer, str(batch), *times, f"{one / three:.3f}", result]


def run(specs: Sequence[Spec], batch: int | None, repeat: int, iterations: int) -> bool:
    """Measures and prints; whether all went well. Sets the plugin of this process."""
    os.environ["TORCH_PJRT_PLUGIN"] = "fake"
    rows = []
    for spec in specs:
        for optimizer in OPTIMIZERS:
            print(f"{spec.name}, {optimizer}", file=sys.stderr, flush=True)
            rows.append(row(spec, optimizer, batch or spec.batch_size, repeat, iterations))
    where = environment.describe(None)
    print(f"torch-pjrt benchmark: host cost of a training step, float32; {where['date']}")
    print(f"{where['processor']}, {where['cores']} cores; torch {where['versions']['torch']}\n")
    print("\n".join([report.drawn(COLUMNS, rows, sys.stdout), "", *NOTES]), flush=True)
    return all(cells[-1] == "passed" for cells in rows)
