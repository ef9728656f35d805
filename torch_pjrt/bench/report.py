"""What a person sees: progress on stderr while it runs, tables on stdout at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

import rich.box
import rich.console
import rich.progress
import rich.table
import rich.text

from .results import BackendResult, ModelResult, Run
from .timing import geomean

PLAIN_WIDTH = 2000
NOTHING = "-"
# Each backend's columns, by mode.
TIMED = ["speed-up", "ms", "compile s", "error", "warnings"]
TRAINED = ["speed-up", "ms", "compile s", "programs a step", "error", "warnings"]
CHECKED = ["result", "error", "rule", "warnings"]
KEPT = ["weights' check ms", "kept MB"]
HOST_COST = ["model", "batch", "eager µs", "do-nothing µs", "null device µs", "ratio"]
HOST_COST += ["do-nothing frozen µs", "frozen µs", "ratio frozen", "error", "warnings"]


class ProgressDisplay:
    """Shows what runs: a bar on a terminal, else a line of text per stage.

    Nothing is drawn between calls of show(), so that drawing can't disturb a measurement, and no
    thread is started, so that the process may fork.
    """

    def __init__(self, models: Sequence[str], stream: IO[str] | None = None) -> None:
        self._models = list(models)
        self._stream = stream or sys.stderr
        self._last_line = ""
        self._bar: rich.progress.Progress | None = None
        if self._stream.isatty():
            self._bar = rich.progress.Progress(
                rich.progress.MofNCompleteColumn(),
                rich.progress.BarColumn(),
                rich.progress.TextColumn("{task.description}"),
                console=rich.console.Console(file=self._stream),
                auto_refresh=False,
                transient=True,
            )
            self._models_task = self._bar.add_task("models", total=len(self._models))
            self._rounds_task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, model: str, stage: str, done: int, total: int) -> None:
        """`stage` of `model`; done and total count rounds, 0 of 0 if there are none."""
        position = self._models.index(model)
        if self._bar:
            self._bar.update(self._models_task, completed=position)
            self._bar.update(
                self._rounds_task, description=f"{model}: {stage}", completed=done, total=total
            )
            self._bar.refresh()
            return
        line = f"[{position + 1}/{len(self._models)}] {model}: {stage}"
        if line != self._last_line:
            print(line, file=self._stream, flush=True)
            self._last_line = line


def header(run: Run) -> list[str]:
    """Lines that say what ran where."""
    where = run.environment
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    options = ", ".join(f"{name} {value}" for name, value in run.options.items())
    return [
        f"torch-pjrt benchmark: {run.mode}, {_kind(run)}, float32; {where['date']}",
        versions,
        f"{where['processor']}, {where['cores']} cores, {where['threads']} threads; "
        f"{where['system']}",
        options,
    ]


def _is_training(run: Run) -> bool:
    return bool(run.options.get("training"))


def _kind(run: Run) -> str:
    return "training" if _is_training(run) else "inference"


def table(run: Run) -> tuple[list[str], list[list[str]]]:
    """Column titles and one row of cells per model."""
    if run.mode == "null-device":
        return HOST_COST, [_host_cost_row(model) for model in run.models]
    performance = run.mode == "performance"
    titles = ["model", "batch"] + ([f"{_baseline(run)} ms"] if performance else [])
    timed = TRAINED if _is_training(run) else TIMED
    for backend in run.backends:
        titles += [f"{backend} {part}" for part in (timed if performance else CHECKED)]
    titles += [f"{_published(run)} once (GPU, published)"] if performance else []
    titles += KEPT if performance and _shows_kept(run) else []
    return titles, [_row(run, model, performance) for model in run.models]


def _shows_kept(run: Run) -> bool:
    return {"pjrt", "pjrt_frozen"} <= set(run.backends)


def _kept(model: ModelResult) -> list[str]:
    """What it costs to see writes to weights, and the copies of these in the device's order."""
    found = {result.backend: result for result in model.backends}
    checked, frozen = found["pjrt"], found["pjrt_frozen"]
    kept = checked.cold_counts.get("relaid_bytes")
    cost = NOTHING
    if checked.latency_s is not None and frozen.latency_s is not None:
        cost = f"{(checked.latency_s - frozen.latency_s) * 1e3:.3g}"
    return [cost, NOTHING if kept is None else f"{kept / 2**20:.0f}"]


def _baseline(run: Run) -> str:
    """What the speed-ups are over."""
    return "device" if run.options.get("baseline") == "device" else "eager"


def _published(run: Run) -> str:
    """The published table that has the same kind of run."""
    if _is_training(run):
        return "R3"
    return "R2" if run.options.get("trace_on_device") else "R1"


def _host_cost_row(model: ModelResult) -> list[str]:
    cells = [_name(model), str(model.batch_size), _microseconds(model.baseline_s)]
    for ours, nothing in zip(model.backends[::2], model.backends[1::2], strict=True):
        ratio = model.ratio(ours)
        cells += [
            _microseconds(nothing.latency_s),
            _microseconds(ours.latency_s),
            _verdict(ours) if ratio is None else f"{ratio:.2f}",
        ]
    warnings = [warning for result in model.backends for warning in result.warnings]
    return [*cells, _error(model.backends[0]), "; ".join(warnings) or NOTHING]


def _name(model: ModelResult) -> str:
    if not model.interrupted:
        return model.name
    return f"{model.name} (interrupted, {len(model.baseline_samples_s)} rounds)"


