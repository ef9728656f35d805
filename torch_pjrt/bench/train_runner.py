"""Training of one model: each way is checked against float64 eager, or all are timed in one run."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo
from torch import nn

from . import counters, on_device, sides, timing, train_accuracy, train_glance, train_loop
from .compiling import cold_compiler, compiled, one_line
from .models.registry import Spec
from .results import BackendResult, ModelResult

if TYPE_CHECKING:
    from .runner import Options, Progress

# A backend's name in a run: torch_pjrt.train_step, beside the stock loop with each backend.
ONE_PROGRAM = "train_step"
# The stock loop on the device with each program's inputs run before it, data or not.
NAIVE = "naive_replay"
NAIVE_BACKEND = "pjrt"


@dataclass(frozen=True)
class Variant:
    """What is checked: without dropout, or with eager's own random numbers. float64s_sides: with
    ReLUs and max pools of which each element takes the side that it takes in float64."""

    name: str
    dropout: bool
    float64s_sides: bool = False

    def can(self, backend: str) -> bool:
        """Only our stock loop can draw eager's numbers."""
        return not self.dropout or (backend not in OWN and counters.is_ours(backend))


OWN = (ONE_PROGRAM, NAIVE)  # that aren't backends

WITHOUT_DROPOUT = Variant("without dropout", False)
EAGERS_DROPOUT = Variant('with random="eager"', True)
FLOAT64S_SIDES = Variant("without dropout, on float64's sides of ReLUs and max pools", False, True)


def with_one_program(backends: tuple[str, ...], naive_replay: bool = False) -> tuple[str, ...]:
    """The ways to train: by each of the backends, and by train_step where one of them is ours."""
    is_ours = any(counters.is_ours(backend) for backend in backends)
    ways = (*backends, ONE_PROGRAM) if is_ours else backends
    return (*ways, NAIVE) if naive_replay else ways


def check_and_time(
    spec: Spec, options: Options, seed: int, result: ModelResult, progress: Progress
) -> None:
    """By the rule with mode "accuracy"; otherwise what is timed had a glance at."""
    with cold_compiler([e.backend for e in result.backends if e.backend not in OWN]):
        if options.mode == "accuracy":
            _check(spec, seed, result, options.trace_on_device, progress)
        else:
            _time(spec, options, seed, result, progress)


def _check(
    spec: Spec, seed: int, result: ModelResult, on_the_device: bool, progress: Progress
) -> None:
    model = spec.build(seed)
    variants = [WITHOUT_DROPOUT]
    # Eager's numbers are the CPU's.
    if train_loop.has_dropout(model) and not on_the_device:
        variants.append(EAGERS_DROPOUT)
    has_sides = sides.has_sides(model)
    del model
    verdicts: dict[str, dict[str, train_accuracy.Verdict]] = {}
    for variant in variants:
        live = [
            entry
            for entry in result.backends
            if entry.status != "failed" and variant.can(entry.backend)
        ]
        for entry, verdict in _verdicts(
            spec, seed, variant, live, result.batch_size, on_the_device, progress
        ):
            verdicts.setdefault(entry.backend, {})[variant.name] = verdict
    for entry in result.backends:
        if entry.status != "failed" and entry.backend in verdicts:
            name, verdict = train_accuracy.worst(verdicts[entry.backend])
            entry.status = "passed" if verdict.passed else "wrong"
            entry.error = verdict.error
            entry.message = "" if verdict.passed else f"{name}: {verdict.message}"
            entry.rule = verdict.used
    wrong = [entry for entry in result.backends if entry.status == "wrong"]
    if wrong and has_sides:
        # How much of it is chance.
        variant, batch = FLOAT64S_SIDES, result.batch_size
        for entry, verdict in _verdicts(spec, seed, variant, wrong, batch, on_the_device, progress):
            verdict_of = "passes" if verdict.passed else f"fails: {verdict.message}"
            entry.message += f"; {variant.name} it {verdict_of} ({verdict.used})"


