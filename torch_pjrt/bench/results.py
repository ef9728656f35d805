"""What was measured, as data; written as CSV and JSON, each file all at once."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from . import timing

JSON_SCHEMA = 1
PERFORMANCE_COLUMNS = (
    "dev",
    "name",
    "batch_size",
    "speedup",
    "abs_latency",
    "compilation_latency",
    "backend",
)
ACCURACY_COLUMNS = ("dev", "name", "batch_size", "accuracy", "error", "backend")
NULL_DEVICE_COLUMNS = ("dev", "name", "batch_size", "ratio", "abs_latency", "error", "backend")

Mode = Literal["accuracy", "performance", "null-device"]
# "pending" is a backend that an interruption or an earlier failure kept from being tried.
Status = Literal["pending", "passed", "wrong", "failed"]


@dataclass
class BackendResult:
    """One model under one backend. error is the largest: of an output, as a part of its scale, or
    in training of a parameter's gradient, relative to its norm. executions_per_step: of our
    programs, in training."""

    backend: str
    status: Status = "pending"
    error: float | None = None
    rule: str = ""
    message: str = ""
    first_call_s: float | None = None
    samples_s: list[float] = field(default_factory=list)
    cold_counts: dict[str, int] = field(default_factory=dict)
    warm_counts: dict[str, int] = field(default_factory=dict)
    executions_per_step: float | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def latency_s(self) -> float | None:
        return statistics.median(self.samples_s) if self.samples_s else None

    @property
    def compilation_s(self) -> float | None:
        """The first call less a warm one; None if nothing warm was timed."""
        if self.first_call_s is None or self.latency_s is None:
            return None
        return self.first_call_s - self.latency_s


@dataclass
class ModelResult:
    """One model under every backend asked for, measured in the same rounds."""

    name: str
    family: str
    batch_size: int
    parameters: int
    published_once: float | None
    backends: list[BackendResult]
    baseline_samples_s: list[float] = field(default_factory=list)
    interrupted: bool = False

    @property
    def baseline_s(self) -> float | None:
        return statistics.median(self.baseline_samples_s) if self.baseline_samples_s else None

    @property
    def failed(self) -> bool:
        return any(result.status in ("wrong", "failed") for result in self.backends)

    def speedup(self, result: BackendResult) -> float | None:
        return timing.speedup(self.baseline_samples_s, result.samples_s)

    def ratio(self, result: BackendResult) -> float | None:
        """How many times the time of the do-nothing backend that follows it this one takes; None
        where there is none."""
        place = next(i for i, other in enumerate(self.backends) if other is result)
        if place % 2 == 1 or place + 1 == len(self.backends):
            return None
        return timing.speedup(result.samples_s, self.backends[place + 1].samples_s)

    def fail(self, message: str) -> None:
        """Marks every backend that hasn't failed already: the model as a whole was lost."""
        for result in self.backends:
            if result.status not in ("wrong", "failed"):
                result.status, result.message = "failed", message


@dataclass
class Run:
    """A whole run: what was asked for, where, and the results in order."""

    mode: Mode
    backends: list[str]
    options: dict[str, Any]
    environment: dict[str, Any]
    models: list[ModelResult] = field(default_factory=list)
    interrupted: bool = False

    @property
    def failed(self) -> bool:
        return any(model.failed for model in self.models)

    def geomean(self, backend: str) -> float | None:
        """The geometric mean of this backend's speed-ups over the models that were timed."""
        return timing.geomean([speedup for _, speedup in self.speedups(backend)])

    def speedups(self, backend: str) -> list[tuple[ModelResult, float]]:
        found = []
        for model in self.models:
            for result in model.backends:
                speedup = model.speedup(result)
                if result.backend == backend and speedup is not None:
                    found.append((model, speedup))
        return found


def csv_text(run: Run) -> str:
    """One row per model and backend. abs_latency is in ms, compilation_latency in s, ratio that to
    the do-nothing backend's time; a number that wasn't measured is an empty cell."""
    text = io.StringIO()
    columns = {
        "performance": PERFORMANCE_COLUMNS,
        "accuracy": ACCURACY_COLUMNS,
        "null-device": NULL_DEVICE_COLUMNS,
    }[run.mode]
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for model in run.models:
        for result in model.backends:
            latency = result.latency_s
            writer.writerow(
                {
                    "dev": "cpu",
                    "name": model.name,
                    "batch_size": model.batch_size,
                    "speedup": _cell(model.speedup(result)),
                    "ratio": _cell(model.ratio(result)),
                    "abs_latency": _cell(None if latency is None else latency * 1e3),
                    "compilation_latency": _cell(result.compilation_s),
                    "accuracy": result.status,
                    "error": _cell(result.error),
                    "backend": result.backend,
                }
            )
    return text.getvalue()


def _cell(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def json_text(run: Run) -> str:
    """The full record, raw samples included. Times are in s; a number that isn't finite is null."""
    record = {
        "schema": JSON_SCHEMA,
        "mode": run.mode,
        "options": run.options,
        "environment": run.environment,
        "interrupted": run.interrupted,
        "geomean": {backend: run.geomean(backend) for backend in run.backends},
        "models": [_model_record(model) for model in run.models],
    }
    return json.dumps(_finite(record), indent=1, allow_nan=False) + "\n"


def _model_record(model: ModelResult) -> dict[str, Any]:
    record = asdict(model)
    record["baseline_s"] = model.baseline_s
    for entry, result in zip(record["backends"], model.backends, strict=True):
        entry["speedup"] = model.speedup(result)
        entry["ratio"] = model.ratio(result)
        entry["latency_s"] = result.latency_s
        entry["compilation_s"] = result.compilation_s
    return record


def _finite(value: Any) -> Any:
    """`value` with None for every float that JSON can't hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_finite(item) for item in value]
    return value


def write_atomically(path: Path, text: str) -> None:
    """Replaces `path` by `text` in one step: a reader sees the old file or the whole new one.

    Raises OSError if the folder can't be written to; then nothing is left behind.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_all(run: Run, files: Sequence[tuple[Path | None, str]]) -> None:
    """Writes `run` to each (path, "csv" or "json"); a path of None is skipped."""
    for path, kind in files:
        if path is not None:
            write_atomically(path, csv_text(run) if kind == "csv" else json_text(run))
