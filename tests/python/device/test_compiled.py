"""torch.compile with parameters and inputs on device="pjrt"."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import torch_pjrt
from torch_pjrt.trivial import pjrt_trivial


@pytest.fixture(autouse=True)
def _fresh(fresh: None) -> None:
    pass


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="pjrt", fullgraph=True, **options)


def test_a_call_copies_nothing_and_runs_once() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(3, 4)
    wanted = model(x)
    model.to("pjrt")
    on_device = x.to("pjrt")
    fast = compiled(model)
    with torch.no_grad():
        fast(on_device)
        torch_pjrt.reset_stats()
        y = fast(on_device)
    stats = torch_pjrt.stats()
    assert (stats["executions"], stats["memory_hits"]) == (1, 1)
    assert stats["host_to_device_bytes"] == stats["device_to_host_bytes"] == 0
    assert y.device.type == "pjrt"
    torch.testing.assert_close(y.cpu(), wanted)


def test_pending_inputs_are_run_as_one_program() -> None:
    fast = compiled(lambda x, y: x @ y)
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    a, b = x.to("pjrt"), y.to("pjrt")
    fast(a, b)
    unrelated = torch.ones(2, device="pjrt") * 3
    torch_pjrt.reset_stats()
    result = fast(a + 1, b * 2)
    assert torch_pjrt.stats()["executions"] == 2
    torch.testing.assert_close(result.cpu(), (x + 1) @ (y * 2))
    assert unrelated.tolist() == [3, 3]
    assert torch_pjrt.stats()["executions"] == 3


def test_mutation_and_views() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.add_(1)
        y[1:].mul_(2)
        return x.t(), x * 1, y

    x, y = torch.randn(2, 3), torch.randn(4)
    a, b = x.to("pjrt"), y.to("pjrt")
    wanted = function(x, y)
    got = compiled(function)(a, b)
    for w, g in zip([*wanted, x, y], [*got, a, b], strict=True):
        assert g.stride() == w.stride()
        torch.testing.assert_close(g.cpu(), w)
    got[0].zero_()  # a view of the input
    assert a.cpu().abs().sum() == 0
    assert got[2] is b


def test_sizes_that_change() -> None:
    fast = compiled(lambda x: (x * 2).sum(0) + x.shape[0], dynamic=True)
    for n in (3, 5, 8):
        x = torch.randn(n, 4)
        torch.testing.assert_close(fast(x.to("pjrt")).cpu(), (x * 2).sum(0) + n)
    assert torch_pjrt.stats()["captures"] == 1


def test_training_with_an_eager_optimizer() -> None:
    def train(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

        def loss_of(x: torch.Tensor) -> torch.Tensor:
            return model(x).square().mean()

        step = compiled(loss_of) if device == "pjrt" else loss_of
        x = torch.randn(16, 4).to(device)
        for _ in range(4):
            torch_pjrt.reset_stats()
            optimizer.zero_grad()
            step(x).backward()
            optimizer.step()
            if device == "pjrt":
                torch.pjrt.mark_step()
        if device == "pjrt":
            assert torch_pjrt.stats()["executions"] == 3  # forward, backward, optimizer
            assert torch_pjrt.stats()["compiles"] == 0
        return [p.detach().cpu() for p in model.parameters()]

    for a, b in zip(train("pjrt"), train("cpu"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_random_numbers_are_the_devices() -> None:
    fast = compiled(lambda x: nn.functional.dropout(x, 0.5))
    x = torch.ones(1000, device="pjrt")
    torch.manual_seed(1)
    first = fast(x).cpu()
    second = fast(x).cpu()
    torch.manual_seed(1)
    assert torch.equal(fast(x).cpu(), first)
    assert not torch.equal(first, second)
    assert set(first.unique().tolist()) == {0.0, 2.0}


def two_devices(x: torch.Tensor) -> torch.Tensor:
    y = (x.sin() + 1).cos().exp() * 2
    return (y.to("pjrt") + 1).sin().cos() - 3


def test_a_move_between_devices_is_made_in_eager() -> None:
    x = torch.randn(3)
    with pytest.warns(torch_pjrt.FallbackWarning, match="aten::_to_copy"):
        y = compiled(two_devices)(x)
    assert y.device.type == "pjrt"
    torch.testing.assert_close(y.cpu(), two_devices(x).cpu())


def test_a_move_between_devices_without_fallback() -> None:
    with pytest.raises(torch_pjrt.Error, match="move tensors between devices outside"):
        compiled(two_devices, options={"fallback": "error"})(torch.ones(3))


@pytest.mark.parametrize("device", ["cpu", "pjrt"])
def test_trivial(device: str) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).to(device)
    other = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    other.load_state_dict(model.state_dict())
    x = torch.randn(5, 4)
    fast = torch.compile(model, backend=pjrt_trivial)
    for _ in range(2):
        y = fast(x.to(device))
        torch.testing.assert_close(y.cpu(), other(x))
    y.sum().backward()
    other(x).sum().backward()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-4, atol=1e-5)
    for name, buffer in model.named_buffers():
        if "running" in name:
            assert bool(buffer.cpu().ne(0).any())


def test_executions_of_a_training_step() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to("pjrt")
    optimizer = torch.optim.AdamW(model.parameters())
    x, target = torch.randn(3, 4, device="pjrt"), torch.randn(3, 2, device="pjrt")
    forward = compiled(model)
    with_loss = compiled(lambda x, y: nn.functional.mse_loss(model(x), y))
    for loss_of, wanted in ((with_loss, 3), (lambda x, y: (forward(x) - y).square().mean(), 4)):
        for step in range(4):
            torch_pjrt.reset_stats()
            optimizer.zero_grad()
            loss_of(x, target).backward()
            optimizer.step()
            torch.pjrt.mark_step()
            if step > 0:
                stats = torch_pjrt.stats()
                assert stats["executions"] == wanted
                assert stats["host_to_device_bytes"] == stats["device_to_host_bytes"] == 0


def test_warmup_compiles_and_executes_nothing() -> None:
    model = nn.Linear(4, 2).to("pjrt")
    fast = compiled(model, dynamic=True)
    shapes = [torch.empty(n, 4, device="meta") for n in (3, 5)]
    torch.pjrt.mark_step()
    executions = torch_pjrt.stats()["executions"]
    with torch.no_grad():
        torch_pjrt.warmup(fast, [(x,) for x in shapes])
        assert torch_pjrt.stats()["executions"] == executions
        torch_pjrt.reset_stats()
        x = torch.randn(5, 4)
        y = fast(x.to("pjrt"))
    torch.testing.assert_close(y.cpu(), model.cpu()(x))
    assert torch_pjrt.stats()["compiles"] == torch_pjrt.stats()["captures"] == 0
