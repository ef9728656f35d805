"""train_step where a step can't be one program: it does what the stock loop does, and says why."""

from __future__ import annotations

import copy
import warnings
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
Setup = Callable[[nn.Module, Optimizer], Any]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 5))


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 8, generator=generator)
    return x, torch.randint(0, 5, (6,), generator=generator)


def adamw(parameters: Any) -> Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def compare(
    model: nn.Module,
    make: Callable[[Any], Optimizer],
    reason: str,
    setup: Setup = lambda model, optimizer: None,
    steps: int = 4,
    **options: Any,
) -> None:
    """Against the stock loop in eager, with one warning."""
    other = copy.deepcopy(model)
    optimizer, other_optimizer = make(model.parameters()), make(other.parameters())
    setup(model, optimizer)
    setup(other, other_optimizer)
    step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy, **options)
    with pytest.warns(torch_pjrt.ThreeProgramsWarning, match=reason) as said:  # noqa: PT031
        for k in range(steps):
            x, target = batch(k)

            def closure() -> Tensor:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), target)  # noqa: B023
                loss.backward()
                if "clip_grad_norm" in options:
                    nn.utils.clip_grad_norm_(model.parameters(), options["clip_grad_norm"])
                return loss

            if isinstance(optimizer, torch.optim.LBFGS):
                want = optimizer.step(closure)
            else:
                want = closure()
                optimizer.step()
            got = step(x, target)
            assert not got.requires_grad
            assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)
    ours = [w for w in said if w.category is torch_pjrt.ThreeProgramsWarning]
    assert len(ours) == 1
    assert ours[0].filename == __file__
    for (name, a), b in zip(other.state_dict().items(), model.state_dict().values(), strict=True):
        assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    assert all(p.grad is None for p in other.parameters())
    state, other_state = (o.state_dict()["state"] for o in (optimizer, other_optimizer))
    assert_close(other_state, state, rtol=1e-4, atol=1e-5)


# --- hooks


def on_gradient(model: nn.Module, optimizer: Optimizer) -> None:
    model[0].weight.register_hook(lambda g: g * 0.5)  # type: ignore[index]


def after_accumulation(model: nn.Module, optimizer: Optimizer) -> None:
    def halve(p: Tensor) -> None:
        assert p.grad is not None
        p.grad.mul_(0.5)

    model[0].weight.register_post_accumulate_grad_hook(halve)  # type: ignore[index]


def on_module(model: nn.Module, optimizer: Optimizer) -> None:
    model[0].register_full_backward_hook(lambda m, inner, outer: None)  # type: ignore[index]
    model[1].register_full_backward_pre_hook(lambda m, outer: (outer[0] * 0.5,))  # type: ignore[index]


def on_step(model: nn.Module, optimizer: Optimizer) -> None:
    def decay(optimizer: Optimizer, *args: Any) -> None:
        with torch.no_grad():
            for p in optimizer.param_groups[0]["params"]:
                p.mul_(0.9)

    optimizer.register_step_pre_hook(decay)
    optimizer.register_step_post_hook(decay)


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        (on_gradient, r"parameter of shape \[16, 8\] has hooks"),
        (after_accumulation, r"parameter of shape \[16, 8\] has hooks"),
        (on_module, "a Linear has backward hooks"),
        (on_step, "the optimizer has hooks"),
    ],
)
def test_hooks_run(setup: Setup, reason: str) -> None:
    torch.manual_seed(0)
    compare(network(), adamw, reason, setup)


def test_hooks_for_all_modules_run() -> None:
    torch.manual_seed(0)
    calls = []
    hook = nn.modules.module.register_module_full_backward_hook(
        lambda module, inner, outer: calls.append(module)
    )
    try:
        compare(network(), adamw, "for all modules")
    finally:
        hook.remove()
    assert len(calls) == 2 * 4 * 4


def test_hooks_come_and_go_between_steps() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    step(*batch())
    assert torch_pjrt.stats()["executions"] == 1
    seen = []
    hook = model[0].weight.register_hook(lambda g: seen.append(g.clone()))  # type: ignore[index,operator]
    with pytest.warns(torch_pjrt.ThreeProgramsWarning):
        step(*batch())
    assert len(seen) == 1
    assert torch_pjrt.stats()["executions"] == 1 + 3
    hook.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(*batch())
    assert len(seen) == 1
    assert torch_pjrt.stats()["executions"] == 1 + 3 + 1


