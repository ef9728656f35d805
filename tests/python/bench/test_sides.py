"""Networks whose ReLUs and max pools are told their sides, and what the benchmark says of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch.testing import assert_close

from torch_pjrt.bench import cli, sides, train_accuracy
from torch_pjrt.bench.models.registry import MODELS, Spec


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(2, 3, 3),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
            nn.Conv2d(3, 4, 1),
            nn.ReLU6(inplace=True),
            nn.Flatten(),
            nn.Linear(4 * 4 * 4, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x * 9)
        return y


def images(batch: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randn(batch, 2, 8, 8, generator=generator),)


def test_on_its_own_sides_a_network_computes_the_same() -> None:
    torch.manual_seed(0)
    model, (x,) = Net(), images(3, torch.Generator().manual_seed(0))
    told = sides.sided(copy.deepcopy(model))
    wide = copy.deepcopy(told).double()
    sides.take(told, wide, (x.double(),))
    for run in (model, told):
        run(x).square().sum().backward()
    assert_close(told(x), model(x))
    assert_close([p.grad for p in told.parameters()], [p.grad for p in model.parameters()])
    assert [n for n, _ in told.named_parameters()] == [n for n, _ in model.named_parameters()]


def test_another_batch_takes_the_sides_that_were_given() -> None:
    relu = sides.sided(nn.Sequential(nn.ReLU()))
    sides.take(relu, copy.deepcopy(relu), (torch.tensor([1.0, -1.0]),))
    assert_close(relu(torch.tensor([-1e-9, 1e-9])), torch.tensor([-1e-9, 0.0]), rtol=0, atol=0)
    other = sides.sided(nn.Sequential(nn.ReLU()))
    sides.take(relu, other, (torch.tensor([-1.0, 1.0]),))
    assert_close(relu(torch.tensor([-1e-9, 1e-9])), torch.tensor([0.0, 1e-9]), rtol=0, atol=0)


def test_of_all_models_those_with_a_relu_have_sides() -> None:
    with torch.device("meta"):
        having = {n for n, s in MODELS.items() if s.in_table and sides.has_sides(s.make())}
    assert having == {n for n, s in MODELS.items() if s.family in ("resnet", "plain", "mobile")}


@pytest.mark.plugin
def test_the_benchmark_says_what_is_left_of_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a rule that allows nothing fails."""
    torch._dynamo.reset()
    rule = train_accuracy.judge

    def strict(ours: Any, eager: Any) -> train_accuracy.Verdict:
        monkeypatch.setattr(train_accuracy, "judge", rule)  # for the second look
        return train_accuracy.Verdict(False, 1.0, 9.0, 9.0, 9.0, "too much")

    monkeypatch.setattr(train_accuracy, "judge", strict)
    spec = Spec("net", "net", Net, images, parameters=0, batch_size=4)
    command = ["--training", "--accuracy", "--backend", "aot_eager"]
    assert cli.main(command, {"net": spec}, isolated=False) == cli.FAILED
    out = capsys.readouterr().out
    assert "WRONG: without dropout: too much; without dropout, on float64's sides of ReLUs" in out
    assert "it passes (gradients" in out
    torch._dynamo.reset()