class _Trained:
    """A model that is trained one way, over and over from given weights."""

    def __init__(self, model: nn.Module, entry: BackendResult, variant: Variant) -> None:
        self.model, self._entry = model, entry
        self._warm = counters.Watch(_is_ours(entry.backend))
        self._is_compiled = False
        if entry.backend == ONE_PROGRAM:
            self._step = train_loop.one_program_step(model, keep_grads=True)
        elif entry.backend == NAIVE:
            self._step = train_loop.naive_step(model, compiled(model, NAIVE_BACKEND))
        else:
            random = "eager" if variant.dropout else None
            self._step = train_loop.stock_step(model, compiled(model, entry.backend, random))

    def observe(
        self, weights: dict[str, Any], arguments: tuple[Any, ...], seed: int
    ) -> train_loop.Observed:
        """The very first call's time and counts go into the entry."""
        self.model.load_state_dict(weights)
        watch = self._warm if self._is_compiled else counters.Watch(self._warm.ours)
        with watch.watching():
            found = _observe(self.model, self._step, arguments, seed)
        self._is_compiled = True
        if self._entry.first_call_s is None:
            self._entry.first_call_s = found.first_step_s
            self._entry.cold_counts = dict(watch.moved)
            self._entry.warnings += counters.cold_warnings(self._entry.cold_counts, watch.ours)
        return found

    def warm_warnings(self) -> list[str]:
        """Of the steps after those that compiled."""
        warm, steps = self._warm, self._warm.entered * train_accuracy.STEPS
        return counters.warm_warnings(warm.moved, steps, warm.ours, "in checked steps")


def _observe(
    model: nn.Module, step: train_loop.Step, arguments: tuple[Any, ...], seed: int
) -> train_loop.Observed:
    torch.manual_seed(seed)
    return train_loop.observe(model, step, arguments, train_accuracy.STEPS)


def _verdicts(
    spec: Spec,
    first_seed: int,
    variant: Variant,
    entries: list[BackendResult],
    batch: int,
    on_the_device: bool,
    progress: Progress,
) -> Iterator[tuple[BackendResult, train_accuracy.Verdict]]:
    """Errors against float64 eager over seeds of weights and batches; one that raises has none."""
    own = train_accuracy.Errors()
    found = {entry.backend: train_accuracy.Errors() for entry in entries}
    ways: dict[str, _Trained] = {}
    for seed in range(first_seed, first_seed + train_accuracy.SEEDS):
        progress(f"eager {variant.name}, seed {seed - first_seed + 1}", 0, 0)
        model = spec.build(seed).train()
        if not variant.dropout:
            train_loop.without_dropout(model)
        if variant.float64s_sides:
            model = sides.sided(model)
        weights = copy.deepcopy(model.state_dict())
        arguments = _batch(spec, model, batch, seed)
        wide = copy.deepcopy(model).double()
        if variant.float64s_sides:
            sides.take(model, wide, _in_float64(arguments)[:-1])
            for way in ways.values():
                sides.take(way.model, wide, ())
        exact = _observe(wide, train_loop.stock_step(wide), _in_float64(arguments), seed)
        del wide
        own.add(_observe(model, train_loop.stock_step(model), arguments, seed), exact)
        for entry in entries:
            if entry.status == "failed":
                continue
            progress(f"{entry.backend} {variant.name}, seed {seed - first_seed + 1}", 0, 0)
            try:
                if entry.backend not in ways:
                    own_model = _placed(copy.deepcopy(model), on_the_device)
                    ways[entry.backend] = _Trained(own_model, entry, variant)
                given = on_device.moved(arguments) if on_the_device else arguments
                found[entry.backend].add(ways[entry.backend].observe(weights, given, seed), exact)
            except Exception as error:
                entry.status, entry.message = "failed", f"{variant.name}: {one_line(error)}"
    for entry in entries:
        if entry.status != "failed":
            entry.warnings += ways[entry.backend].warm_warnings()
            yield entry, train_accuracy.judge(found[entry.backend], own)


def _placed(model: nn.Module, on_the_device: bool) -> nn.Module:
    return model.to("pjrt") if on_the_device else model


def _batch(spec: Spec, model: nn.Module, batch: int, seed: int) -> tuple[Any, ...]:
    """The model's arguments, and the classes."""
    generator = torch.Generator().manual_seed(seed)
    inputs = spec.inputs(batch, generator)
    return (*inputs, train_loop.classes_for(model, inputs, generator))


def _in_float64(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
        for a in arguments
    )


