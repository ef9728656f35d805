"""`bench --dynamic-shapes`: what many sizes of one model cost, cold, after a restart, and known."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from . import counters, environment, process, report
from .models.registry import Spec

COLUMNS = ["model", "backend", "sizes", "cold s", "restart s", "restart / peer", "load() s"]
COLUMNS += ["load() / peer", "known ms", "lookup", "captures", "programs", "disk hits", "result"]
NOTES = (
    "cold: first calls of all sizes, in a new process without stored programs. restart: imports "
    "and the same calls in another new process.",
    "peer: imports, a capture by a backend that does nothing, and as many loads and runs. load(): "
    "imports, torch_pjrt.load and the first result; its peer: imports, and one load and run.",
    "lookup: a call of known sizes in turn by one of a static program, on a plugin that executes "
    "nothing.",
    "captures: in the cold process. programs: compiled there. disk hits: after the restart, with "
    "compiles and lowerings there behind it if any. Quote ratios only.",
)


_PROCESS = """
import time
start = time.perf_counter()
import sys
from torch_pjrt.bench import shapes
shapes.main(sys.argv[1:], time.perf_counter() - start)
"""


def _process(folder: str, *arguments: object) -> dict[str, Any]:
    """What a process of bench.shapes measured; raises RuntimeError with its last line."""
    env = {**os.environ, "TORCH_PJRT_CACHE_DIR": folder, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    env.pop("TORCH_PJRT_CACHE", None)
    return process.printed([sys.executable, "-c", _PROCESS, *map(str, arguments)], env)


def measure(spec: Spec, backend: str, shapes: int) -> dict[str, Any]:
    """The records of the processes, by name: cold; of our backends also restart, load, peer and
    host."""
    with tempfile.TemporaryDirectory(prefix="torch_pjrt-bench-") as folder:
        of = (spec.name, shapes, backend, f"{folder}/model.tpc")
        records = {"cold": _process(folder, "first", *of)}
        if counters.is_ours(backend):
            records["restart"] = _process(folder, "first", *of)
            _process(folder, "save", *of)
            records["load"] = _process(folder, "load", *of)
            records["peer"] = _process(folder, "peer", *of)
            records["host"] = _process(folder, "host", *of)
    return records


def row(spec: Spec, backend: str, shapes: int, records: dict[str, Any]) -> list[str]:
    cold, restart = records["cold"], records.get("restart")
    counts = cold["counts"]
    cells = [spec.name, backend, str(shapes), f"{cold['first_s']:.2f}"]
    if restart:
        peer, host, load = records["peer"], records["host"], records["load"]
        restart_s = restart["imports_s"] + restart["first_s"]
        peer_s = peer["imports_s"] + peer["capture_s"] + restart["loads_s"]
        cells += [f"{restart_s:.2f}", f"{restart_s / peer_s:.2f}"]
        load_s, one_s = (load["imports_s"] + load[name] for name in ("first_s", "one_s"))
        cells += [f"{load_s:.2f}", f"{load_s / one_s:.2f}"]
        cells += [f"{cold['known_s'] * 1e3:.2f}", f"{host['dynamic_s'] / host['static_s']:.2f}"]
        again = restart["counts"]
        more = [f"{again[n]} {n}" for n in ("compiles", "lowerings") if again.get(n)]
        hits = ", ".join([str(again.get("disk_hits", 0)), *more])
        cells += [str(counts["captures"]), str(counts["compiles"]), hits]
    else:
        cells += [report.NOTHING] * 4 + [f"{cold['known_s'] * 1e3:.2f}", report.NOTHING]
        cells += [str(counts[counters.GRAPHS]), report.NOTHING, report.NOTHING]
    checked = [record for record in records.values() if "wrong" in record]
    wrong = sorted({n for record in checked for n in record["wrong"]})
    return [*cells, f"WRONG at sizes {wrong}" if wrong else "passed"]


def run(specs: Sequence[Spec], backends: Sequence[str], shapes: int) -> bool:
    """Measures and prints; whether all went well."""
    rows, failures = [], []
    for spec in specs:
        for backend in backends:
            print(f"{spec.name}, {backend}: {shapes} sizes", file=sys.stderr, flush=True)
            try:
                rows.append(row(spec, backend, shapes, measure(spec, backend, shapes)))
            except RuntimeError as error:
                failures.append(f"{spec.name}, {backend}: FAILED: {error}")
    where = environment.describe(None)
    print(f"torch-pjrt benchmark: dynamic shapes, inference, float32; {where['date']}")
    print(f"{where['processor']}, {where['cores']} cores; torch {where['versions']['torch']}\n")
    print("\n".join([report.drawn(COLUMNS, rows, sys.stdout), "", *failures, *NOTES]), flush=True)
    return not failures and all(cells[-1] == "passed" for cells in rows)
