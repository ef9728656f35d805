"""The benchmark's models on device="pjrt": the CPU's results, in as few programs as are said, all
of it there."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import torch_pjrt
from torch_pjrt.bench import on_device, train_accuracy, train_loop
from torch_pjrt.bench.models.registry import MODELS, Spec

TEN = [name for name, spec in MODELS.items() if spec.in_table]


def check(name: str) -> None:
    spec = MODELS[name]
    model = spec.build(0)
    inputs = spec.inputs(1, torch.Generator().manual_seed(1))
    torch.pjrt.reset_host_ops()
    with torch.no_grad():
        wanted = model(*inputs)
        model.to("pjrt")
        torch_pjrt.reset_stats()
        got = model(*(x.to("pjrt") for x in inputs))
    outputs = zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, wanted)), strict=True)
    for a, b in outputs:
        assert a.stride() == b.stride()
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4)
    assert torch_pjrt.stats()["executions"] == 1
    assert torch.pjrt.host_ops() == {}


def test_one_model() -> None:
    check("squeezenet1_1")


@pytest.mark.full
@pytest.mark.parametrize("name", TEN)
def test_the_ten_models(name: str) -> None:
    check(name)


def lazy(model: nn.Module) -> train_loop.Step:
    return on_device.started(train_loop.stock_step(model))


def compiled(model: nn.Module) -> train_loop.Step:
    run = torch.compile(model, backend="pjrt", fullgraph=True)
    return on_device.started(train_loop.stock_step(model, run))


def one_program(model: nn.Module) -> train_loop.Step:
    return train_loop.one_program_step(model, keep_grads=True)


# With the executions of a step; the loss is outside of the compiled model.
WAYS: list[tuple[Callable[[nn.Module], train_loop.Step], int]] = [
    (lazy, 1),
    (compiled, 4),
    (one_program, 1),
]


def errors(found: train_loop.Observed, exact: train_loop.Observed) -> train_accuracy.Errors:
    """Those of one seed."""
    total = train_accuracy.Errors()
    for _ in range(train_accuracy.SEEDS):
        total.add(found, exact)
    return total


def check_training(spec: Spec) -> None:
    """Five steps, by the benchmark's rule: the errors against float64 beside eager's own."""
    steps = train_accuracy.STEPS
    model = train_loop.without_dropout(spec.build(0).train())
    generator = torch.Generator().manual_seed(1)
    inputs = spec.inputs(2, generator)
    arguments = (*inputs, train_loop.classes_for(model, inputs, generator))
    wide, twin = copy.deepcopy(model).double(), copy.deepcopy(model)
    in_float64 = [x.double() if x.is_floating_point() else x for x in inputs]
    exact = train_loop.observe(
        wide, train_loop.stock_step(wide), (*in_float64, arguments[-1]), steps
    )
    own = errors(train_loop.observe(twin, train_loop.stock_step(twin), arguments, steps), exact)
    del wide, twin
    on = on_device.moved(arguments)
    torch.pjrt.reset_host_ops()
    for make, executions in WAYS:
        torch._dynamo.reset()
        placed = on_device.copied(model)
        step = make(placed)
        found = errors(train_loop.observe(placed, step, on, steps), exact)
        verdict = train_accuracy.judge(found, own)
        assert verdict.passed, f"{make.__name__}: {verdict.message}"
        torch.pjrt.synchronize()
        torch_pjrt.reset_stats()
        step(*on)
        stats = torch_pjrt.stats()
        assert stats["executions"] == executions, make.__name__
        for name in ("captures", "compiles", "host_to_device_bytes", "device_to_host_bytes"):
            assert stats[name] == 0, (make.__name__, name)
    assert torch.pjrt.host_ops() == {}


def test_training_of_one_model() -> None:
    check_training(MODELS["mlp_3_layers"])


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TEN)
def test_training_of_the_ten_models(name: str) -> None:
    check_training(MODELS[name])