def _time(
    spec: Spec,
    options: Options,
    seed: int,
    result: ModelResult,
    progress: Progress,
) -> None:
    """With the model's own dropout, of the backend's own numbers. What is wrong at a glance isn't
    timed."""
    model = spec.build(seed).train()
    generator = torch.Generator().manual_seed(seed)
    inputs = functools.partial(spec.inputs, result.batch_size, generator)
    arguments = inputs()
    classes = train_loop.classes_for(model, arguments, generator)
    on_the_device = options.trace_on_device
    finish = on_device.finish if options.device_baseline else _nothing
    own = _placed(copy.deepcopy(model), options.device_baseline)
    eager = train_loop.stock_step(own)
    if options.device_baseline:
        eager = on_device.started(_moving(eager))
    first = train_glance.FirstStep.of(eager(*arguments, classes), model, own)
    sides = [timing.Side("(eager)", eager, finish=finish)]
    watches: dict[str, counters.Watch] = {}
    for entry in result.backends:
        progress(f"compiling by {entry.backend}", 0, 0)
        try:
            placed = _placed(copy.deepcopy(model), on_the_device)
            step = _first_step(placed, entry, on_the_device, (*arguments, classes), first)
        except Exception as error:
            entry.status, entry.message = "failed", one_line(error)
            continue
        if entry.status == "passed":
            watch = watches[entry.backend] = counters.Watch(_is_ours(entry.backend))
            sides.append(timing.Side(entry.backend, step, watch.watching, finish=finish))
    del model, own, first
    if not watches:
        return

    def batch() -> tuple[Any, ...]:
        given: tuple[Any, ...] = (*(inputs() if options.randomize_input else arguments), classes)
        return on_device.moved(given) if on_the_device else given

    progress("warming up", 0, 0)
    timing.warm_up(sides, batch, rounds=1)
    progress("timing", 0, options.repeat)
    samples = timing.measure(
        sides,
        batch,
        options.repeat,
        options.iterations_per_run,
        lambda done: progress("timing", done, options.repeat),
    )
    result.interrupted = samples.interrupted
    result.baseline_samples_s = samples.seconds["(eager)"]
    for entry in result.backends:
        if watch_of := watches.get(entry.backend):
            entry.samples_s = samples.seconds[entry.backend]
            _judge_counts(entry, watch_of, options.iterations_per_run)


def _first_step(
    model: nn.Module,
    entry: BackendResult,
    on_the_device: bool,
    arguments: tuple[Any, ...],
    eager: train_glance.FirstStep,
) -> train_loop.Step:
    """The step of a model by a backend, after the first, which compiles it and is compared."""
    step = _step(model, entry.backend)
    if on_the_device:
        step = on_device.started(_moving(step))
    watch = counters.Watch(_is_ours(entry.backend))
    with watch.watching():
        start = time.perf_counter()
        loss = step(*arguments)
        entry.first_call_s = time.perf_counter() - start
    entry.cold_counts = dict(watch.moved)
    entry.warnings += counters.cold_warnings(entry.cold_counts, watch.ours)
    glance = train_glance.look(loss, model, eager, train_loop.has_dropout(model))
    entry.error, entry.message = glance.error, glance.problem
    entry.status = "wrong" if glance.problem else "passed"
    return step


def _nothing() -> None:
    pass


def _moving(step: train_loop.Step) -> train_loop.Step:
    return lambda *arguments: step(*on_device.moved(arguments))


def _step(model: nn.Module, backend: str) -> train_loop.Step:
    if backend == ONE_PROGRAM:
        return train_loop.one_program_step(model)
    if backend == NAIVE:
        return train_loop.naive_step(model, compiled(model, NAIVE_BACKEND))
    return train_loop.stock_step(model, compiled(model, backend))


def _is_ours(backend: str) -> bool:
    return backend in OWN or counters.is_ours(backend)


def _judge_counts(entry: BackendResult, watch: counters.Watch, iterations: int) -> None:
    entry.warm_counts = dict(watch.moved)
    steps = watch.entered * iterations
    entry.warnings += counters.warm_warnings(entry.warm_counts, steps, watch.ours)
    if watch.ours and steps:
        entry.executions_per_step = entry.warm_counts.get("executions", 0) / steps