def _row(run: Run, model: ModelResult, performance: bool) -> list[str]:
    cells = [_name(model), str(model.batch_size)]
    cells += [_milliseconds(model.baseline_s)] if performance else []
    for result in model.backends:
        speedup = model.speedup(result)
        verdict = _verdict(result)
        if performance:
            timed = verdict if speedup is None else f"{speedup:.3f}"
            cells += [timed, _milliseconds(result.latency_s), _seconds(result.compilation_s)]
            cells += [_programs(result)] if _is_training(run) else []
            cells += [_error(result)]
        else:
            cells += [verdict, _error(result), result.rule or NOTHING]
        cells.append("; ".join(result.warnings) or NOTHING)
    if performance:
        cells.append(NOTHING if model.published_once is None else f"{model.published_once:.3f}")
        cells += _kept(model) if _shows_kept(run) else []
    return cells


def _verdict(result: BackendResult) -> str:
    return {"pending": "not run", "passed": "passed", "wrong": "WRONG", "failed": "FAILED"}[
        result.status
    ]


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    milliseconds = seconds * 1e3
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def _microseconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds * 1e6:.1f}"


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:.2f}"


def _programs(result: BackendResult) -> str:
    return NOTHING if result.executions_per_step is None else f"{result.executions_per_step:.3g}"


def _error(result: BackendResult) -> str:
    return NOTHING if result.error is None else f"{result.error:.1e}"


def failures(run: Run) -> list[str]:
    """A line for each model and backend that failed, with the reason."""
    return [
        f"{model.name}, {result.backend}: {_verdict(result)}: {result.message}"
        for model in run.models
        for result in model.backends
        if result.status in ("wrong", "failed")
    ]


def geomeans(run: Run) -> list[str]:
    """A line for each backend, with the published figure over the same models if there is."""
    lines = []
    for backend in run.backends:
        mean = run.geomean(backend)
        models = [model for model, _ in run.speedups(backend)]
        if mean is None:
            lines.append(f"geomean {backend}: nothing was timed")
            continue
        line = f"geomean {backend}: {mean:.3f} over {len(models)} of {len(run.models)} models"
        published = [model.published_once for model in models if model.published_once is not None]
        if len(published) == len(models):
            line += f" ({_published(run)} once, published, over the same: {geomean(published):.3f})"
        lines.append(line)
    return lines


NOTES = (
    "speed-up: median(eager) / median(compiled), measured in turns. Quote ratios only: the "
    "milliseconds hold for this machine and this run.",
    "compile s: first call less a warm one. error: the largest, as a part of the output's scale.",
    "R1, R2 once: the published tables', measured on a GPU against their own baselines.",
)
KEPT_NOTE = (
    "pjrt_frozen: options freeze=True; pjrt_handle: torch_pjrt.freeze. weights' check: pjrt less "
    "pjrt_frozen, which doesn't look whether weights were written to. kept: copies of weights in "
    "the device's order. The frozen forms' first calls find pjrt's program compiled."
)


DEVICE_NOTE = (
    "device: instead of eager, the model on device pjrt without Dynamo, recorded and run at each "
    "call; each sample ends when the device has done all."
)


TRAINING_NOTES = (
    "A step: forward, loss (cross entropy), backward, SGD. train_step is torch_pjrt.train_step; "
    "the others compile the model alone, in the stock loop.",
    NOTES[0],
    "compile s: first step less a warm one. programs a step: how often ours ran one. error: of "
    "what the first step changes in all parameters together, relative to eager's; with dropout, "
    "where masks differ, of its size alone. How exact gradients are is for --accuracy.",
    "R3 once: the published table's, measured on a GPU against that table's own baseline.",
)
CHECKED_TRAINING_NOTES = (
    "error: of a gradient of the first step, the largest relative L2 norm against float64 eager. "
    "rule: the parts of what is allowed that were used (4 times eager's own + 1e-4), and the "
    "median over the gradients of the error, in eager's own; this may be 2.",
)


HOST_COST_NOTES = (
    "Time per call, the median, measured in turns. null device: backend 'pjrt' on a plugin that "
    "executes nothing, so that what is left is the host's work.",
    "do-nothing: a backend with the same AOTAutograd arguments and a compiler that does nothing. "
    "ratio: null device / do-nothing. Quote ratios only.",
    "frozen: torch_pjrt.freeze, beside the do-nothing backend with Dynamo's guards off.",
    "error: the largest on the real plugin, as a part of the output's scale; checked first.",
)


def print_report(run: Run, stream: IO[str] | None = None) -> None:
    """Header, table, failures, geomeans and notes; Markdown without colours off a terminal."""
    stream = stream or sys.stdout
    blocks = [*header(run), "", drawn(*table(run), stream), ""]
    if run.interrupted:
        blocks.append("Interrupted: these are the models measured until then.")
    blocks += failures(run)
    if run.mode == "performance":
        notes = TRAINING_NOTES if _is_training(run) else NOTES
        if _baseline(run) == "device":
            notes = (*notes, DEVICE_NOTE)
        blocks += [*notes, *([KEPT_NOTE] if _shows_kept(run) else []), *geomeans(run)]
    elif run.mode == "accuracy" and _is_training(run):
        blocks += CHECKED_TRAINING_NOTES
    if run.mode == "null-device":
        blocks += HOST_COST_NOTES
    print("\n".join(blocks), file=stream, flush=True)


def drawn(titles: Sequence[str], rows: Sequence[Sequence[str]], stream: IO[str]) -> str:
    """The table as text: fitted to the terminal, or Markdown where `stream` isn't one."""
    terminal = stream.isatty()
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD if terminal else rich.box.MARKDOWN)
    for position, title in enumerate(titles):
        drawn.add_column(title, justify="left" if position == 0 else "right")
    for row in rows:
        drawn.add_row(*map(rich.text.Text, row))
    console = rich.console.Console(file=stream, width=None if terminal else PLAIN_WIDTH)
    with console.capture() as captured:
        console.print(drawn)
    lines = (line.rstrip() for line in captured.get().splitlines())
    return "\n".join(line for line in lines if line)
