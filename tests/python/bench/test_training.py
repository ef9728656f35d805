"""--training: each way to train is checked by the rule, then timed beside the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends import registry

from torch_pjrt.bench import cli, train_accuracy, train_loop, train_runner
from torch_pjrt.bench.models.registry import MODELS, Spec
from torch_pjrt.bench.train_accuracy import Errors, judge
from torch_pjrt.bench.train_loop import Observed

pytestmark = pytest.mark.plugin


class Tiny(nn.Module):
    def __init__(self, dropout: float = 0.5) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(dropout)
        self.last = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.drop(self.norm(self.first(x)).relu())
        return self.last(hidden), hidden


def tiny(name: str = "tiny", make: Callable[[], nn.Module] = Tiny) -> Spec:
    def inputs(batch: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (torch.randn(batch, 8, generator=generator),)

    return Spec(name, "tiny", make, inputs, parameters=0, batch_size=6)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def bench(tmp_path: Path, *arguments: str, spec: Spec | None = None) -> tuple[int, Any]:
    """The exit status, and the one model's record."""
    spec = spec or tiny()
    file = tmp_path / "r.json"
    command = ["--training", "--json", str(file), *arguments]
    status = cli.main(command, {spec.name: spec}, isolated=False)
    return status, json.loads(file.read_text())["models"][0]


def test_both_ways_beside_a_peer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends = ["--backend", "aot_torchxla_trace_once", "--backend", "aot_eager"]
    timed = ["--performance", "--repeat", "3", "--iterations-per-run", "2"]
    status, model = bench(tmp_path, *backends, *timed)
    assert status == cli.OK
    ours, peer, one = model["backends"]
    assert [entry["backend"] for entry in model["backends"]] == [
        "aot_torchxla_trace_once",
        "aot_eager",
        "train_step",
    ]
    for entry in (ours, peer, one):
        assert entry["status"] == "passed", entry["message"]
        assert len(entry["samples_s"]) == 3
        assert entry["first_call_s"] > 0
        assert entry["warnings"] == []
    assert len(model["baseline_samples_s"]) == 3
    assert (ours["executions_per_step"], one["executions_per_step"]) == (2, 1)
    assert peer["executions_per_step"] is None
    for entry in (ours, one):
        moved = {entry["warm_counts"][n] for n in ("captures", "compiles", "copied_inputs")}
        assert moved == {0}
    # Forward and backward, without dropout and with eager's; train_step's is the first alone.
    assert (ours["cold_counts"]["compiles"], one["cold_counts"]["compiles"]) == (2, 1)
    shown = capsys.readouterr()
    assert "performance, training, float32" in shown.out
    assert "train_step programs a step" in shown.out
    assert "geomean train_step" in shown.out


def test_accuracy_alone_times_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends = ["--backend", "aot_torchxla_trace_once", "--backend", "aot_eager"]
    status, model = bench(tmp_path, "--accuracy", *backends)
    assert status == cli.OK
    assert model["baseline_samples_s"] == []
    assert "median" in model["backends"][0]["rule"]
    # Forward and backward; train_step's is one program.
    assert [model["backends"][k]["cold_counts"]["compiles"] for k in (0, 2)] == [2, 1]
    shown = capsys.readouterr().err
    assert "timing" not in shown
    assert 'pjrt with random="eager"' not in shown  # its name is the backend's
    assert 'aot_torchxla_trace_once with random="eager", seed 3' in shown
    assert 'aot_eager with random="eager"' not in shown