def test_backward_hooks_of_a_module_added_later_are_seen() -> None:
    model = network()
    step = torch_pjrt.train_step(model, adamw(model.parameters()), F.cross_entropy)
    step(*batch())
    seen = []
    added = nn.Linear(5, 5)
    added.register_full_backward_hook(lambda *args: seen.append(1))
    model.append(added)  # type: ignore[operator]
    with pytest.warns(torch_pjrt.ThreeProgramsWarning, match="Linear has backward hooks"):
        step(*batch())
    assert seen == [1]


# --- optimizers


class Lion(Optimizer):
    def __init__(self, params: Any, lr: float = 1e-2) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad.sign(), alpha=group["lr"])


class SlowAdam(torch.optim.Adam):
    """Makes every other step."""

    count = 0

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        self.count += 1
        return super().step(closure) if self.count % 2 else None


class NamedAdam(torch.optim.Adam):
    """A step as its base's."""


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Lion, "the update of Lion"),
        (lambda p: SlowAdam(p, lr=0.01), "the update of SlowAdam"),
        (lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=4), "LBFGS computes the loss several"),
        (lambda p: torch.optim.Rprop(p), "the update of Rprop"),
    ],
)
def test_other_optimizers(make: Callable[[Any], Optimizer], reason: str) -> None:
    torch.manual_seed(0)
    compare(network(), make, reason)


def test_step_of_one_object_is_called() -> None:
    def setup(model: nn.Module, optimizer: Optimizer) -> None:
        step = optimizer.step
        optimizer.step = lambda *args: (step(*args), step(*args))[1]  # type: ignore[method-assign]

    torch.manual_seed(0)
    compare(network(), adamw, "step.. of its own", setup)


def test_subclass_that_changes_no_step_is_known() -> None:
    torch.manual_seed(0)
    model = network()
    optimizer = NamedAdam(model.parameters(), lr=0.01)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # wraps this object's step
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch_pjrt.ThreeProgramsWarning)
        step(*batch())
    assert torch_pjrt.stats()["executions"] == 1


def test_a_scheduler_compiles_nothing() -> None:
    torch.manual_seed(0)
    model = network()
    model[0].weight.register_hook(lambda g: g)  # type: ignore[index,operator]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    counts = []
    with pytest.warns(torch_pjrt.ThreeProgramsWarning):  # noqa: PT031
        for _ in range(12):
            step(*batch())
            schedule.step()
            counts.append(torch_pjrt.stats())
    assert counts[-1]["compiles"] == counts[1]["compiles"]
    assert counts[-1]["captures"] == counts[1]["captures"]
    assert counts[-1]["executions"] == 3 * 12


# --- gradients


@pytest.mark.parametrize("kind", ["embedding", "bag"])
def test_sparse_gradients(kind: str) -> None:
    torch.manual_seed(0)
    if kind == "bag":
        model: nn.Module = nn.EmbeddingBag(10, 5, sparse=True)
    else:
        model = nn.Sequential(nn.Embedding(10, 5, padding_idx=1, sparse=True), nn.Flatten())
    other = copy.deepcopy(model)
    make = torch.optim.SparseAdam
    optimizer, other_optimizer = make(model.parameters()), make(other.parameters())
    step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy)
    tokens, target = torch.randint(0, 10, (6, 3)), torch.randint(0, 5, (6,))
    tokens = tokens if kind == "bag" else tokens[:, :1]
    with pytest.warns(torch_pjrt.ThreeProgramsWarning):  # noqa: PT031
        for _ in range(3):
            optimizer.zero_grad()
            want = F.cross_entropy(model(tokens), target)
            want.backward()
            optimizer.step()
            assert_close(step(tokens, target), want.detach())
    assert_close(list(other.parameters()), list(model.parameters()))


