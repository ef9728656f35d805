"""Training on device="pjrt": the CPU's numbers, and no compile after the start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn, optim

import torch_pjrt

Make = Callable[[Iterable[nn.Parameter]], optim.Optimizer]


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64, 8),
            nn.LayerNorm(8),
            nn.GELU(),
            nn.Linear(8, 5),
        )


def train(device: str, make: Make, steps: int) -> tuple[list[float], list[torch.Tensor], list[int]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 3, 8, 8, generator=generator)
    target = torch.randint(0, 5, (6,), generator=generator)
    model = network().to(device)
    optimizer = make(model.parameters())
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    average = [p.detach().clone() for p in model.parameters()]
    losses, compiles = [], []
    for step in range(steps):
        loss = nn.functional.cross_entropy(model(x.to(device)), target.to(device))
        loss = loss * (1 + 0.1 * step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            for mean, p in zip(average, model.parameters(), strict=True):
                mean.mul_(0.9 + step / 1000).add_(p, alpha=0.1 - step / 1000)
        losses.append(loss.detach())
        if device == "pjrt":
            torch.pjrt.mark_step()
        stats = torch_pjrt.stats()
        compiles.append(stats["compiles"] + stats["disk_hits"])
    values = [t.detach().cpu() for t in [*model.state_dict().values(), *average]]
    return [float(loss) for loss in losses], values, compiles


OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-2),
    "adam": lambda p: optim.Adam(p, 1e-2),
    "adamw": lambda p: optim.AdamW(p, 1e-2, foreach=False),
    "adamw foreach": lambda p: optim.AdamW(p, 1e-2, foreach=True, amsgrad=True),
    "adam fused": lambda p: optim.Adam(p, 1e-2, fused=True, weight_decay=1e-2),
    "adamw fused": lambda p: optim.AdamW(p, 1e-2, fused=True),
    "rmsprop": lambda p: optim.RMSprop(p, 1e-2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_small_network(name: str) -> None:
    torch.pjrt.reset_host_ops()
    wanted = train("cpu", OPTIMIZERS[name], 8)
    got = train("pjrt", OPTIMIZERS[name], 8)
    assert got[0] == pytest.approx(wanted[0], rel=1e-4)
    for a, b in zip(got[1], wanted[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    assert torch.pjrt.host_ops() == {}
    compiles = got[2]
    assert compiles[2] == compiles[-1], compiles


def test_gradients_are_right_after_the_optimizer_ran() -> None:
    model = nn.Linear(3, 2).to("pjrt")
    optimizer = optim.SGD(model.parameters(), 0.1)
    before = [p.detach().cpu() for p in model.parameters()]
    model(torch.ones(4, 3, device="pjrt")).sum().backward()
    optimizer.step()
    executions = torch_pjrt.stats()["executions"]
    gradients = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
    after = [p.detach().cpu() for p in model.parameters()]
    assert torch_pjrt.stats()["executions"] <= executions + 2
    for g, old, new in zip(gradients, before, after, strict=True):
        assert torch.equal(g, torch.full_like(g, 4))
        torch.testing.assert_close(new, old - 0.1 * g)


def test_random_numbers() -> None:
    def draw() -> list[torch.Tensor]:
        x = torch.ones(1000, device="pjrt")
        return [nn.functional.dropout(x, 0.25).cpu(), torch.randn(50, device="pjrt").cpu()]

    torch.manual_seed(3)
    first = draw()
    compiles = torch_pjrt.stats()["compiles"]
    second = draw()
    torch.manual_seed(3)
    third = draw()
    assert all(torch.equal(a, b) for a, b in zip(first, third, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert first[0].unique().tolist() == pytest.approx([0, 4 / 3])
    assert torch_pjrt.stats()["compiles"] == compiles
    generator = torch.Generator(device="pjrt").manual_seed(5)
    a = torch.rand(5, device="pjrt", generator=generator)
    generator.manual_seed(5)
    assert torch.equal(torch.rand(5, device="pjrt", generator=generator).cpu(), a.cpu())


def test_dropout_has_one_mask_in_forward_and_backward() -> None:
    x = torch.ones(1000, device="pjrt", requires_grad=True)
    y = nn.functional.dropout(x, 0.5)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


def test_a_long_loop_is_cut() -> None:
    x = torch.zeros(3, device="pjrt")
    for _ in range(10_000):
        x += 1
    assert x.tolist() == [10_000] * 3


def test_a_moved_value_executes_nothing() -> None:
    x, y = torch.randn(4, device="pjrt"), torch.zeros(4, device="pjrt")
    torch.pjrt.mark_step()
    executions = torch_pjrt.stats()["executions"]
    y.copy_(x)
    torch.pjrt.mark_step()
    assert torch_pjrt.stats()["executions"] == executions
    assert torch.equal(x.cpu(), y.cpu())


def test_an_error_from_values_is_raised_at_a_read() -> None:
    table = torch.zeros(3, 2, device="pjrt")
    bad = table[torch.tensor([0, 7], device="pjrt")]
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        bad.cpu()
    assert table.sum().item() == 0


def test_values_after_an_error_raise_it_until_they_are_written_anew() -> None:
    table = torch.arange(3.0, device="pjrt")
    index = torch.tensor([0, 7], device="pjrt")
    x = torch.ones(2, device="pjrt")
    x += table[index]
    y = table * 2
    torch.pjrt.mark_step()
    z = x + 1
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        torch.pjrt.synchronize()
    assert y.tolist() == [0, 2, 4]
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7 is out of bounds"):
            z.cpu()
    x.zero_()
    assert (x + 1).tolist() == [1, 1]
    torch.pjrt.synchronize()


def test_a_mutated_argument_keeps_its_value_after_an_error() -> None:
    def write(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x[index] = 5.0
        return x + 1

    fast = torch.compile(write, backend="pjrt", fullgraph=True)
    x = torch.zeros(3, device="pjrt")
    y = fast(x, torch.tensor([1, 3], device="pjrt"))
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        y.cpu()
    assert x.tolist() == [0, 0, 0]
    assert fast(x, torch.tensor([1, 2], device="pjrt")).tolist() == [1, 6, 6]
    assert x.tolist() == [0, 5, 5]


def modules() -> list[Any]:
    return [
        (nn.LSTM(4, 3, batch_first=True), (2, 5, 4)),
        (nn.GRU(4, 3), (5, 2, 4)),
        (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
    ]


@pytest.mark.parametrize("index", range(3))
def test_modules(index: int) -> None:
    model, sizes = modules()[index]
    x = torch.randn(sizes)

    def run(device: str) -> list[torch.Tensor]:
        model.to(device).zero_grad()
        y = model(x.to(device))
        y = y[0] if isinstance(y, tuple) else y
        y.square().sum().backward()
        return [y.detach().cpu(), *(p.grad.cpu() for p in model.parameters())]

    wanted = run("cpu")
    for a, b in zip(run("pjrt"), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
