"""The command as a whole, on tiny models that stand in for the ten."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.backends import registry

import torch_pjrt.__main__
import torch_pjrt.bench
from torch_pjrt.bench import cli, counters, environment
from torch_pjrt.bench.models.registry import Spec

PACKAGE_ROOT = Path(torch_pjrt.bench.__file__).parents[2]
Compiler = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


def tiny_inputs(batch: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, generator=generator),)


def tiny(name: str, **changes: Any) -> Spec:
    fields: dict[str, Any] = {
        "name": name,
        "family": "tiny",
        "make": Tiny,
        "inputs": tiny_inputs,
        "parameters": 20,
        "batch_size": 2,
    }
    return Spec(**(fields | changes))


def scaled_outputs(factor: float) -> Compiler:
    """A compiler whose programs give eager's outputs times `factor`."""

    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return lambda *arguments: tuple(factor * output for output in graph(*arguments))

    return compile_graph


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Compiler], str]]:
    """Registers a backend for the length of the test; gives its name back."""

    def register(name: str, compiler: Compiler) -> str:
        monkeypatch.setattr(compiler, "_tags", (), raising=False)
        monkeypatch.setitem(registry._BACKENDS, name, None)
        monkeypatch.setitem(registry._COMPILER_FNS, name, compiler)
        return name

    torch._dynamo.reset()
    yield register
    torch._dynamo.reset()


def bench(*arguments: str, models: tuple[Spec, ...] = (tiny("tiny"),)) -> int:
    return cli.main(arguments, {spec.name: spec for spec in models}, isolated=False)


