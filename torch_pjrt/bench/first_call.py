"""`bench --first-call`: how long a model's first call takes, in new processes with empty caches.

What every backend needs, as much as one that does nothing, is TorchDynamo's and AOTAutograd's.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from . import accuracy, environment, host_cost, process, report, timing
from .models.registry import MODELS, Spec

OURS, PEER = "pjrt", "inductor"
BACKENDS = (host_cost.DO_NOTHING, OURS, PEER)
COLUMNS = ["model", "batch", "do-nothing s", "pjrt s", "inductor s", "ratio", "result"]
NOTES = (
    "The fastest first call, of new processes that take turns, each with empty caches; imports and "
    "building the model are left out.",
    "ratio: pjrt less do-nothing, over inductor less do-nothing. Quote ratios only.",
)
SEED = 20_221_025

_PROCESS = "import sys; from torch_pjrt.bench import first_call; first_call.main(*sys.argv[1:])"


def main(name: str, backend: str, batch: str) -> None:
    """One such process: prints JSON."""
    import torch_pjrt  # noqa: F401  (an import, as that of torch is)

    spec = MODELS[name]
    model = spec.build(SEED)
    inputs = spec.inputs(int(batch), torch.Generator().manual_seed(SEED))
    does_nothing = backend == host_cost.DO_NOTHING
    fast: Any = torch.compile(model, backend=host_cost.do_nothing if does_nothing else backend)
    with torch.no_grad():
        start = time.perf_counter()
        result = fast(*inputs)
        first_s = time.perf_counter() - start
        want = model(*inputs)
    in_float64 = lambda: accuracy.in_float64(model, inputs)  # noqa: E731
    right = does_nothing or accuracy.compare(result, want, in_float64).passed
    print(json.dumps({"first_s": first_s, "right": right}))


def measure(spec: Spec, batch: int, repeat: int) -> dict[str, dict[str, Any]]:
    """Per backend the fastest process's record, wrong if any was. Raises RuntimeError."""
    records: dict[str, list[dict[str, Any]]] = {backend: [] for backend in BACKENDS}
    for _ in range(repeat):
        for backend, found in records.items():
            found.append(_process(spec.name, backend, batch))
    return {
        backend: {
            "first_s": min(record["first_s"] for record in found),
            "right": all(record["right"] for record in found),
        }
        for backend, found in records.items()
    }


def _process(*arguments: object) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="torch_pjrt-bench-") as folder:
        places = ("TORCH_PJRT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
        env = {**os.environ, **{name: os.path.join(folder, name) for name in places}}
        env.pop("TORCH_PJRT_CACHE", None)
        command = [sys.executable, "-c", _PROCESS, *map(str, arguments)]
        return process.printed(command, env)


def ratio(records: Mapping[str, Mapping[str, Any]]) -> float:
    nothing, ours, peer = (records[backend]["first_s"] for backend in BACKENDS)
    return float((ours - nothing) / (peer - nothing))


def row(spec: Spec, batch: int, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    cells = [f"{records[backend]['first_s']:.2f}" for backend in BACKENDS]
    wrong = [backend for backend in BACKENDS if not records[backend]["right"]]
    result = f"WRONG: {', '.join(wrong)}" if wrong else "passed"
    return [spec.name, str(batch), *cells, f"{ratio(records):.3f}", result]


def run(specs: Sequence[Spec], batch_size: int | None, repeat: int) -> bool:
    """Measures and prints; whether all went well."""
    rows, ratios, failures = [], [], []
    for spec in specs:
        print(spec.name, file=sys.stderr, flush=True)
        batch = batch_size or spec.batch_size
        try:
            records = measure(spec, batch, repeat)
        except RuntimeError as error:
            failures.append(f"{spec.name}: FAILED: {error}")
            continue
        rows.append(row(spec, batch, records))
        ratios.append(max(ratio(records), 1e-3))
    where = environment.describe(None)
    print(f"torch-pjrt benchmark: first call, inference, float32; {where['date']}")
    print(f"{where['processor']}, {where['cores']} cores; torch {where['versions']['torch']}\n")
    print("\n".join([report.drawn(COLUMNS, rows, sys.stdout), "", *failures]))
    mean = timing.geomean(ratios)
    if mean is not None:
        print(f"geomean ratio: {mean:.3f} over {len(ratios)} models")
    print("\n".join(NOTES), flush=True)
    return not failures and all(cells[-1] == "passed" for cells in rows)
