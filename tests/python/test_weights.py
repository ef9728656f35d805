"""Copies of weights in the memory order that the device reads best."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import torch_pjrt

IMAGE = torch.randn(2, 16, 9, 8)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch_pjrt.reset_stats()
    with torch.no_grad():
        yield


def net() -> nn.Sequential:
    """A convolution and a linear layer of more than 16 KiB each: both are worth a copy."""
    layers = (nn.Conv2d(16, 64, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(64, 128)).eval()


def check(model: nn.Module, fast: Callable[..., torch.Tensor]) -> None:
    torch.testing.assert_close(fast(IMAGE), model(IMAGE), rtol=1e-5, atol=1e-5)


def relaid() -> int:
    return torch_pjrt.stats()["relaid_inputs"]


def test_a_weight_is_copied_once() -> None:
    model = net()
    fast = torch.compile(model, backend="pjrt")
    before = torch_pjrt.stats()["relaid_bytes"]
    for _ in range(3):
        check(model, fast)
    assert relaid() == 2
    weights = model[0].weight.nbytes + model[3].weight.nbytes
    assert torch_pjrt.stats()["relaid_bytes"] - before == weights
    assert torch_pjrt.stats()["copied_inputs"] == 0


def write_by_data(p: nn.Parameter) -> None:
    p.data.mul_(2)


def write_one_element_by_numpy(p: nn.Parameter) -> None:
    p.detach().numpy().reshape(-1)[-1] += 1


def write_in_place(p: nn.Parameter) -> None:
    p.add_(1)


def move_to_other_memory(p: nn.Parameter) -> None:
    p.data = torch.randn_like(p)


WRITES = [write_by_data, write_one_element_by_numpy, write_in_place, move_to_other_memory]


@pytest.mark.parametrize("layer", [0, 3])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_seen_at_the_next_call(
    write: Callable[[nn.Parameter], None], layer: int
) -> None:
    model = net()
    fast = torch.compile(model, backend="pjrt")
    check(model, fast)
    write(model[layer].weight)
    check(model, fast)
    check(model, fast)
    assert relaid() == 3
    assert torch_pjrt.stats()["captures"] == 1


def test_another_layout_is_read_as_it_is() -> None:
    model = net().to(memory_format=torch.channels_last)
    model[3].weight.data = model[3].weight.data.T.contiguous().T
    fast = torch.compile(model, backend="pjrt")
    check(model, fast)
    assert relaid() == 1, "the convolution's: the linear layer's lies as the device wants it"


def test_tied_weights_and_a_replaced_parameter() -> None:
    model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128)).eval()
    model[2].weight = model[0].weight
    x = torch.randn(4, 128)
    fast = torch.compile(model, backend="pjrt")
    torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
    model[0].weight.mul_(-1)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
    model[2].weight = nn.Parameter(torch.randn(128, 128))
    torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_weight_that_the_model_changes() -> None:
    class Decaying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randn(128, 128))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x @ self.weight
            self.weight.mul_(0.5)
            return y

    eager, compiled = Decaying(), Decaying()
    compiled.load_state_dict(eager.state_dict())
    fast = torch.compile(compiled, backend="pjrt")
    x = torch.randn(4, 128)
    for _ in range(3):
        torch.testing.assert_close(fast(x), eager(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(compiled.weight, eager.weight)


def test_a_large_argument_is_no_weight() -> None:
    a, b = torch.randn(4, 128), torch.randn(128, 128)
    fast = torch.compile(lambda a, b: a @ b.T, backend="pjrt")
    torch.testing.assert_close(fast(a, b), a @ b.T, rtol=1e-5, atol=1e-5)
    assert relaid() == 0


def test_training_keeps_no_copies() -> None:
    model = net()
    fast = torch.compile(model, backend="pjrt")
    with torch.enable_grad():
        fast(IMAGE).sum().backward()
    assert relaid() == 0


def test_frozen_weights_stay_as_they_were() -> None:
    model = net()
    fast = torch.compile(model, backend="pjrt", options={"freeze": True})
    before = fast(IMAGE)
    model[0].weight.mul_(2)
    torch.testing.assert_close(fast(IMAGE), before)
    model[0].weight.data = model[0].weight.clone()
    check(model, fast)
    assert relaid() == 3


def test_copies_go_with_the_function() -> None:
    before = torch_pjrt.stats()["relaid_bytes"]
    model = net()
    fast = torch.compile(model, backend="pjrt")
    check(model, fast)
    assert torch_pjrt.stats()["relaid_bytes"] > before
    del fast, model
    torch._dynamo.reset()
    gc.collect()
    assert torch_pjrt.stats()["relaid_bytes"] == before
