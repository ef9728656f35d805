"""`bench --profile`: where a call's time goes, beside eager's profile.

The plugin tells nothing of what is inside a program. So the graph is cut into pieces that are timed
as programs of their own, with images channels last and weights frozen, as they lie in the whole.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from . import compiling, counters, environment, host_cost, peers, pieces, report, timing
from .models.registry import Spec

SEED = 20_221_025
WARM_UP = 2
COLUMNS = ["model", "batch", "group", "pieces", "pieces ms", "eager ms", "pieces / eager"]
WHOLE = ["model", "eager ms", "pjrt ms", "frozen ms", "all pieces ms", "weights' check ms"]
WHOLE += ["host µs", "copied inputs"]
NOTES = (
    "The fastest of the rounds, which all take turns. pieces: programs of one convolution, product "
    "or pool each, and of what lies between such; they fuse less than the whole, so that the sum "
    "of all is more. eager: its own time in ops of the group, by torch.profiler.",
    "weights' check: pjrt less frozen. host: a call on a plugin that executes nothing. Quote "
    "ratios only.",
)


def _channels_last(model: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Turns the model, and returns the inputs turned, if they are images."""
    if all(x.dim() != 4 for x in inputs):
        return inputs
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)


class _Pieces:
    """A call of all pieces, one after the other, that keeps the least time of each."""

    def __init__(self, spec: Spec, batch: int) -> None:
        model = spec.build(SEED)
        inputs = spec.inputs(batch, torch.Generator().manual_seed(SEED))
        self._whole = pieces.captured(model, _channels_last(model, inputs))
        self.all = pieces.pieces(self._whole)
        self.least = [float("inf")] * len(self.all)

    def __call__(self, *_: Any) -> None:
        placeholders = self._whole.gm.graph.find_nodes(op="placeholder")
        values = dict(zip(placeholders, self._whole.inputs, strict=True))
        for k, piece in enumerate(self.all):
            arguments = [values[node] for node in piece.reads]
            start = time.perf_counter()
            results = piece.call(arguments)
            self.least[k] = min(self.least[k], time.perf_counter() - start)
            values.update(zip(piece.writes, results, strict=True))

    def by_group(self) -> dict[str, tuple[int, float]]:
        """How many pieces, and seconds."""
        seconds: dict[str, list[float]] = defaultdict(list)
        for piece, least in zip(self.all, self.least, strict=True):
            seconds[piece.group].append(least)
        return {group: (len(found), sum(found)) for group, found in seconds.items()}


def _eager_by_group(call: Callable[..., Any], inputs: tuple[Any, ...]) -> dict[str, float]:
    """Seconds of a call, the least of some."""
    least: dict[str, float] = {}
    for _ in range(3):
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            call(*inputs)
        seconds: dict[str, float] = defaultdict(float)
        for event in profiled.key_averages():
            if event.key.startswith("aten::"):
                seconds[pieces.group_of(event.key)] += event.self_cpu_time_total * 1e-6
        for group, one in seconds.items():
            least[group] = min(one, least.get(group, float("inf")))
    return least


def measure(spec: Spec, batch: int, repeat: int) -> tuple[list[list[str]], list[str]]:
    """The rows of the model's groups, and the row of the whole."""
    inputs = spec.inputs(batch, torch.Generator().manual_seed(SEED))
    eager = spec.build(SEED)
    with torch.no_grad():
        in_pieces = _Pieces(spec, batch)
        ours = {
            "pjrt": compiling.compiled(spec.build(SEED), "pjrt"),
            "frozen": peers.compiled(peers.FROZEN, spec.build(SEED)),
            "host": host_cost.compiled(host_cost.NULL_DEVICE, spec.build(SEED), inputs),
        }
        calls: dict[str, Callable[..., object]] = {"eager": eager, **ours, "pieces": in_pieces}
        sides = [
            timing.Side(name, call, iterations=100 if name == "host" else None)
            for name, call in calls.items()
        ]
        timing.warm_up(sides, lambda: inputs, WARM_UP)
        watch = counters.Watch(ours=True)
        with watch.watching():
            samples = timing.measure(sides, lambda: inputs, repeat, 1)
        in_eager = _eager_by_group(eager, inputs)
    least = {name: min(seconds) for name, seconds in samples.seconds.items()}
    rows = []
    ranked = sorted(in_pieces.by_group().items(), key=lambda item: -item[1][1])
    for group, (count, seconds) in ranked:
        of_eager = in_eager.get(group, 0.0)
        ratio = f"{seconds / of_eager:.2f}" if of_eager else report.NOTHING
        cells = [str(count), f"{seconds * 1e3:.2f}", f"{of_eager * 1e3:.2f}", ratio]
        rows.append([spec.name, str(batch), group, *cells])
    total = sum(in_pieces.least)
    milliseconds = [least["eager"], least["pjrt"], least["frozen"], total]
    milliseconds.append(least["pjrt"] - least["frozen"])
    whole = [spec.name, *(f"{seconds * 1e3:.2f}" for seconds in milliseconds)]
    whole += [f"{least['host'] * 1e6:.0f}", str(watch.moved.get("copied_inputs", 0))]
    return rows, whole


def run(specs: Sequence[Spec], batch_size: int | None, repeat: int) -> None:
    """Measures and prints."""
    rows, wholes = [], []
    for spec in specs:
        print(spec.name, file=sys.stderr, flush=True)
        torch._dynamo.reset()
        groups, whole = measure(spec, batch_size or spec.batch_size, repeat)
        rows += groups
        wholes.append(whole)
    where = environment.describe(None)
    print(f"torch-pjrt benchmark: profile, inference, float32; {where['date']}")
    print(f"{where['processor']}, {where['cores']} cores; torch {where['versions']['torch']}\n")
    tables = (report.drawn(COLUMNS, rows, sys.stdout), report.drawn(WHOLE, wholes, sys.stdout))
    print("\n".join([tables[0], "", tables[1], "", *NOTES]), flush=True)
