"""Runs models: build, compile by each backend, check against eager, then time in one run."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo

from . import accuracy, counters, host_cost, isolate, on_device, peers, timing, train_runner
from .compiling import cold_compiler, one_line
from .compiling import compiled as compile_cold
from .models.registry import Spec
from .results import BackendResult, Mode, ModelResult

SEED = 20_221_025
WARM_UP_ROUNDS = 3
BASELINE = "(eager)"

# (what is being done, rounds done, rounds in all; 0 of 0 outside the timing). Raises
# KeyboardInterrupt if the run is to end.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Options:
    """batch_size and threads of None mean the model's own and torch's own. device_baseline: the
    backends are compared with the model on device="pjrt", without Dynamo. trace_on_device: they
    take the model there too. naive_replay: train_runner.NAIVE is timed too.
    """

    mode: Mode
    backends: tuple[str, ...]
    repeat: int = 30
    iterations_per_run: int = 1
    randomize_input: bool = False
    batch_size: int | None = None
    threads: int | None = None
    training: bool = False
    device_baseline: bool = False
    trace_on_device: bool = False
    naive_replay: bool = False


@dataclass(frozen=True)
class Case:
    """Arguments, eager's float32 outputs for them, and a way to float64 eager's."""

    arguments: tuple[Any, ...]
    expected: Any
    reference: Callable[[], Any]


def run_models(
    specs: Sequence[Spec],
    options: Options,
    progress: Callable[[str, str, int, int], None],
    on_result: Callable[[ModelResult], None],
    isolated: bool = True,
) -> bool:
    """Runs each model and hands its result to on_result; returns True if Ctrl-C ended it early.

    If isolated, each runs in a forked process of its own, so that one that crashes, or takes all
    the memory, costs its own row only; this process must not have used torch's threads before.
    """
    for spec in specs:
        work = functools.partial(run_model, spec, options)
        tell = functools.partial(progress, spec.name)
        if not isolated:
            result = work(tell)
            on_result(result)
            if result.interrupted:
                return True
            continue
        outcome = isolate.run_isolated(work, tell)
        result = outcome.value or blank_result(spec, options)
        if outcome.interrupted:
            result.interrupted = True
        elif outcome.value is None:
            result.fail(outcome.lost)
        on_result(result)
        if outcome.interrupted:
            return True
    return False


def blank_result(spec: Spec, options: Options) -> ModelResult:
    """The result of a model that nothing has been done with yet."""
    return ModelResult(
        name=spec.name,
        family=spec.family,
        batch_size=options.batch_size or spec.batch_size,
        parameters=spec.parameters,
        published_once=_published(spec, options),
        backends=[BackendResult(backend) for backend in options.backends],
    )


def _published(spec: Spec, options: Options) -> float | None:
    if options.training:
        return spec.published_training
    return spec.published_on_device if options.trace_on_device else spec.published_once


def run_model(spec: Spec, options: Options, progress: Progress) -> ModelResult:
    """Runs one model in this process. Any exception becomes part of the result, and Ctrl-C ends it
    with what was measured until then."""
    result = blank_result(spec, options)
    try:
        if options.threads is not None:
            torch.set_num_threads(options.threads)
        if options.training:
            train_runner.check_and_time(spec, options, SEED, result, progress)
        else:
            with torch.no_grad():
                _check_and_time(spec, options, result, progress)
    except KeyboardInterrupt:
        result.interrupted = True
    except Exception as error:
        result.fail(one_line(error))
    return result


def _check_and_time(spec: Spec, options: Options, result: ModelResult, progress: Progress) -> None:
    progress("building", 0, 0)
    model = spec.build(SEED)
    generator = torch.Generator().manual_seed(SEED)
    fresh = functools.partial(spec.inputs, result.batch_size, generator)
    cases = [_case(model, fresh()) for _ in range(2)]

    null_device = options.mode == "null-device"
    place = on_device.moved if options.trace_on_device else _as_they_are
    sides = [_baseline(model, options, null_device)]
    if options.trace_on_device:
        model = on_device.copied(model)
    watches: dict[str, counters.Watch] = {}
    with cold_compiler(list(host_cost.CHECKED.values()) if null_device else options.backends):
        for entry in result.backends:
            progress(f"compiling by {entry.backend}, checking", 0, 0)
            try:
                if null_device:
                    compiled = _null_device_side(model, cases, entry)
                else:
                    compiled = _compile_and_check(model, cases, entry, entry.backend, place)
            except Exception as error:
                entry.status, entry.message = "failed", one_line(error)
                continue
            if entry.status == "passed":
                watch = counters.Watch(_is_ours(entry.backend))
                watches[entry.backend] = watch
                sides.append(_side(entry.backend, compiled, watch, options))
    if options.mode == "accuracy" or not watches:
        return

    def inputs() -> tuple[Any, ...]:
        moved: tuple[Any, ...] = place(fresh() if options.randomize_input else cases[0].arguments)
        return moved

    progress("warming up", 0, 0)
    timing.warm_up(sides, inputs, WARM_UP_ROUNDS)
    progress("timing", 0, options.repeat)
    samples = timing.measure(
        sides,
        inputs,
        options.repeat,
        options.iterations_per_run,
        lambda done: progress("timing", done, options.repeat),
    )
    result.interrupted = samples.interrupted
    result.baseline_samples_s = samples.seconds[BASELINE]
    for entry in result.backends:
        if entry.backend in watches:
            entry.samples_s = samples.seconds[entry.backend]
            _judge_counts(entry, watches[entry.backend], options.iterations_per_run)


def _as_they_are(values: Any) -> Any:
    return values


def _baseline(model: torch.nn.Module, options: Options, null_device: bool) -> timing.Side:
    if options.device_baseline:
        return timing.Side(BASELINE, on_device.every_time(model), finish=on_device.finish)
    return timing.Side(BASELINE, model, iterations=1 if null_device else None)


def _side(
    name: str, compiled: Callable[..., object], watch: counters.Watch, options: Options
) -> timing.Side:
    if not options.trace_on_device:
        return timing.Side(name, compiled, watch.watching)
    return timing.Side(name, on_device.started(compiled), watch.watching, finish=on_device.finish)


def _case(model: torch.nn.Module, arguments: tuple[Any, ...]) -> Case:
    reference = functools.cache(lambda: accuracy.in_float64(model, arguments))
    return Case(arguments, model(*arguments), reference)


def _is_ours(backend: str) -> bool:
    if backend in host_cost.BACKENDS:
        return backend in host_cost.OURS
    return counters.is_ours(backend)


def _null_device_side(
    model: torch.nn.Module, cases: Sequence[Case], entry: BackendResult
) -> Callable[..., object]:
    """The model by one of host_cost.BACKENDS. Ours is checked on the real plugin first, and is no
    better than that check; the do-nothing backend has no values to check."""
    if entry.backend in host_cost.CHECKED:
        _compile_and_check(model, cases, entry, host_cost.CHECKED[entry.backend])
        torch._dynamo.reset()
    else:
        entry.status = "passed"
    return host_cost.compiled(entry.backend, model, cases[0].arguments)


def _compile_and_check(
    model: torch.nn.Module,
    cases: Sequence[Case],
    entry: BackendResult,
    backend: str,
    place: Callable[[Any], Any] = _as_they_are,
) -> Callable[..., object]:
    """Calls the model, compiled by `backend`, on every case, the first call cold, and fills in
    `entry`. `place` moves arguments to where the model is."""
    watch = counters.Watch(counters.is_ours(backend))
    compiled = compile_cold(model, backend)
    checks: list[accuracy.Check] = []
    for case in cases:
        with watch.watching() if not checks else contextlib.nullcontext():
            arguments = place(case.arguments)
            start = time.perf_counter()
            actual = on_device.on_host(compiled(*arguments))
            elapsed = time.perf_counter() - start
        if not checks:
            entry.first_call_s = elapsed
        checks.append(accuracy.compare(actual, case.expected, case.reference))
    check = accuracy.worst(checks)
    entry.status = "passed" if check.passed else "wrong"
    entry.error, entry.rule, entry.message = check.error, check.rule, check.message
    entry.cold_counts = dict(watch.moved)
    # Our frozen forms find the program that pjrt has compiled.
    if backend not in peers.NAMES:
        entry.warnings += counters.cold_warnings(entry.cold_counts, watch.ours)
    return compiled


def _judge_counts(entry: BackendResult, watch: counters.Watch, iterations: int) -> None:
    entry.warm_counts = dict(watch.moved)
    entry.warnings += counters.warm_warnings(
        entry.warm_counts, watch.entered * iterations, watch.ours
    )