def test_complex_parameters() -> None:
    p = nn.Parameter(torch.tensor([1 + 2j, 3 - 1j]))
    q = nn.Parameter(p.detach().clone())
    optimizer, other = torch.optim.Adam([p], lr=0.1), torch.optim.Adam([q], lr=0.1)
    step = torch_pjrt.train_step(lambda: (q * q.conj()).real.sum(), other)
    with pytest.warns(torch_pjrt.ThreeProgramsWarning, match="is complex"):  # noqa: PT031
        for _ in range(3):
            optimizer.zero_grad()
            loss = (p * p.conj()).real.sum()
            loss.backward()
            optimizer.step()
            assert_close(step(), loss.detach())
    assert_close(q, p)


@pytest.mark.parametrize("clip", [None, 0.1])
def test_scaled_gradients(clip: float | None) -> None:
    torch.manual_seed(0)
    model = network()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = adamw(model.parameters()), adamw(other.parameters())
    scaler, other_scaler = (
        torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2) for _ in range(2)
    )

    def forward(x: Tensor, target: Tensor) -> Tensor:
        return other_scaler.scale(F.cross_entropy(other(x), target))

    step = torch_pjrt.train_step(forward, other_optimizer, clip_grad_norm=clip)
    with pytest.warns(torch_pjrt.ThreeProgramsWarning, match="GradScaler"):  # noqa: PT031
        for k in range(5):
            x, target = batch(k)
            if k == 3:
                x = x * float("inf")  # a step that the scaler leaves out
            optimizer.zero_grad()
            want = scaler.scale(F.cross_entropy(model(x), target))
            want.backward()
            if clip is not None:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer)
            scaler.update()
            assert_close(step(x, target), want.detach(), equal_nan=True)
            assert other_scaler.get_scale() == scaler.get_scale()
    for a, b in zip(other.parameters(), model.parameters(), strict=True):
        assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_data_parallel_model() -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        torch.manual_seed(0)
        plain = network()
        model = nn.parallel.DistributedDataParallel(copy.deepcopy(plain))
        optimizer, other = adamw(plain.parameters()), adamw(model.parameters())
        step = torch_pjrt.train_step(model, other, F.cross_entropy)
        with pytest.warns(torch_pjrt.ThreeProgramsWarning, match="DistributedDataParallel"):  # noqa: PT031
            for _ in range(2):
                optimizer.zero_grad()
                want = F.cross_entropy(plain(batch()[0]), batch()[1])
                want.backward()
                optimizer.step()
                assert_close(step(*batch()), want.detach())
    finally:
        torch.distributed.destroy_process_group()


def test_code_that_dynamo_does_not_capture_whole() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 5, bias=False), nn.BatchNorm1d(5, momentum=None))
    compare(model, adamw, "Dynamo doesn't capture it whole: ")


# --- options, and what goes wrong


def test_options() -> None:
    torch.manual_seed(0)
    compare(network(), adamw, "hooks", on_gradient, clip_grad_norm=0.1)


def test_batches_are_accumulated_and_gradients_kept() -> None:
    torch.manual_seed(0)
    model, frozen = network(), nn.Linear(5, 5)
    model[0].weight.register_hook(lambda g: g)  # type: ignore[index,operator]

    def forward(x: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        output = frozen(model(x))
        return F.cross_entropy(output, target), {"picks": output.argmax(1)}

    data = [batch(k) for k in range(3)]
    want = sum(forward(*args)[0] for args in data) / 3
    gradients = torch.autograd.grad(want, list(model.parameters()))
    picks = torch.stack([forward(*args)[1]["picks"] for args in data])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch_pjrt.train_step(
        forward, optimizer, accumulate=3, keep_grads=True, modules=[model, frozen]
    )
    with pytest.warns(torch_pjrt.ThreeProgramsWarning):
        loss, aux = step(data)
    assert_close(loss, want.detach())
    assert torch.equal(aux["picks"], picks)
    assert_close([p.grad for p in model.parameters()], list(gradients))
    assert all(p.grad is None for p in frozen.parameters())


def test_an_error_leaves_the_parameters() -> None:
    model = network()
    model[0].weight.register_hook(lambda g: g)  # type: ignore[index,operator]
    optimizer = adamw(model.parameters())
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    before = copy.deepcopy(model.state_dict())
    with pytest.warns(torch_pjrt.ThreeProgramsWarning), pytest.raises(IndexError):
        step(batch()[0], torch.full((6,), 7))
    assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert not optimizer.state