@pytest.fixture
def wrong_backend(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Adds a backend "wrong", which scales gradients and leaves values."""

    def add(factor: float) -> None:
        wrong = scaling_backend(factor)
        monkeypatch.setattr(wrong, "_tags", (), raising=False)
        monkeypatch.setitem(registry._BACKENDS, "wrong", None)
        monkeypatch.setitem(registry._COMPILER_FNS, "wrong", wrong)

    return add


def scaling_backend(factor: float) -> Any:
    def wrong(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:

        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x.clone()

            @staticmethod
            def backward(ctx: Any, gradient: Tensor) -> Tensor:
                return gradient * factor

        return lambda *arguments: tuple(Scaled.apply(y) for y in gm(*arguments))

    return wrong


def test_a_wrong_gradient_is_caught(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    wrong_backend: Callable[[float], None],
) -> None:
    wrong_backend(1.001)
    status, model = bench(tmp_path, "--accuracy", "--backend", "wrong", "--backend", "eager")
    assert status == cli.FAILED
    bad, good = model["backends"]
    assert (bad["status"], good["status"]) == ("wrong", "passed")
    assert bad["error"] == pytest.approx(1e-3, rel=0.02)
    assert "tiny, wrong: WRONG: without dropout: the gradient of" in capsys.readouterr().out


@pytest.mark.parametrize(("dropout", "factor"), [(0.0, 1.1), (0.5, 20.0)])
def test_a_wrong_first_step_is_not_timed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    wrong_backend: Callable[[float], None],
    dropout: float,
    factor: float,
) -> None:
    wrong_backend(factor)
    spec = tiny(make=lambda: Tiny(dropout))
    timed = ["--performance", "--repeat", "2", "--backend", "wrong", "--backend", "eager"]
    status, model = bench(tmp_path, *timed, spec=spec)
    assert status == cli.FAILED
    bad, good = model["backends"]
    assert (bad["status"], bad["samples_s"]) == ("wrong", [])
    assert bad["error"] == pytest.approx(factor - 1, rel=0.8)
    assert (good["status"], len(good["samples_s"])) == ("passed", 2)
    assert "the first step changes parameters otherwise" in capsys.readouterr().out


def test_a_backend_that_fails_leaves_the_others(tmp_path: Path) -> None:
    def failing(gm: torch.fx.GraphModule, inputs: object) -> object:
        raise RuntimeError("no such device")

    registry.register_backend(failing, name="failing")
    arguments = ("--accuracy", "--backend", "failing", "--backend", "eager")
    status, model = bench(tmp_path, *arguments, spec=tiny())
    assert status == cli.FAILED
    assert [entry["status"] for entry in model["backends"][:2]] == ["failed", "passed"]
    assert "backend='failing' raised" in model["backends"][0]["message"]


def observed(gradient: float, loss: float = 1.0) -> Observed:
    values = torch.tensor([1.0, 0.0]).double() * gradient
    return Observed({"w": values, "v": values}, [loss] * train_accuracy.STEPS, 0.0)


def errors(gradient: float, loss: float = 1.0) -> Errors:
    found = Errors()
    for _ in range(train_accuracy.SEEDS):
        found.add(observed(gradient, loss), observed(1.0))
    return found


@pytest.mark.parametrize(
    ("ours", "own", "problem"),
    [
        (errors(1.0), errors(1.0), ""),
        (errors(1 + 1.9e-5), errors(1 + 1e-5), ""),
        (errors(1 + 2.5e-5), errors(1 + 1e-5), "median gradient has 2.5 times"),
        (errors(1 + 6e-4), errors(1 + 1e-4), "gradient of w: relative error 6.0e-04"),
        (errors(float("nan")), errors(1.0), "gradient of w"),
        (errors(1.0, 1.0 + 6e-4), errors(1.0, 1.0 + 1e-4), "losses [6.0e-04"),
        (errors(1.0, float("nan")), errors(1.0), "losses [nan"),
    ],
)
def test_the_rule(ours: Errors, own: Errors, problem: str) -> None:
    verdict = judge(ours, own)
    assert verdict.passed == (not problem)
    assert problem in verdict.message


def test_a_gradient_that_is_missing_is_wrong() -> None:
    found = Errors()
    found.add(Observed({"w": torch.ones(2)}, [1.0] * train_accuracy.STEPS, 0.0), observed(1.0))
    verdict = judge(found, errors(1.0))
    assert not verdict.passed
    assert "v" in verdict.message


def test_a_step_changes_parameters_and_leaves_gradients() -> None:
    model = Tiny(0.0)
    before = model.last.weight.detach().clone()
    inputs = torch.randn(6, 8)
    classes = train_loop.classes_for(model, (inputs,), torch.Generator().manual_seed(0))
    assert [list(c.shape) for c in classes] == [[6], [6]]
    found = train_loop.observe(model, train_loop.stock_step(model), (inputs, classes), 5)
    assert found.losses[-1] < found.losses[0]
    assert set(found.gradients) == {name for name, _ in model.named_parameters()}
    assert not torch.equal(model.last.weight, before)


def test_train_step_is_added_where_a_backend_is_ours() -> None:
    assert train_runner.with_one_program(("pjrt",)) == ("pjrt", "train_step")
    assert train_runner.with_one_program(("eager",)) == ("eager",)


def test_images_of_another_size() -> None:
    generator = torch.Generator()
    (image,) = MODELS["resnet18"].with_images_of(64).inputs(2, generator)
    assert image.shape == (2, 3, 64, 64)
    (image,) = MODELS["timm_vision_transformer"].with_images_of(64).inputs(2, generator)
    assert image.shape == (2, 3, 224, 224)