def usage_error(capsys: pytest.CaptureFixture[str], *arguments: str, **options: Any) -> str:
    with pytest.raises(SystemExit) as raised:
        bench(*arguments, **options)
    assert raised.value.code == cli.USAGE
    return capsys.readouterr().err


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "arguments --accuracy --performance --dynamic-shapes --recording --first-call "
            "--profile is required",
        ),
        (["--accuracy", "--performance"], "not allowed with argument"),
        (["--accuracy", "--image-size", "0"], "'0' is not a positive whole number"),
        (["--accuracy", "--inference", "--training"], "not allowed with argument"),
        (["--accuracy", "--only", "tinny"], "unknown model 'tinny'; did you mean 'tiny'?"),
        (["--accuracy", "--only", "zzz"], "unknown model 'zzz'; there are tiny"),
        (["--accuracy", "--repeat", "0"], "'0' is not a positive whole number"),
        (["--accuracy", "--batch-size", "x"], "'x' is not a positive whole number"),
        (["--accuracy", "--output", "/nowhere/x.csv"], "there is no folder '/nowhere'"),
        (["--accuracy", "--json", "/"], "'/' is a folder"),
        (["--accuracy", "--threads", "1000000"], "CPUs can be used"),
        (["--accuracy", "--rep", "3"], "unrecognized arguments"),
    ],
)
def test_usage_errors(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in usage_error(capsys, *arguments)


def test_unknown_backend_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    error = usage_error(capsys, "--accuracy", "--backend", "eager", "--backend", "inductr")
    assert "unknown backend 'inductr'; did you mean 'inductor'?" in error


@pytest.mark.parametrize("package", ["rich", "transformers"])
def test_missing_package_says_how_to_install_it(
    package: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cli.importlib.util.find_spec
    monkeypatch.setattr(
        cli.importlib.util, "find_spec", lambda name: None if name == package else found(name)
    )
    models = (tiny("tiny", requires=("transformers",)),)
    error = usage_error(capsys, "--accuracy", models=models)
    assert f"the package '{package}' is not installed" in error
    assert f"{sys.executable} -m pip install '{package}==" in error


def test_usage_errors_do_not_wait_for_torch() -> None:
    program = """
        import sys
        import torch_pjrt
        sys.modules["torch"] = None  # an import of it raises
        from torch_pjrt.__main__ import main
        main(["bench", "--accuracy", "--only", "resnet-18"])
    """
    done = run_program(program)
    assert done.returncode == cli.USAGE
    assert "did you mean 'resnet18'?" in done.stderr


def test_command_line_dispatch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert torch_pjrt.__main__.main([]) == 2
    assert "no command given" in capsys.readouterr().err
    assert torch_pjrt.__main__.main(["bnech"]) == 2
    assert "unknown command 'bnech'" in capsys.readouterr().err
    assert torch_pjrt.__main__.main(["--help"]) == 0
    assert "bench" in capsys.readouterr().out
    monkeypatch.setattr(cli, "main", lambda arguments: 40 + len(arguments))
    assert torch_pjrt.__main__.main(["bench", "--accuracy", "-x"]) == 42


def test_performance_of_two_backends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, record = tmp_path / "t.csv", tmp_path / "r.json"
    files = ["--output", str(table), "--json", str(record)]
    both = ["--backend", "aot_eager", "--backend", "eager", "--backend", "eager"]
    assert bench("--performance", *both, "--repeat", "4", "--batch-size", "7", *files) == cli.OK

    first, second = rows(table)
    assert [first["backend"], second["backend"]] == ["aot_eager", "eager"]
    for row in (first, second):
        assert (row["dev"], row["name"], row["batch_size"]) == ("cpu", "tiny", "7")
        assert float(row["speedup"]) > 0
        assert float(row["abs_latency"]) > 0
        assert float(row["compilation_latency"]) > 0
    written = json.loads(record.read_text())
    (model,) = written["models"]
    assert len(model["baseline_samples_s"]) == 4
    assert [len(entry["samples_s"]) for entry in model["backends"]] == [4, 4]
    assert [entry["cold_counts"][counters.GRAPHS] for entry in model["backends"]] == [1, 1]
    assert [entry["warnings"] for entry in model["backends"]] == [[], []]
    assert written["environment"]["versions"]["torch"] == torch.__version__
    assert written["interrupted"] is False
    shown = capsys.readouterr()
    assert f"geomean eager: {written['geomean']['eager']:.3f} over 1 of 1 models" in shown.out
    assert "[1/1] tiny: timing" in shown.err
    assert "timing" not in shown.out


def test_default_backend_and_all_models(
    backend: Callable[[str, Compiler], str], tmp_path: Path
) -> None:
    backend(cli.DEFAULT_BACKEND, scaled_outputs(1.0))
    table = tmp_path / "t.csv"
    models = (tiny("one"), tiny("two"))
    assert bench("--accuracy", "--inference", "--output", str(table), models=models) == cli.OK
    assert [(row["name"], row["backend"], row["accuracy"]) for row in rows(table)] == [
        ("one", "torchxla_trace_once", "passed"),
        ("two", "torchxla_trace_once", "passed"),
    ]


def test_wrong_model_is_caught_and_not_timed(
    backend: Callable[[str, Compiler], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = backend("wrong", scaled_outputs(1.001))
    right = backend("right", scaled_outputs(1.00001))
    record = tmp_path / "r.json"
    arguments = ["--backend", wrong, "--backend", right, "--repeat", "3", "--json", str(record)]
    assert bench("--performance", *arguments) == cli.FAILED
    (model,) = json.loads(record.read_text())["models"]
    bad, good = model["backends"]
    assert (bad["status"], bad["samples_s"], bad["speedup"]) == ("wrong", [], None)
    assert bad["error"] == pytest.approx(1e-3, rel=1e-2)
    assert (good["status"], len(good["samples_s"])) == ("passed", 3)
    assert good["error"] == pytest.approx(1e-5, rel=2e-1)
    assert "tiny, wrong: WRONG: output 0: error 1.00e-03" in capsys.readouterr().out


def test_output_of_an_earlier_call_is_caught(backend: Callable[[str, Compiler], str]) -> None:
    def remembers(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        kept: list[Any] = []

        def program(*arguments: Any) -> Any:
            kept.append(graph(*arguments))
            return kept[0]

        return program

    assert bench("--accuracy", "--backend", backend("remembers", remembers)) == cli.FAILED


def test_failing_models_do_not_lose_the_others(
    backend: Callable[[str, Compiler], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> nn.Module:
        raise ValueError("no such layer\nand more")

    def refuses(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        raise NotImplementedError("no rule for tanh")

    table = tmp_path / "t.csv"
    both = ["--backend", backend("refuses", refuses), "--backend", "eager"]
    models = (tiny("broken", make=broken), tiny("good"))
    arguments = ["--performance", *both, "--repeat", "2", "--output", str(table)]
    assert bench(*arguments, models=models) == cli.FAILED
    timed = [(row["name"], row["backend"], row["speedup"] != "") for row in rows(table)]
    assert timed == [
        ("broken", "refuses", False),
        ("broken", "eager", False),
        ("good", "refuses", False),
        ("good", "eager", True),
    ]
    shown = capsys.readouterr().out.splitlines()
    assert "broken, eager: FAILED: ValueError: no such layer" in shown
    assert any(line.startswith("good, refuses: FAILED: ") for line in shown)


class Recorder:
    """Inputs of a model, remembered in the order in which they were made and seen."""

    def __init__(self) -> None:
        self.made: list[torch.Tensor] = []

    def inputs(self, batch: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        self.made.append(torch.randn(batch, 3, generator=generator))
        return (self.made[-1],)


@pytest.mark.parametrize("randomize", [True, False])
def test_randomized_inputs_are_new_every_round_and_shared(
    randomize: bool, backend: Callable[[str, Compiler], str]
) -> None:
    seen: list[torch.Tensor] = []

    def sees(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def program(*arguments: Any) -> Any:
            seen.extend(argument for argument in arguments if list(argument.shape) == [2, 3])
            return graph(*arguments)

        return program

    recorder = Recorder()
    flags = ["--randomize-input"] if randomize else []
    arguments = ["--performance", "--backend", backend("sees", sees), "--repeat", "4", *flags]
    assert bench(*arguments, models=(tiny("tiny", inputs=recorder.inputs),)) == cli.OK
    timed = [id(value) for value in seen[-4:]]
    if randomize:
        assert timed == [id(value) for value in recorder.made[-4:]]
        assert len({tuple(value.flatten().tolist()) for value in seen[-4:]}) == 4
    else:
        assert len(recorder.made) == 2  # what the check used
        assert set(timed) == {id(recorder.made[0])}


def test_iterations_per_run(backend: Callable[[str, Compiler], str]) -> None:
    calls = 0

    def counts(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def program(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            return graph(*arguments)

        return program

    def calls_with(*flags: str) -> int:
        nonlocal calls
        calls = 0
        assert bench("--performance", "--backend", name, "--repeat", "3", *flags) == cli.OK
        return calls

    name = backend("counts", counts)
    assert calls_with("--iterations-per-run", "5") - calls_with() == 3 * 5 - 3


def test_counts_that_move_while_timed_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    def compiles_every_time(ours: bool) -> dict[str, int]:
        nonlocal reads
        reads += 1
        return {counters.GRAPHS: reads, "compiles": reads, "executions": 2 * reads}

    monkeypatch.setattr(counters, "is_ours", lambda name: True)
    monkeypatch.setattr(counters, "read", compiles_every_time)
    record = tmp_path / "r.json"
    arguments = ["--backend", "eager", "--repeat", "3", "--json", str(record)]
    assert bench("--performance", *arguments) == cli.OK
    (entry,) = json.loads(record.read_text())["models"][0]["backends"]
    assert entry["warnings"] == ["3 compiles while timed"]
    assert entry["warm_counts"]["executions"] == 6
    assert "3 compiles while timed" in capsys.readouterr().out


def test_ctrl_c_prints_and_writes_what_was_measured(
    backend: Callable[[str, Compiler], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = 0

    def interrupted(batch: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        nonlocal calls
        calls += 1
        if calls == 8:  # 2 for the check, 3 to warm up, 2 complete rounds
            raise KeyboardInterrupt
        return tiny_inputs(batch, generator)

    models = (tiny("first"), tiny("second", inputs=interrupted), tiny("third"))
    table, record = tmp_path / "t.csv", tmp_path / "r.json"
    files = ["--output", str(table), "--json", str(record)]
    arguments = ["--backend", "eager", "--repeat", "5", "--randomize-input", *files]
    assert bench("--performance", *arguments, models=models) == cli.INTERRUPTED
    assert [(row["name"], row["speedup"] != "") for row in rows(table)] == [
        ("first", True),
        ("second", True),
    ]
    written = json.loads(record.read_text())
    assert written["interrupted"] is True
    assert [len(model["baseline_samples_s"]) for model in written["models"]] == [5, 2]
    shown = capsys.readouterr().out
    assert "| second (interrupted, 2 rounds) |" in shown
    assert "Interrupted" in shown
    assert "over 2 of 2 models" in shown


def test_ctrl_c_while_building_leaves_a_row_that_was_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> nn.Module:
        raise KeyboardInterrupt

    models = (tiny("first", make=interrupted), tiny("second"))
    assert bench("--accuracy", "--backend", "eager", models=models) == cli.INTERRUPTED
    shown = capsys.readouterr().out
    assert "not run" in shown
    assert "second" not in shown


def test_files_are_written_after_every_model(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    found: list[int] = []

    def looks() -> nn.Module:
        found.append(len(rows(table)))
        return Tiny()

    models = (tiny("first"), tiny("second", make=looks))
    assert bench("--accuracy", "--backend", "eager", "--output", str(table), models=models) == 0
    assert found == [1]


def test_threads_limit_cores_and_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits: list[int] = []
    seen: list[int] = []

    def looks() -> nn.Module:
        seen.append(torch.get_num_threads())
        return Tiny()

    monkeypatch.setattr(environment, "limit_cores", limits.append)
    before = torch.get_num_threads()
    try:
        models = (tiny("tiny", make=looks),)
        assert bench("--accuracy", "--backend", "eager", "--threads", "1", models=models) == 0
    finally:
        torch.set_num_threads(before)
    assert limits == [1]
    assert seen == [1]
    assert "1 threads" in capsys.readouterr().out


def run_program(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `program` in a Python of its own, which imports the torch_pjrt that is under test."""
    path = f"import sys; sys.path.insert(0, {str(PACKAGE_ROOT)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", path + textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_processes_of_their_own_for_crashes_and_ctrl_c(tmp_path: Path) -> None:
    program = """
        import os, signal
        import torch
        from torch import nn
        from torch_pjrt.bench import cli
        from torch_pjrt.bench.models.registry import Spec

        def crashes():
            os.kill(os.getpid(), signal.SIGSEGV)

        made = 0
        def interrupted(batch, generator):
            global made
            made += 1
            if made == 8:
                os.kill(os.getppid(), signal.SIGINT)  # comes back with the next report
            return inputs(batch, generator)

        def inputs(batch, generator):
            return (torch.randn(batch, 3, generator=generator),)

        def linear():
            return nn.Linear(3, 5)

        models = {
            name: Spec(name, "tiny", make, inputs, 20, 2)
            for name, make, inputs in (
                ("crashes", crashes, inputs),
                ("good", linear, inputs),
                ("interrupted", linear, interrupted),
                ("never", linear, inputs),
            )
        }
        sys.exit(cli.main(sys.argv[1:], models))
    """
    table = tmp_path / "t.csv"
    flags = ["--performance", "--backend", "eager", "--repeat", "4", "--randomize-input"]
    done = run_program(program, *flags, "--output", str(table))
    assert done.returncode == cli.INTERRUPTED, done.stderr
    assert [(row["name"], row["speedup"] != "") for row in rows(table)] == [
        ("crashes", False),
        ("good", True),
        ("interrupted", True),
    ]
    assert "crashes, eager: FAILED: the process was killed by SIGSEGV" in done.stdout
    assert "interrupted (interrupted, 3 rounds)" in done.stdout
    assert "KeyboardInterrupt" not in done.stderr


def test_compiled_under_no_grad_in_eval_mode() -> None:
    modes: list[tuple[bool, bool]] = []

    class Looks(Tiny):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_compiling():
                modes.append((torch.is_grad_enabled(), self.training))
            return super().forward(x)

    models = (tiny("tiny", make=Looks),)
    assert bench("--accuracy", "--backend", "eager", models=models) == cli.OK
    assert set(modes) == {(False, False)}
