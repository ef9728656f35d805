"""`bench --null-device`: the null device and the do-nothing backend, on tiny models."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

from torch_pjrt.bench import cli, counters, host_cost
from torch_pjrt.bench.models.registry import MODELS, Spec

pytestmark = pytest.mark.plugin


@pytest.fixture(autouse=True)
def without_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def tiny_inputs(batch: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, generator=generator),)


def tiny(name: str, **changes: Any) -> Spec:
    return Spec(name, "tiny", lambda: nn.Linear(3, 5), tiny_inputs, 20, 2, **changes)


def bench(*arguments: str, models: tuple[Spec, ...] = (tiny("tiny", in_null_device=True),)) -> int:
    flags = ("--performance", "--null-device", *arguments)
    return cli.main(flags, {spec.name: spec for spec in models}, isolated=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--accuracy", "--null-device"], "use it with --performance"),
        (["--performance", "--null-device", "--backend", "eager"], "leave --backend out"),
        (
            ["--null-device"],
            "--profile is required",
        ),
    ],
)
def test_usage_errors(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(arguments, {"tiny": tiny("tiny")})
    assert message in capsys.readouterr().err


def test_table_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, record = tmp_path / "t.csv", tmp_path / "r.json"
    files = ["--output", str(table), "--json", str(record)]
    flags = ["--repeat", "3", "--iterations-per-run", "5", "--randomize-input", "--batch-size", "7"]
    assert bench(*flags, *files) == cli.OK

    with table.open(newline="") as opened:
        ours, nothing, frozen, nothing_frozen = csv.DictReader(opened)
    assert (ours["backend"], nothing["backend"]) == ("null_device", "do_nothing")
    assert frozen["backend"] == "null_device_frozen"
    assert float(frozen["ratio"]) > 0
    assert float(frozen["error"]) < 1e-6
    assert nothing_frozen["ratio"] == ""
    assert (ours["name"], ours["batch_size"]) == ("tiny", "7")
    assert float(ours["ratio"]) > 0
    assert nothing["ratio"] == ""
    assert float(ours["error"]) < 1e-6

    (model,) = json.loads(record.read_text())["models"]
    first, second, third, fourth = model["backends"]
    assert third["ratio"] == pytest.approx(third["latency_s"] / fourth["latency_s"])
    assert third["warm_counts"]["executions"] == 15
    assert third["warnings"] == fourth["warnings"] == []
    assert first["ratio"] == pytest.approx(first["latency_s"] / second["latency_s"])
    assert len(model["baseline_samples_s"]) == len(first["samples_s"]) == 3
    # Every timed call ran our program once, and nothing was compiled or copied for it.
    assert first["warm_counts"]["executions"] == 15
    assert first["warnings"] == second["warnings"] == []
    shown = capsys.readouterr().out
    assert "| model | batch | eager µs | do-nothing µs | null device µs | ratio |" in shown
    assert "geomean" not in shown


def test_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    usual, small = tiny("usual"), tiny("small", in_table=False, in_null_device=True)
    assert bench("--repeat", "1", "--iterations-per-run", "1", models=(usual, small)) == cli.OK
    shown = capsys.readouterr().out
    assert "| small |" in shown
    assert "usual" not in shown
    chosen = {spec.name for spec in MODELS.values() if spec.in_null_device}
    assert chosen == {"mlp_3_layers", "mlp_200_parameters", "BERT_pytorch"}


def test_wrong_values_on_the_real_plugin_are_not_timed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wrong(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return lambda *arguments: tuple(1.1 * output for output in graph(*arguments))

    monkeypatch.setitem(host_cost.CHECKED, host_cost.NULL_DEVICE, wrong)
    monkeypatch.setattr(counters, "is_ours", lambda backend: False)
    record = tmp_path / "r.json"
    assert bench("--repeat", "1", "--json", str(record)) == cli.FAILED
    ours, *_ = json.loads(record.read_text())["models"][0]["backends"]
    assert ours["samples_s"] == []
    assert "tiny, null_device: WRONG" in capsys.readouterr().out


def test_do_nothing_gives_back_the_same_outputs() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        return (x + y).transpose(0, 1), None, (x > y).sum(), x.shape[0]

    x, y = torch.randn(3, 4), torch.randn(4)
    fast = torch.compile(f, backend=host_cost.do_nothing)
    first, second, eager = fast(x, y), fast(x, y), f(x, y)
    assert first[1] is None
    assert first[3] == 3
    for k in (0, 2):
        assert first[k].data_ptr() == second[k].data_ptr()
        assert (first[k].dtype, first[k].shape) == (eager[k].dtype, eager[k].shape)
        assert first[k].stride() == eager[k].stride()


@pytest.mark.parametrize("name", ["mlp_3_layers", "mlp_200_parameters"])
def test_small_models(name: str) -> None:
    spec = MODELS[name]
    model = spec.build(0)
    assert sum(p.numel() for p in model.parameters()) == spec.parameters
    assert len(list(model.parameters())) == {"mlp_3_layers": 6, "mlp_200_parameters": 200}[name]
    (x,) = spec.inputs(spec.batch_size, torch.Generator().manual_seed(0))
    assert model(x).std() > 0
