"""train_step: steps that are made again without Dynamo, and what sends one through it."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Tensor = torch.Tensor
Optimizer = torch.optim.Optimizer


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16, bias=False)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 5)
        self.activation: Callable[[Tensor], Tensor] = torch.relu
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.activation(self.norm(self.first(x))))  # type: ignore[no-any-return]


def batch(n: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=generator)
    return x, torch.randint(0, 5, (n,), generator=generator)


class Pair:
    """A model that train_step trains, and a copy that eager does."""

    def __init__(self, **options: Any) -> None:
        torch.manual_seed(0)
        self.models = [Net()]
        self.models.append(copy.deepcopy(self.models[0]))
        self.optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in self.models]
        self.step = torch_pjrt.train_step(
            self.models[0], self.optimizers[0], F.cross_entropy, **options
        )

    def check(self, steps: int = 3, n: int = 6) -> None:
        for k in range(steps):
            x, target = batch(n, k)
            loss = self.step(x, target)
            model, optimizer = self.models[1], self.optimizers[1]
            optimizer.zero_grad()
            with torch.enable_grad():
                want = F.cross_entropy(model(x), target)
            want.backward()
            optimizer.step()
            assert_close(loss, want.detach(), rtol=1e-3, atol=1e-4)
        got, expected = (m.state_dict() for m in self.models)
        for name, tensor in expected.items():
            assert_close(got[name], tensor, rtol=1e-3, atol=1e-3, msg=lambda m, n=name: f"{n}: {m}")

    def each(self, change: Callable[[Net, Optimizer], Any]) -> None:
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            change(model, optimizer)


def forbid_dynamo(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*args: Any) -> Any:
        raise AssertionError("the step went through Dynamo")

    monkeypatch.setattr(step, "_run", call)


def test_warm_steps_need_no_dynamo(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    scheduler = [torch.optim.lr_scheduler.StepLR(o, 1, 0.9) for o in pair.optimizers]
    pair.check()
    forbid_dynamo(pair.step, monkeypatch)
    torch_pjrt.reset_stats()
    for _ in range(3):
        pair.check(1)
        for s in scheduler:
            s.step()
    counts = torch_pjrt.stats()
    assert (counts["executions"], counts["memory_hits"]) == (3, 3)
    # Batch norm's buffers are not given to anybody: the plugin updates them where they lie.
    assert (counts["copied_inputs"], counts["device_to_host_bytes"]) == (0, 0)


def test_sizes_that_change_need_no_dynamo(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    for n in (6, 5, 7):
        pair.check(2, n)
    forbid_dynamo(pair.step, monkeypatch)
    pair.check(1, 9)
    pair.check(1, 7)


def set_hyper(name: str, value: Any) -> Callable[[Net, Optimizer], None]:
    def change(model: Net, optimizer: Optimizer) -> None:
        optimizer.param_groups[0][name] = value

    return change


def new_memory(model: Net, optimizer: Optimizer) -> None:
    model.first.weight.data = model.first.weight.data * 2


def write_data(model: Net, optimizer: Optimizer) -> None:
    with torch.no_grad():
        model.first.weight.mul_(2)
    model.second.bias.data.numpy()[:] = 1.0


def new_state_tensor(model: Net, optimizer: Optimizer) -> None:
    own = optimizer.state[model.first.weight]
    own["exp_avg"] = torch.ones_like(own["exp_avg"])


def new_state(model: Net, optimizer: Optimizer) -> None:
    optimizer.state.clear()


def load(model: Net, optimizer: Optimizer) -> None:
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=False)
    state = copy.deepcopy(optimizer.state_dict())
    for own in state["state"].values():
        own["exp_avg"].mul_(3)
    optimizer.load_state_dict(state)


def new_group(model: Net, optimizer: Optimizer) -> None:
    group = optimizer.param_groups[0]
    moved = group["params"].pop()
    optimizer.add_param_group({"params": [moved], "lr": 0.1})


def new_list(model: Net, optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][:-1]


def freeze(model: Net, optimizer: Optimizer) -> None:
    model.second.bias.requires_grad_(False)


def new_buffer(model: Net, optimizer: Optimizer) -> None:
    model.norm.running_mean = torch.ones(16)


def new_parameter(model: Net, optimizer: Optimizer) -> None:
    model.second.bias = nn.Parameter(torch.ones(5))  # which the optimizer doesn't have


def new_module(model: Net, optimizer: Optimizer) -> None:
    second = nn.Linear(16, 5, bias=False)
    second.weight = model.second.weight
    model.second = second


def new_function(model: Net, optimizer: Optimizer) -> None:
    model.activation = torch.tanh


def to_eval(model: Net, optimizer: Optimizer) -> None:
    model.eval()


def new_momentum(model: Net, optimizer: Optimizer) -> None:
    model.norm.momentum = 0.5


def forward_hook(model: Net, optimizer: Optimizer) -> None:
    model.norm.register_forward_hook(lambda module, args, y: y * 2)


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def new_class(model: Net, optimizer: Optimizer) -> None:
    model.second.__class__ = Doubled


def twice(module: nn.Module, args: Any, y: Tensor) -> Tensor:
    return y * 2


def hooks_by_assignment(model: Net, optimizer: Optimizer) -> None:
    model.second._forward_hooks = OrderedDict({0: twice})


def other_attributes(model: Net, optimizer: Optimizer) -> None:
    model.second.__dict__ = dict(vars(model.second)) | {"_forward_hooks": OrderedDict({0: twice})}


def twin_with_a_hook(model: Net, optimizer: Optimizer) -> None:
    """Of the same class, with the same parameters."""
    second = nn.Linear(16, 5)
    second.weight, second.bias = model.second.weight, model.second.bias
    second.register_forward_hook(twice)
    model.second = second


def exchanged(model: Net, optimizer: Optimizer) -> None:
    bias = model.second.bias
    model.second.bias = nn.Parameter(bias.detach().clone().requires_grad_(False), False)


def unknown_attribute(model: Net, optimizer: Optimizer) -> None:
    model.second.note = "of no meaning"  # type: ignore[assignment]


@pytest.mark.parametrize(
    "change",
    [
        new_class,
        hooks_by_assignment,
        other_attributes,
        twin_with_a_hook,
        exchanged,
        unknown_attribute,
        set_hyper("lr", 0.1),
        set_hyper("betas", (0.5, 0.9)),
        set_hyper("weight_decay", 0.0),
        set_hyper("maximize", True),
        new_memory,
        write_data,
        new_state_tensor,
        new_state,
        load,
        new_group,
        new_list,
        freeze,
        new_buffer,
        new_parameter,
        new_module,
        new_function,
        to_eval,
        new_momentum,
        forward_hook,
    ],
)
def test_changes_are_seen(change: Callable[[Net, Optimizer], Any]) -> None:
    pair = Pair()
    pair.check()
    pair.each(change)
    pair.check(2)


def double(p: Tensor) -> None:
    p.grad.mul_(2)  # type: ignore[union-attr]


def doubled(gradient: Tensor) -> Tensor:
    return gradient * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda model, optimizer: model.first.weight.register_hook(doubled),
        lambda model, optimizer: model.second.bias.register_post_accumulate_grad_hook(double),
        lambda model, optimizer: model.second.register_full_backward_hook(
            lambda module, grads, _: tuple(g * 2 for g in grads)
        ),
        lambda model, optimizer: optimizer.register_step_post_hook(
            lambda o, *_: o.param_groups[0]["params"][0].data.mul_(0.5)
        ),
    ],
)
def test_hooks_are_seen(change: Callable[[Net, Optimizer], Any]) -> None:
    pair = Pair()
    pair.check()
    handles = []
    pair.each(lambda m, o: handles.append(change(m, o)))
    with pytest.warns(torch_pjrt.ThreeProgramsWarning):
        pair.check(2)
    for handle in handles:
        handle.remove()
    pair.check(3)


def test_gradients_are_kept_or_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(keep_grads=True)
    pair.check()
    forbid_dynamo(pair.step, monkeypatch)
    pair.check(1)
    for got, want in zip(*(m.parameters() for m in pair.models), strict=True):
        assert_close(got.grad, want.grad, rtol=1e-3, atol=1e-4)
    dropped = Pair()
    dropped.check()
    forbid_dynamo(dropped.step, monkeypatch)
    for p in dropped.models[0].parameters():
        p.grad = torch.ones_like(p)
    dropped.check(1)
    assert all(p.grad is None for p in dropped.models[0].parameters())


def test_python_of_the_model_that_changes_objects_runs_at_each_step() -> None:
    model = Net()

    def forward(x: Tensor, target: Tensor) -> Tensor:
        model.seen.append(len(model.seen))
        return F.cross_entropy(model(x), target)

    step = torch_pjrt.train_step(forward, torch.optim.SGD(model.parameters(), lr=0.1))
    x, target = batch()
    for _ in range(5):
        step(x, target)
    assert model.seen == [0, 1, 2, 3, 4]


def test_results_of_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()

    def forward(x: Tensor, target: Tensor) -> Any:
        y = model(x)
        return F.cross_entropy(y, target), {"y": y, "n": 3, "none": None}

    step = torch_pjrt.train_step(forward, torch.optim.SGD(model.parameters(), lr=0.0))
    x, target = batch()
    for _ in range(3):
        want = step(x, target)
    forbid_dynamo(step, monkeypatch)
    loss, found = step(x, target)
    assert_close((loss, found["y"]), (want[0], want[1]["y"]))
    assert (found["n"], found["none"]) == (3, None)
    assert not loss.requires_grad


def test_what_the_optimizer_holds_as_a_batch() -> None:
    """The same memory is read as data and updated."""
    x, target = torch.randn(16, 8), torch.randn(16, 16)
    weights = []
    for eager in (True, False):
        torch.manual_seed(0)
        model = nn.Linear(8, 16, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = torch_pjrt.train_step(model, optimizer, F.mse_loss)
        for k in range(5):
            given = x if k < 3 else optimizer.state[model.weight]["momentum_buffer"]
            if eager:
                optimizer.zero_grad()
                F.mse_loss(model(given), target).backward()
                optimizer.step()
            else:
                step(given, target)
        weights.append(model.weight.detach())
    assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-5)


def test_contexts_are_seen() -> None:
    pair = Pair()
    pair.check()
    x, target = batch()
    torch_pjrt.reset_stats()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pair.step(x, target)
    assert torch_pjrt.stats()["captures"] == 1
    with torch.compiler.set_stance("force_eager"):
        torch_pjrt.reset_stats()
        pair.step(x, target)
        assert torch_pjrt.stats()["executions"] == 0


def test_versions_of_what_changes_are_raised() -> None:
    pair = Pair()
    pair.check()
    model = pair.models[0]
    changed = [model.first.weight, model.norm.running_mean]
    before = [t._version for t in changed]
    pair.step(*batch())
    assert all(t._version > v for t, v in zip(changed, before, strict=True))
