"""torch.compile(optimizer.step): the stock optimizers, and the ops that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Tensor = torch.Tensor
optim = torch.optim

OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {
    "sgd": lambda p, **k: optim.SGD(p, lr=0.1, **k),
    "sgd with momentum": lambda p, **k: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, **k),
    "adam": lambda p, **k: optim.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True, **k),
    "adamw": lambda p, **k: optim.AdamW(p, lr=0.01, **k),
    "rmsprop": lambda p, **k: optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5, **k),
    "adagrad": lambda p, **k: optim.Adagrad(p, lr=0.1, lr_decay=0.1, **k),
    "adadelta": lambda p, **k: optim.Adadelta(p, **k),
    "adamax": lambda p, **k: optim.Adamax(p, **k),
    "nadam": lambda p, **k: optim.NAdam(p, **k),
    "radam": lambda p, **k: optim.RAdam(p, **k),
    "rprop": lambda p, **k: optim.Rprop(p, **k),
}
_FULL = pytest.mark.full
# Each formula by one of torch's two loops in a normal run, by both in a full one.
CASES = [
    pytest.param(
        name, foreach, marks=[] if foreach is (k % 2 == 0) else [_FULL], id=f"{name}-{foreach}"
    )
    for k, name in enumerate(OPTIMIZERS)
    for foreach in (False, True)
]


@pytest.mark.parametrize(("name", "foreach"), CASES)
def test_a_step_follows_eager_and_a_scheduler_compiles_nothing(name: str, foreach: bool) -> None:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(5))]
    others = [nn.Parameter(p.detach().clone()) for p in parameters]
    ours, eager = (OPTIMIZERS[name](p, foreach=foreach) for p in (parameters, others))
    schedules = [optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (ours, eager)]
    step = torch.compile(ours.step, backend="pjrt")
    counts = []
    for _ in range(12):  # more than Dynamo's limit of recompiles
        for p, q in zip(parameters, others, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        step()
        eager.step()
        for schedule in schedules:
            schedule.step()
        counts.append(torch_pjrt.stats())
    for p, q in zip(parameters, others, strict=True):
        assert_close(p, q, rtol=1e-4, atol=1e-5)
    assert counts[-1]["captures"] == counts[1]["captures"] <= 2
    assert counts[-1]["compiles"] == counts[1]["compiles"]
    assert counts[-1]["executions"] == 12


def test_the_fused_form_runs_in_eager() -> None:
    p = nn.Parameter(torch.ones(3))
    optimizer = optim.AdamW([p], lr=0.1, weight_decay=0.0, fused=True)
    p.grad = torch.ones(3)
    torch.compile(optimizer.step, backend="pjrt")()
    assert_close(p.detach(), torch.full((3,), 0.9))


NUMBERS: dict[str, Callable[..., Any]] = {
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=0.3),
    "addcmul_": lambda x, y, z: x.clone().addcmul_(y, z, value=0.3),
    "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z, value=-0.3),
    "addcdiv_": lambda x, y, z: x.clone().addcdiv_(y, z),
    "broadcast": lambda x, y, z: torch.addcmul(x[0], y, z[:, :1]),
    "0-d": lambda x, y, z: torch.addcmul(x, y, z[0, 0]),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_products_that_are_added(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(3, 4, dtype=torch.float64).to(dtype) for _ in range(3)]
    got = torch.compile(NUMBERS[name], backend="pjrt")(*tensors)
    assert_close(got, NUMBERS[name](*tensors), check_stride=True)


def test_products_of_integers_are_added() -> None:
    x = torch.arange(6).view(2, 3)
    got = torch.compile(lambda x: torch.addcmul(x, x, x, value=2), backend="pjrt")(x)
    assert_close(got, torch.addcmul(x, x, x, value=2))


FOREACH: dict[str, Callable[..., Any]] = {
    "add a list": lambda x, y: torch._foreach_add(x, y, alpha=2),
    "add numbers": lambda x, y: torch._foreach_add(x, [1.0, 2.0]),
    "add a tensor": lambda x, y: torch._foreach_add(x, y[0][0, 0], alpha=0.5),
    "addcmul by numbers": lambda x, y: torch._foreach_addcmul(x, y, y, [1.0, 2.0]),
    "clamp": lambda x, y: torch._foreach_clamp_min(torch._foreach_clamp_max(x, 0.5), y),
    "copy": lambda x, y: _copied(x, y),
    "divide": lambda x, y: torch._foreach_div(x, 2.0),
    "in place": lambda x, y: _multiplied(x, y),
    "lerp by a number": lambda x, y: torch._foreach_lerp(x, y, 0.3),
    "lerp by a list": lambda x, y: torch._foreach_lerp(x, y, y),
    "maximum": lambda x, y: torch._foreach_maximum(torch._foreach_minimum(x, y), 0.1),
    "norm": lambda x, y: torch._foreach_norm(x, 1),
    "power of a number": lambda x, y: torch._foreach_pow(2.0, x),
    "subtract": lambda x, y: torch._foreach_sub(x, y, alpha=2),
    "unary": lambda x, y: torch._foreach_sqrt(torch._foreach_abs(torch._foreach_neg(x))),
    "zero": lambda x, y: _zeroed(x),
}


def _copied(x: list[Tensor], y: list[Tensor]) -> list[Tensor]:
    x = [t.double() for t in x]
    torch._foreach_copy_(x, y)
    return x


def _multiplied(x: list[Tensor], y: list[Tensor]) -> list[Tensor]:
    x = [t.clone() for t in x]
    torch._foreach_mul_(x, y)
    return x


def _zeroed(x: list[Tensor]) -> list[Tensor]:
    x = [t.clone() for t in x]
    torch._foreach_zero_(x)
    return x


@pytest.mark.parametrize("name", FOREACH)
def test_ops_on_lists(name: str) -> None:
    torch.manual_seed(0)
    x = [torch.randn(3, 4), torch.randn(5)]
    y = [torch.randn(3, 4), torch.randn(5)]
    got = torch.compile(FOREACH[name], backend="pjrt", fullgraph=True)(x, y)
    want = FOREACH[name](x, y)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert_close(g, w)


def test_a_symbolic_factor_is_a_value() -> None:
    def scaled(x: Tensor, y: Tensor, a: float) -> list[Tensor]:
        sums = [torch.add(x, y, alpha=a), torch.sub(x, y, alpha=a), torch.lerp(x, y, a)]
        return [*sums, torch.addcmul(x, y, y, value=a), torch.addcdiv(x, y, y + 9, value=a)]

    fast = torch.compile(scaled, backend="pjrt")
    x, y = torch.randn(4), torch.randn(4)
    for k in range(6):
        got, want = fast(x, y, 0.1 + k), scaled(x, y, 0.1 + k)
        for g, w in zip(got, want, strict=True):
            assert_close(g, w)
    assert torch_pjrt.stats()["captures"] == 2
