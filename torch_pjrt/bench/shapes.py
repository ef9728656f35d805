"""One process of `bench --dynamic-shapes`: a model at many sizes, by one backend; prints JSON.

A first call is cold only in a new process, which dynamic.py starts. The folder of programs is the
caller's: TORCH_PJRT_CACHE_DIR.
"""

from __future__ import annotations

import functools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._dynamo

import torch_pjrt

from . import accuracy, counters, host_cost
from .models.registry import MODELS, VOCABULARY, Spec

SEED = 20_221_025
TOKENS_STEP, MOST_TOKENS = 16, 512
ROUNDS = 5

Inputs = list[tuple[torch.Tensor, ...]]


def most_shapes(spec: Spec) -> int:
    return MOST_TOKENS // TOKENS_STEP if spec.family == "bert" else 1000


def make_inputs(spec: Spec, shapes: int) -> Inputs:
    """Token ids of 16, 32, ... tokens for BERT; of other models batches of 2, 3, ..."""
    generator = torch.Generator().manual_seed(SEED)
    if spec.family != "bert":
        return [spec.inputs(batch, generator) for batch in range(2, shapes + 2)]
    lengths = range(TOKENS_STEP, TOKENS_STEP * (shapes + 1), TOKENS_STEP)
    size = spec.batch_size
    return [(torch.randint(0, VOCABULARY, (size, n), generator=generator),) for n in lengths]


def _timed(call: Callable[..., Any], inputs: Inputs) -> tuple[float, list[Any]]:
    start = time.perf_counter()
    results = [call(*arguments) for arguments in inputs]
    return time.perf_counter() - start, results


def _per_call(call: Callable[..., Any], inputs: Inputs) -> float:
    """Seconds of a call at a known size: the median of rounds over all sizes."""
    return statistics.median(_timed(call, inputs)[0] for _ in range(ROUNDS)) / len(inputs)


def first_calls(spec: Spec, shapes: int, backend: str, imports_s: float) -> dict[str, Any]:
    """First calls of all sizes, checked against eager; then known ones, and our backends' loads."""
    ours = counters.is_ours(backend)
    model = spec.build(SEED)
    inputs = make_inputs(spec, shapes)
    expected = [model(*arguments) for arguments in inputs]
    fast = torch.compile(model, backend=backend, dynamic=True)
    watch = counters.Watch(ours)
    with watch.watching():
        first_s, results = _timed(fast, inputs)
    errors = [
        accuracy.compare(got, want, functools.partial(accuracy.in_float64, model, arguments))
        for want, got, arguments in zip(expected, results, inputs, strict=True)
    ]
    record: dict[str, Any] = {
        "imports_s": imports_s,
        "first_s": first_s,
        "counts": dict(watch.moved),
        "wrong": [n for n, error in enumerate(errors) if not error.passed],
        "known_s": _per_call(fast, inputs),
    }
    if ours:
        torch_pjrt.set_max_program_bytes(0)  # each call loads its program
        before = torch_pjrt.stats()["disk_hits"]
        record["loads_s"], _ = _timed(fast, inputs)
        record["loads"] = torch_pjrt.stats()["disk_hits"] - before
    return record


def save(spec: Spec, shapes: int, backend: str, path: str) -> dict[str, Any]:
    """Writes the model with the programs of all sizes to a file for torch_pjrt.load."""
    fast = torch.compile(spec.build(SEED), backend=backend, dynamic=True)
    torch_pjrt.save(fast, path, make_inputs(spec, shapes))
    return {}


def load(spec: Spec, shapes: int, path: str, imports_s: float) -> dict[str, Any]:
    """torch_pjrt.load and the first result, checked against eager; then the first of a second size,
    which loads and runs one program."""
    model = spec.build(SEED)
    first, second = make_inputs(spec, shapes)[:2]
    start = time.perf_counter()
    fast = torch_pjrt.load(path, model)
    result = fast(*first)
    first_s = time.perf_counter() - start
    error = accuracy.compare(
        result, model(*first), functools.partial(accuracy.in_float64, model, first)
    )
    return {
        "imports_s": imports_s,
        "first_s": first_s,
        "one_s": _timed(fast, [second])[0],
        "counts": torch_pjrt.stats(),
        "wrong": [] if error.passed else [0],
    }


def peer_capture(spec: Spec, shapes: int, imports_s: float) -> dict[str, Any]:
    """Captures by a backend whose compiler does nothing."""
    model = spec.build(SEED)
    inputs = make_inputs(spec, shapes)
    fast = torch.compile(model, backend=host_cost.do_nothing, dynamic=True)
    capture_s, _ = _timed(fast, inputs[:2])
    return {"imports_s": imports_s, "capture_s": capture_s}


def host_calls(spec: Spec, shapes: int) -> dict[str, Any]:
    """Seconds of a call on the null device: of all sizes in turn, and as often of the middle one by
    a static program. They alternate, and neither was compiled after a reset of Dynamo, whose traces
    slow down what is compiled next."""
    inputs = make_inputs(spec, shapes)
    middle = [inputs[shapes // 2]] * shapes
    options: dict[str, Any] = {"plugin": "fake", "disk_cache": False}
    compiled = [
        torch.compile(spec.build(SEED), backend="pjrt", dynamic=dynamic, options=options)
        for dynamic in (False, True)
    ]
    calls = list(zip(compiled, (middle, inputs), strict=True))
    for call, arguments in calls:
        _timed(call, arguments)
    rounds = [[_timed(call, arguments)[0] for call, arguments in calls] for _ in range(ROUNDS)]
    static_s, dynamic_s = (statistics.median(times) / shapes for times in zip(*rounds, strict=True))
    return {"static_s": static_s, "dynamic_s": dynamic_s}


def main(arguments: Sequence[str], imports_s: float) -> None:
    """arguments: a role ("first", "save", "load", "peer", "host"), the model, the number of sizes,
    the backend, the file of the saved model. imports_s: how long it took to import this module."""
    role, name, shapes, backend, path = arguments
    spec = MODELS[name]
    with torch.no_grad():
        if role == "first":
            record = first_calls(spec, int(shapes), backend, imports_s)
        elif role == "save":
            record = save(spec, int(shapes), backend, path)
        elif role == "load":
            record = load(spec, int(shapes), path, imports_s)
        elif role == "peer":
            record = peer_capture(spec, int(shapes), imports_s)
        else:
            record = host_calls(spec, int(shapes))
    print(json.dumps(record))
