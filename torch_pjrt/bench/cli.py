"""Arguments of `python -m torch_pjrt bench`, and the run from there to the exit status.

torch is imported only once the arguments are known to be good.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from .models.registry import MODELS, Spec, nearest

if TYPE_CHECKING:
    from .results import Mode, ModelResult, Run
    from .runner import Options

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
DEFAULT_BACKEND = "torchxla_trace_once"
_PEERS = ("pjrt_frozen", "pjrt_handle", "eager_channels_last")

_DESCRIPTION = """\
Compares compiled models with eager PyTorch, by the conventions of PyTorch's benchmarks/dynamo.
Every model is checked against eager first (in training, by its first step; --accuracy says more);
one that is wrong is reported and not timed.
"""
_EPILOG = """\
Only ratios (speed-up, geomean) are to be quoted: milliseconds hold for one machine and one run.
exit status: 0 all passed, 1 a model was wrong or failed, 2 usage, 130 interrupted by Ctrl-C
(what was measured until then is printed and written).
"""


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive whole number")
    return number


def _new_file(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder '{path.parent}'")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"'{path}' is a folder")
    return path


def make_parser(models: Mapping[str, Spec]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_pjrt bench",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--accuracy", action="store_true", help="check only")
    what.add_argument("--performance", action="store_true", help="check, then time")
    what.add_argument(
        "--dynamic-shapes",
        action="store_true",
        help="many sizes of each model (lengths of BERT, batches of others): first calls cold and "
        "after a restart, calls of known sizes, and what finding the program costs",
    )
    parser.add_argument(
        "--shapes",
        type=_positive,
        metavar="N",
        help="with --dynamic-shapes: how many sizes (default: 30)",
    )
    what.add_argument(
        "--recording",
        action="store_true",
        help="what recording ops on device pjrt costs, beside running them in eager; fails where "
        "it is more than is allowed",
    )
    what.add_argument(
        "--first-call",
        action="store_true",
        help="how long the first call takes, in new processes with empty caches, beside inductor "
        "and a backend that does nothing (--repeat: processes of each, default 1)",
    )
    what.add_argument(
        "--profile",
        action="store_true",
        help="where a call's time goes: by groups of ops beside eager's, looking at weights, host",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--inference", action="store_true", help="eval mode without gradients (the default)"
    )
    kind.add_argument(
        "--training",
        action="store_true",
        help="whole steps (forward, loss, backward, SGD) in the stock loop with each backend, and, "
        "where one is ours, by torch_pjrt.train_step too",
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help="a backend of torch.compile; may be repeated, then all are timed in the same rounds "
        f"(default: {DEFAULT_BACKEND}). Also {', '.join(_PEERS)}: options freeze=True, "
        "torch_pjrt.freeze, and eager with weights and images channels last",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="with --performance: the backends that show where ours stands, in the same rounds: "
        "pjrt, its frozen forms, eager channels last, inductor; and what looking at the weights "
        "costs",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="MODEL",
        help=f"run this model; may be repeated (default: all of "
        f"{', '.join(_default(models, False))}; with --null-device "
        f"{', '.join(_default(models, True))})",
    )
    parser.add_argument(
        "--randomize-input",
        action="store_true",
        help="new random inputs for every round, the same for eager and compiled",
    )
    parser.add_argument(
        "--repeat", type=_positive, metavar="N", help="rounds to time (default: 30)"
    )
    parser.add_argument(
        "--iterations-per-run",
        type=_positive,
        metavar="N",
        help="calls in each timed sample (default: 1; with --null-device 100, eager's always 1)",
    )
    parser.add_argument(
        "--batch-size", type=_positive, metavar="N", help="instead of each model's own"
    )
    parser.add_argument(
        "--image-size",
        type=_positive,
        metavar="N",
        help="images of N by N instead of 224 by 224, for the models that take them",
    )
    parser.add_argument(
        "--threads", type=_positive, metavar="N", help="keep eager and compiled to N CPUs"
    )
    parser.add_argument(
        "--null-device",
        action="store_true",
        help="with --performance: time what a call costs the host alone, on a plugin that executes "
        "nothing, beside a backend that does nothing; with --training what a step costs, in one "
        "program and in three",
    )
    parser.add_argument(
        "--use-xla-baseline",
        action="store_true",
        help='compare with the model on device="pjrt", without Dynamo, instead of with eager; its '
        "inputs are moved there at each call",
    )
    parser.add_argument(
        "--trace-on-xla",
        action="store_true",
        help="the same, and the backends take the model and its inputs on the device too; with "
        "--null-device what tracing costs the host, at each call and once",
    )
    parser.add_argument(
        "--naive-replay",
        action="store_true",
        help="with --training --trace-on-xla: also a loop that runs each program's inputs before "
        "it, data or not, and whatever is left at the end of a step",
    )
    parser.add_argument("--output", type=_new_file, metavar="FILE", help="write a CSV table")
    parser.add_argument("--json", type=_new_file, metavar="FILE", help="write the full record")
    return parser


def main(
    arguments: Sequence[str] | None = None,
    models: Mapping[str, Spec] = MODELS,
    isolated: bool = True,
) -> int:
    """Runs the benchmark and returns the exit status; usage errors raise SystemExit(2).

    models can be others than the ten; isolated=False keeps them in this process (see runner).
    """
    parser = make_parser(models)
    parsed = parser.parse_args(arguments)
    if parsed.null_device and parsed.accuracy:
        parser.error("--null-device computes nothing: use it with --performance")
    if parsed.null_device and parsed.backend:
        parser.error("--null-device has backends of its own: leave --backend out")
    if parsed.peers and (parsed.backend or parsed.null_device or parsed.training):
        parser.error("--peers has backends of its own, for inference: leave the others out")
    own = "--first-call" if parsed.first_call else "--profile" if parsed.profile else None
    if own and (parsed.backend or parsed.training or parsed.null_device):
        parser.error(f"{own} has backends of its own, for inference: leave the others out")
    if parsed.repeat is None:
        parsed.repeat = 1 if parsed.first_call else 30
    if parsed.shapes and not parsed.dynamic_shapes:
        parser.error("--shapes belongs to --dynamic-shapes")
    if parsed.naive_replay and not (parsed.training and parsed.trace_on_xla):
        parser.error("--naive-replay belongs to --training --trace-on-xla")
    if (
        parsed.use_xla_baseline
        and (parsed.training or parsed.null_device)
        and not parsed.trace_on_xla
    ):
        parser.error("--use-xla-baseline is for inference: add --trace-on-xla")
    # The null device's own models are for calls of a compiled function on the CPU.
    small = parsed.null_device and not parsed.trace_on_xla
    specs = _chosen(parser, models, parsed.only or _default(models, small))
    _require_packages(parser, specs)
    if parsed.image_size is not None:
        specs = [spec.with_images_of(parsed.image_size) for spec in specs]

    from . import environment

    if parsed.threads is not None:
        if parsed.threads > environment.usable_cores():
            parser.error(f"--threads: only {environment.usable_cores()} CPUs can be used")
        environment.limit_cores(parsed.threads)

    if parsed.recording:
        from . import recording

        return OK if recording.run(parsed.repeat) else FAILED
    if parsed.first_call:
        from . import first_call

        return OK if first_call.run(specs, parsed.batch_size, parsed.repeat) else FAILED
    if parsed.profile:
        from . import profile

        profile.run(specs, parsed.batch_size, parsed.repeat)
        return OK
    if parsed.null_device and parsed.trace_on_xla:
        return _device_cost(specs, parsed)

    from . import host_cost, peers, train_runner
    from .runner import Options

    if parsed.null_device and parsed.training:
        return _step_cost(specs, parsed)
    if parsed.dynamic_shapes:
        return _dynamic_shapes(parser, specs, parsed.backend or ["pjrt"], parsed.shapes or 30)
    backends: tuple[str, ...]
    if parsed.null_device:
        backends = host_cost.BACKENDS
    else:
        backends = tuple(dict.fromkeys(parsed.backend or [DEFAULT_BACKEND]))
        if parsed.peers:
            backends = peers.ALL
        if parsed.training and set(backends) & set(peers.NAMES):
            parser.error(f"{', '.join(peers.NAMES)}: for inference only")
        _check_backends(parser, backends)
        if parsed.training:
            backends = train_runner.with_one_program(backends, parsed.naive_replay)
    mode: Mode = "null-device" if parsed.null_device else "performance"
    options = Options(
        mode="accuracy" if parsed.accuracy else mode,
        backends=backends,
        repeat=parsed.repeat,
        iterations_per_run=parsed.iterations_per_run or (100 if parsed.null_device else 1),
        randomize_input=parsed.randomize_input,
        batch_size=parsed.batch_size,
        threads=parsed.threads,
        training=parsed.training,
        device_baseline=parsed.use_xla_baseline or parsed.trace_on_xla,
        trace_on_device=parsed.trace_on_xla,
        naive_replay=parsed.naive_replay,
    )
    if (parsed.training or options.device_baseline) and isolated:
        # So that first steps are cold: train_step has no option for it, nor has the device.
        os.environ["TORCH_PJRT_CACHE"] = "0"
    run = _run(specs, options, parsed.output, parsed.json, isolated)
    if run.interrupted:
        return INTERRUPTED
    return FAILED if run.failed else OK


def _dynamic_shapes(
    parser: argparse.ArgumentParser, specs: Sequence[Spec], backends: Sequence[str], shapes: int
) -> int:
    from . import dynamic
    from .shapes import most_shapes

    _check_backends(parser, backends)
    for spec in specs:
        if shapes > most_shapes(spec):
            parser.error(f"--shapes: {spec.name} has {most_shapes(spec)} at most")
    try:
        return OK if dynamic.run(specs, list(dict.fromkeys(backends)), shapes) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _device_cost(specs: Sequence[Spec], parsed: argparse.Namespace) -> int:
    from . import device_cost

    os.environ["TORCH_PJRT_CACHE"] = "0"
    iterations = parsed.iterations_per_run or (5 if parsed.training else 20)
    try:
        done = device_cost.run(specs, parsed.training, parsed.batch_size, parsed.repeat, iterations)
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK if done else FAILED


def _step_cost(specs: Sequence[Spec], parsed: argparse.Namespace) -> int:
    from . import step_cost

    os.environ["TORCH_PJRT_CACHE"] = "0"
    try:
        done = step_cost.run(
            specs, parsed.batch_size, parsed.repeat, parsed.iterations_per_run or 5
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK if done else FAILED


def _run(
    specs: Sequence[Spec],
    options: Options,
    csv_file: Path | None,
    json_file: Path | None,
    isolated: bool,
) -> Run:
    """Runs, prints and writes. The files are rewritten after every model, and so hold what was
    measured whatever happens next."""
    from . import environment, report, results, runner

    run = results.Run(
        mode=options.mode,
        backends=list(options.backends),
        options={
            "repeat": options.repeat,
            "iterations_per_run": options.iterations_per_run,
            "randomize_input": options.randomize_input,
            "training": options.training,
            **(
                {"baseline": "device", "trace_on_device": options.trace_on_device}
                if options.device_baseline
                else {}
            ),
            "seed": runner.SEED,
        },
        environment=environment.describe(options.threads),
    )
    files = ((csv_file, "csv"), (json_file, "json"))

    def on_result(result: ModelResult) -> None:
        run.models.append(result)
        results.write_all(run, files)

    try:
        with report.ProgressDisplay([spec.name for spec in specs]) as display:
            run.interrupted = runner.run_models(specs, options, display.show, on_result, isolated)
    except KeyboardInterrupt:
        run.interrupted = True
    results.write_all(run, files)
    report.print_report(run)
    return run


def _chosen(
    parser: argparse.ArgumentParser, models: Mapping[str, Spec], names: Sequence[str]
) -> list[Spec]:
    chosen = []
    for name in dict.fromkeys(names):
        if name not in models:
            parser.error(_unknown("model", name, list(models)))
        chosen.append(models[name])
    return chosen


def _default(models: Mapping[str, Spec], null_device: bool) -> list[str]:
    """The models that run unless others are asked for."""
    return [
        name
        for name, spec in models.items()
        if (spec.in_null_device if null_device else spec.in_table)
    ]


def _check_backends(parser: argparse.ArgumentParser, backends: Sequence[str]) -> None:
    import torch._dynamo

    known = [*torch._dynamo.list_backends(exclude_tags=()), *_PEERS]
    for name in backends:
        if name not in known:
            parser.error(_unknown("backend", name, known))


def _unknown(kind: str, name: str, known: Sequence[str]) -> str:
    close = nearest(name, known)
    if close:
        return f"unknown {kind} '{name}'; did you mean '{close}'?"
    return f"unknown {kind} '{name}'; there are {', '.join(sorted(known))}"


def _require_packages(parser: argparse.ArgumentParser, specs: Sequence[Spec]) -> None:
    needed = {"rich": "the benchmark's tables"}
    for spec in specs:
        needed |= dict.fromkeys(spec.requires, f"model {spec.name}")
    for package, purpose in needed.items():
        if importlib.util.find_spec(package) is None:
            remedy = f"install it with: {sys.executable} -m pip install '{_pinned(package)}'"
            parser.error(f"for {purpose} the package '{package}' is not installed; {remedy}")


def _pinned(package: str) -> str:
    """The package in the version that the extra `bench` names, e.g. "rich==15.0.0"."""
    wanted = metadata.requires("torch-pjrt") or []
    pins = (pin.split(";")[0].strip() for pin in wanted)
    return next((pin for pin in pins if pin.startswith(f"{package}==")), package)


if __name__ == "__main__":
    sys.exit(main())
