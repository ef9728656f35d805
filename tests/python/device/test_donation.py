"""Memory on device="pjrt": what nobody needs any more is given to the program that replaces it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torch_pjrt

SIZE = 1 << 18
BYTES = 4 * SIZE


@pytest.fixture(autouse=True)
def _fresh(fresh: None) -> None:
    gc.collect()
    torch.pjrt.synchronize()


def peak_of(call: Callable[[], Any]) -> tuple[int, int]:
    """How far memory rises while `call` runs, and what is left of it."""
    torch.pjrt.synchronize()
    gc.collect()
    before = torch.pjrt.memory_allocated()
    torch.pjrt.reset_peak_memory_stats()
    call()
    torch.pjrt.synchronize()
    return torch.pjrt.max_memory_allocated() - before, torch.pjrt.memory_allocated() - before


def test_memory_is_counted() -> None:
    def call() -> None:
        held.append(torch.zeros(SIZE, device="pjrt") + 1)
        torch.pjrt.mark_step()

    held: list[torch.Tensor] = []
    call()
    peak, left = peak_of(call)
    assert BYTES <= left <= peak < 2 * BYTES
    held.clear()
    gc.collect()


def test_a_replaced_value_is_donated() -> None:
    x = torch.arange(float(SIZE)).to("pjrt")

    def call() -> None:
        x.mul_(2).add_(1)
        torch.pjrt.mark_step()

    call()
    peak, left = peak_of(call)
    assert peak < BYTES // 2
    assert left < BYTES // 2
    assert x[:3].tolist() == [3, 7, 11]


def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@pytest.mark.parametrize("who", ["alias", "pending", "moved"])
def test_a_value_that_is_needed_is_kept(who: str) -> None:
    x = torch.arange(float(SIZE)).to("pjrt")
    for _ in range(3):
        before = x[:3].tolist()
        kept = {"alias": torch.clone, "pending": triple, "moved": torch.detach}[who](x)
        x = x.clone() if who == "moved" else x
        x.mul_(2).add_(1)
        torch.pjrt.mark_step()
        assert x[:3].tolist() == [2 * v + 1 for v in before]
        factor = 3 if who == "pending" else 1
        assert kept[:3].tolist() == [factor * v for v in before]


def test_swapped_values() -> None:
    x, y = torch.full((SIZE,), 1.0, device="pjrt"), torch.full((SIZE,), 2.0, device="pjrt")
    torch.pjrt.mark_step()
    for _ in range(3):
        old = x * 1
        x.copy_(y * 1)
        y.copy_(old)
        torch.pjrt.mark_step()
    assert (x[0].item(), y[0].item()) == (2.0, 1.0)


def test_a_value_replaced_beside_a_failing_check() -> None:
    """The check is another value's affair."""
    x = torch.arange(float(SIZE)).to("pjrt")
    table = torch.zeros(3, device="pjrt")
    torch.pjrt.mark_step()
    bad = table[torch.tensor([7], device="pjrt")]
    x.add_(1)
    torch.pjrt.mark_step()
    with pytest.raises(IndexError, match="out of bounds"):
        bad.cpu()
    assert x[:2].tolist() == [1, 2]


def test_a_compiled_mutation_is_in_place() -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2).add_(1)
        return x.sum()

    fast = torch.compile(change, backend="pjrt", fullgraph=True)
    x = torch.arange(float(SIZE)).to("pjrt")
    fast(x)
    peak, _ = peak_of(lambda: fast(x))
    assert peak < BYTES // 2
    assert x[:3].tolist() == [3, 7, 11]


def test_a_compiled_mutation_of_what_others_hold() -> None:
    fast = torch.compile(lambda x: x.mul_(2), backend="pjrt", fullgraph=True)
    x = torch.arange(4.0).to("pjrt")
    pending, copied, view = x + 1, x.clone(), x[1:3]
    fast(x)
    assert copied.tolist() == [0, 1, 2, 3]
    assert pending.tolist() == [1, 2, 3, 4]
    assert view.tolist() == [2, 4]
    fast(view)
    assert x.tolist() == [0, 4, 8, 6]


def test_a_number_on_the_cpu_may_be_mutated() -> None:
    def change(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return x * count

    fast = torch.compile(change, backend="pjrt", fullgraph=True)
    x, count = torch.ones(2, device="pjrt"), torch.tensor(1.0)
    for k in range(3):
        assert fast(x, count).tolist() == [k + 2.0] * 2
        assert count.item() == k + 2


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_train_step(name: str) -> None:
    """The CPU's numbers, one execution a step, and parameters and state in place."""

    def train(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256)).to(device)
        optimizer: Any = getattr(torch.optim, name)(model.parameters(), 1e-2)
        step = torch_pjrt.train_step(model, optimizer, nn.functional.mse_loss)
        x, y = torch.randn(4, 256).to(device), torch.randn(4, 256).to(device)
        losses = [step(x, y) for _ in range(4)]
        if device == "pjrt":
            parameters = sum(p.nbytes for p in model.parameters())
            torch.pjrt.synchronize()
            torch_pjrt.reset_stats()
            peak, _ = peak_of(lambda: step(x, y))
            stats = torch_pjrt.stats()
            assert (stats["executions"], stats["compiles"]) == (1, 0)
            assert stats["device_to_host_bytes"] == 0
            assert peak < parameters // 2
            assert torch.pjrt.host_ops() == {}
        else:
            step(x, y)
        states = [v for s in optimizer.state.values() for v in s.values() if v.dim() > 0]
        return [t.detach().cpu() for t in [*losses, *model.parameters(), *states]]

    torch.pjrt.reset_host_ops()
    for a, b in zip(train("pjrt"), train("cpu"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_optimizer_of_a_stock_loop_works_in_place() -> None:
    model = nn.Linear(512, 512).to("pjrt")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(2, 512, device="pjrt")

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        torch.pjrt.mark_step()

    for _ in range(3):
        step()
    parameters = sum(p.nbytes for p in model.parameters())
    peak, left = peak_of(step)
    assert peak < 1.5 * parameters  # the gradients of this step, beside those of the last
    assert left < parameters // 2


def test_gradients_outlive_the_step_that_used_them() -> None:
    model = nn.Linear(3, 2).to("pjrt")
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    for _ in range(3):
        before = [p.detach().cpu() for p in model.parameters()]
        optimizer.zero_grad()
        model(torch.ones(4, 3, device="pjrt")).sum().backward()
        optimizer.step()
        torch.pjrt.mark_step()
        for p, old in zip(model.parameters(), before, strict=True):
            assert p.grad is not None
            assert torch.equal(p.grad.cpu(), torch.full_like(old, 4))
            assert not torch.equal(p.detach().cpu(), old)
