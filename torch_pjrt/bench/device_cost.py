"""`bench --null-device --trace-on-xla`: what tracing at each call costs the host, and tracing once.

The models are on device="pjrt", of the fake plugin, which executes nothing. Values are no concern
here: that they are right is for --accuracy and the tests.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo

from ..trivial import pjrt_trivial
from . import counters, environment, on_device, report, timing, train_loop
from .models.registry import Spec

Call = Callable[..., object]

WARM_UP_ROUNDS = 4
STILL = (
    *(counters.GRAPHS, *counters.STILL_WHEN_WARM),
    *("host_to_device_bytes", "device_to_host_bytes", "fallbacks"),
)
NOTES = (
    "Time per call, the fastest round, measured in turns, on a plugin that executes nothing; model "
    "and inputs are on the device.",
    "every time: the model without Dynamo, recorded at each call. trivial: captured by Dynamo and "
    "recorded at each call, without the host's work in modules. once: the backend 'pjrt'. Quote "
    "ratios only.",
)
TRAINING_NOTES = (
    "Time per step (forward, loss, backward, SGD), the fastest round, measured in turns, on a "
    "plugin that executes nothing; model and inputs are on the device.",
    "every time: the loop without Dynamo, recorded at each step. stock loop: with the model "
    "compiled by 'pjrt'. train_step: torch_pjrt.train_step. Quote ratios only.",
)


@dataclass(frozen=True)
class Way:
    """A way to run a model. executions: of a call. is_captured: by Dynamo."""

    name: str
    make: Callable[[Spec], Call]
    executions: int
    is_captured: bool = True

    def problems(self, cold: Counter[str], warm: Counter[str], calls: int) -> list[str]:
        """What the counts of the first calls, and of those that were timed, say against it."""
        found = []
        if self.is_captured and not cold[counters.GRAPHS]:
            found.append("Dynamo captured nothing")
        if cold["recompile_limits"] or cold["skipped_frames"]:
            found.append("Dynamo ran it in eager")
        if warm["executions"] != self.executions * calls:
            found.append(f"{warm['executions']} executions in {calls} calls")
        found += [f"{warm[name]} {name}" for name in STILL if warm[name]]
        return found


def _inference(spec: Spec, compile: Callable[[torch.nn.Module], Call] | None) -> Call:
    model = on_device.copied(spec.build(0).requires_grad_(False))
    return on_device.started(model if compile is None else compile(model))


def _by(backend: Any) -> Callable[[torch.nn.Module], Call]:
    return lambda model: torch.compile(model, backend=backend)


INFERENCE = (
    Way("every time", lambda spec: _inference(spec, None), 1, is_captured=False),
    Way("trivial", lambda spec: _inference(spec, _by(pjrt_trivial)), 1),
    Way("once", lambda spec: _inference(spec, _by("pjrt")), 1),
)


def _stock_loop(spec: Spec, is_compiled: bool) -> Call:
    model = on_device.copied(spec.build(0).train())
    run = torch.compile(model, backend="pjrt") if is_compiled else None
    return on_device.started(train_loop.stock_step(model, run))


def _one_program(spec: Spec) -> Call:
    return train_loop.one_program_step(on_device.copied(spec.build(0).train()))


TRAINING = (
    Way("every time", lambda spec: _stock_loop(spec, False), 1, is_captured=False),
    Way("stock loop", lambda spec: _stock_loop(spec, True), 4),
    Way("train_step", _one_program, 1),
)


def row(spec: Spec, ways: Sequence[Way], batch: int, repeat: int, iterations: int) -> list[str]:
    """Measures; the cells of a table's row, the ratios to the first way last but one."""
    # Models share code, and Dynamo's limits are those of the code.
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(0)
    inputs: tuple[Any, ...] = spec.inputs(batch, generator)
    if ways is TRAINING:
        inputs = (*inputs, train_loop.classes_for(spec.build(0), inputs, generator))
    arguments = on_device.moved(inputs)
    cold = {way.name: counters.Watch(True) for way in ways}
    warm = {way.name: counters.Watch(True) for way in ways}
    sides = [
        timing.Side(way.name, way.make(spec), warm[way.name].watching, finish=on_device.finish)
        for way in ways
    ]
    for side in sides:
        with cold[side.name].watching():
            timing.warm_up([side], lambda: arguments, WARM_UP_ROUNDS)
    samples = timing.measure(sides, lambda: arguments, repeat, iterations)
    # Whatever else the machine does adds to a round and never takes away.
    times = [min(samples.seconds[way.name]) for way in ways]
    wrong = [
        f"{way.name}: {problem}"
        for way in ways
        for problem in way.problems(cold[way.name].moved, warm[way.name].moved, repeat * iterations)
    ]
    return [
        spec.name,
        str(batch),
        *(f"{seconds * 1e6:.0f}" for seconds in times),
        *(f"{times[0] / seconds:.3f}" for seconds in times[1:]),
        "WRONG: " + "; ".join(wrong) if wrong else "passed",
    ]


def run(
    specs: Sequence[Spec], training: bool, batch: int | None, repeat: int, iterations: int
) -> bool:
    """Measures and prints; whether all went well. Sets the plugin of this process."""
    os.environ["TORCH_PJRT_PLUGIN"] = "fake"
    ways = TRAINING if training else INFERENCE
    rows = []
    with torch.set_grad_enabled(training):
        for spec in specs:
            print(spec.name, file=sys.stderr, flush=True)
            rows.append(row(spec, ways, batch or spec.batch_size, repeat, iterations))
    columns = ["model", "batch", *(f"{way.name} µs" for way in ways)]
    columns += [f"{ways[0].name} / {way.name}" for way in ways[1:]] + ["result"]
    means: list[str] = []
    for k, way in enumerate(ways[1:]):
        mean = timing.geomean([float(cells[2 + len(ways) + k]) for cells in rows])
        means.append(f"geomean {ways[0].name} / {way.name}: {mean:.3f} over {len(rows)} models")
    where = environment.describe(None)
    kind = "a training step" if training else "a call"
    print(f"torch-pjrt benchmark: host cost of {kind} on device pjrt, float32; {where['date']}")
    print(f"{where['processor']}, {where['cores']} cores; torch {where['versions']['torch']}\n")
    notes = TRAINING_NOTES if training else NOTES
    table = report.drawn(columns, rows, sys.stdout)
    print("\n".join([table, "", *means, *notes]), flush=True)
    return all(cells[-1] == "passed" for cells in rows)
