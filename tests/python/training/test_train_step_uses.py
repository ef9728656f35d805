"""train_step: its options, what changes between two steps, and what goes wrong."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Tensor = torch.Tensor
Optimizer = torch.optim.Optimizer


class Net(nn.Module):
    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        # No bias before the normalization: its gradient is all rounding.
        self.first = nn.Linear(8, 16, bias=False)
        self.norm = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(p)
        self.second = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.dropout(self.norm(self.first(x)).relu()))  # type: ignore[no-any-return]


def batch(n: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=generator)
    return x, torch.randint(0, 5, (n,), generator=generator)


def adamw(parameters: Any) -> Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def two(
    model: nn.Module, make: Callable[[Any], Optimizer] = adamw
) -> tuple[nn.Module, Optimizer, nn.Module, Optimizer]:
    other = copy.deepcopy(model)
    return model, make(model.parameters()), other, make(other.parameters())


def eager_step(model: nn.Module, optimizer: Optimizer, x: Tensor, target: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()
    return loss.detach()


def same(got: nn.Module, want: nn.Module, tolerance: float = 1e-4) -> None:
    tensors = zip(got.state_dict().items(), want.state_dict().values(), strict=True)
    for (name, a), b in tensors:
        assert_close(a, b, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def sgd(parameters: Any) -> Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


# --- forms and options


def test_a_function_returns_its_loss_and_any_pytree() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(Net(), sgd)

    def forward(x: Tensor, *, target: Tensor) -> tuple[Tensor, dict[str, Any]]:
        output = other(x)
        return F.cross_entropy(output, target), {"output": output, "parts": [x.sum(), 3]}

    step = torch_pjrt.train_step(forward, other_optimizer, modules=[other])
    x, target = batch()
    expected = model(x).detach()
    model.norm.reset_running_stats()  # type: ignore[operator, union-attr]
    want = eager_step(model, optimizer, x, target)
    loss, aux = step(x, target=target)
    assert_close(loss, want)
    assert_close(aux["output"], expected, rtol=1e-4, atol=1e-5)
    assert not loss.requires_grad and not aux["output"].requires_grad
    assert_close(aux["parts"][0], x.sum())
    assert aux["parts"][1] == 3
    same(other, model)


def test_norm_of_gradients_is_clipped() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(Net(), sgd)
    step = torch_pjrt.train_step(
        other, other_optimizer, F.cross_entropy, clip_grad_norm=0.1, keep_grads=True
    )
    x, target = batch()
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), target).backward()
        assert nn.utils.clip_grad_norm_(model.parameters(), 0.1) > 0.2
        optimizer.step()
        step(x, target)
        for got, want in zip(other.parameters(), model.parameters(), strict=True):
            assert_close(got.grad, want.grad, rtol=1e-4, atol=1e-6, check_stride=True)
    same(other, model)


@pytest.mark.parametrize("norm", [float("inf"), float("nan")])
def test_gradients_that_are_not_finite_pass_through(norm: float) -> None:
    model = nn.Linear(8, 5)
    step = torch_pjrt.train_step(model, sgd(model.parameters()), F.cross_entropy, clip_grad_norm=1)
    x, target = batch()
    assert not step(x * norm, target).isfinite()
    assert model.weight.isnan().all()


def test_batches_are_accumulated() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(Net(), sgd)

    def forward(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        output = other(x)
        return F.cross_entropy(output, target), output.argmax(1)

    step = torch_pjrt.train_step(forward, other_optimizer, accumulate=3)
    data = [batch(seed=k) for k in range(3)]
    for _ in range(2):
        optimizer.zero_grad()
        total = 0.0
        picks = []
        for x, target in data:
            output = model(x)
            loss = F.cross_entropy(output, target) / 3
            loss.backward()
            total += loss.item()
            picks.append(output.argmax(1))
        optimizer.step()
        got, aux = step(data)
        assert_close(got.item(), total, rtol=1e-4, atol=1e-5)
        assert torch.equal(aux, torch.stack(picks))
    same(other, model)
    assert torch_pjrt.stats()["executions"] == 2
    with pytest.raises(torch_pjrt.Error, match="accumulate=3 takes one list"):
        step(*data[0])


def test_autocast_computes_in_bfloat16() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(nn.Linear(8, 5), sgd)

    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        output = other(x)
        return output.float().square().mean(), output

    step = torch_pjrt.train_step(forward, other_optimizer, autocast=torch.bfloat16)
    x, _ = batch()
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        got, output = step(x)
        assert output.dtype == torch.bfloat16
        assert_close(got, loss.detach(), rtol=1e-2, atol=1e-2)
    assert other.weight.dtype == torch.float32
    same(other, model, tolerance=1e-2)


def test_dropout_has_a_fresh_mask_at_each_step() -> None:
    model = nn.Linear(8, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = torch_pjrt.train_step(lambda x: F.dropout(model(x), 0.5).square().sum(), optimizer)
    x, _ = batch()
    torch.manual_seed(3)
    losses = [step(x).item() for _ in range(4)]
    assert len(set(losses)) == 4
    torch.manual_seed(3)
    assert [step(x).item() for _ in range(4)] == losses


def test_checkpointed_dropout_has_one_mask() -> None:
    p = nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.SGD([p], lr=0.0)

    def forward() -> tuple[Tensor, Tensor]:
        y = checkpoint(lambda v: F.dropout(v, 0.5), p, use_reentrant=False)
        return y.sum(), y

    step = torch_pjrt.train_step(forward, optimizer, keep_grads=True)
    _, y = step()
    assert p.grad is not None and 300 < int((y == 0).sum()) < 700
    assert torch.equal(p.grad, y)


def test_compiled_model_is_taken() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(Net(), sgd)
    fast = torch.compile(other, backend="pjrt")
    step = torch_pjrt.train_step(fast, other_optimizer, F.cross_entropy)
    x, target = batch()
    assert_close(step(x, target), eager_step(model, optimizer, x, target))
    same(other, model)


def test_sixteen_bit_parameters() -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 5).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    before = model.weight.detach().clone()
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    x, target = batch()
    step(x.bfloat16(), target)
    moved = (model.weight - before).abs()
    assert_close(moved, torch.full_like(moved, 0.01), rtol=0.2, atol=2e-3)
    assert optimizer.state[model.weight]["exp_avg"].dtype == torch.bfloat16


# --- between two steps


def test_other_batch_sizes_compile_without_capture() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(Net(), sgd)
    step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy)
    for n in (6, 5, 7, 6):
        x, target = batch(n)
        want = eager_step(model, optimizer, x, target)
        assert_close(step(x, target), want, rtol=1e-4, atol=1e-5)
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["executions"]) == (2, 4)
    same(other, model)


def test_train_and_eval_are_seen() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(Net(), sgd)
    step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy)
    x, target = batch()
    for training in (True, False, True, False):
        model.train(training)
        other.train(training)
        assert_close(step(x, target), eager_step(model, optimizer, x, target))
    same(other, model)
    assert int(other.norm.num_batches_tracked) == 2  # type: ignore[arg-type, union-attr]
    assert torch_pjrt.stats()["captures"] == 2


def test_frozen_and_added_parameters_are_seen() -> None:
    torch.manual_seed(0)
    model, other = Net(), Net()
    other.load_state_dict(model.state_dict())
    optimizers = [adamw(m.second.parameters()) for m in (model, other)]
    step = torch_pjrt.train_step(other, optimizers[1], F.cross_entropy)
    x, target = batch()

    def check() -> None:
        model.zero_grad()
        assert_close(step(x, target), eager_step(model, optimizers[0], x, target))
        same(other, model)

    check()
    for m, optimizer in zip((model, other), optimizers, strict=True):
        optimizer.add_param_group({"params": [m.norm.weight], "lr": 0.1, "weight_decay": 0.0})
    check()
    for m in (model, other):
        m.second.bias.requires_grad_(False)
    check()


def test_parameter_outside_of_the_loss_stays_and_has_no_state() -> None:
    model, unused = nn.Linear(8, 5), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([*model.parameters(), unused], lr=0.1, weight_decay=0.5)
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy, keep_grads=True)
    step(*batch())
    assert torch.equal(unused, torch.ones(3))
    assert unused.grad is None
    assert set(optimizer.state) == set(model.parameters())


def test_state_is_saved_and_loaded_between_steps() -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = adamw(model.parameters())
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    x, target = batch()
    step(x, target)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    losses = [step(x, target).item() for _ in range(3)]
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    torch_pjrt.reset_stats()
    assert [step(x, target).item() for _ in range(3)] == losses
    assert torch_pjrt.stats()["captures"] == 0


def test_state_goes_over_to_eager_and_back() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(Net())
    step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy)
    x, target = batch()
    for k in range(6):
        want = eager_step(model, optimizer, x, target)
        got = eager_step(other, other_optimizer, x, target) if k % 2 else step(x, target)
        assert_close(got, want, rtol=1e-3, atol=1e-4)
    same(other, model, tolerance=1e-3)


def test_first_step_with_dampening_is_captured_by_itself() -> None:
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(
        Net(), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5)
    )
    step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy)
    x, target = batch()
    for _ in range(4):
        assert_close(step(x, target), eager_step(model, optimizer, x, target))
    same(other, model)
    assert torch_pjrt.stats()["captures"] == 2


def test_tied_weights() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    model[2].weight = model[0].weight
    model, optimizer, other, other_optimizer = two(model, sgd)
    step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy)
    x, target = batch()
    for _ in range(3):
        assert_close(step(x, target), eager_step(model, optimizer, x, target))
    same(other, model)


def test_many_steps_of_one_process_do_not_count_together() -> None:
    for width in range(10):  # more than Dynamo's limit of recompiles
        p = nn.Parameter(torch.ones(width + 2))
        step = torch_pjrt.train_step(lambda p=p: p.sum(), torch.optim.SGD([p], lr=0.5))
        step()
        assert torch.equal(p, torch.full((width + 2,), 0.5))


def test_schedulers_do_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    model = nn.Linear(8, 5)
    optimizer = sgd(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    step(*batch())
    schedule.step()
    assert not [w for w in recwarn if "lr_scheduler" in str(w.message)]


def test_calls_from_threads_are_steps() -> None:
    p = nn.Parameter(torch.zeros(4))
    step = torch_pjrt.train_step(lambda: p.sum(), torch.optim.SGD([p], lr=1.0))
    step()
    threads = [threading.Thread(target=lambda: [step() for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(p.detach(), torch.full((4,), -21.0))


# --- what goes wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulate": 0}, "accumulate is 0"),
        ({"autocast": torch.float16}, "autocast is torch.float16"),
        ({"clip_grad_norm": -1.0}, "clip_grad_norm is -1.0"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    model = nn.Linear(8, 5)
    with pytest.raises(torch_pjrt.Error, match=message) as caught:
        torch_pjrt.train_step(model, sgd(model.parameters()), F.cross_entropy, **options)
    assert caught.value.code == "invalid"


def test_hooks_added_to_a_module_later_are_seen() -> None:
    model = nn.Linear(8, 5)
    step = torch_pjrt.train_step(
        model, torch.optim.SGD(model.parameters(), lr=0.0), F.cross_entropy
    )
    x, target = batch()
    step(x, target)
    model.register_forward_hook(lambda module, args, output: output * 3)
    assert_close(step(x, target), F.cross_entropy(model(x), target).detach())


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_modes_without_gradients(context: Callable[[], Any]) -> None:
    model = nn.Linear(8, 5)
    step = torch_pjrt.train_step(model, sgd(model.parameters()), F.cross_entropy)
    x, target = batch()
    with context():
        if context is torch.inference_mode:
            with pytest.raises(torch_pjrt.Error, match="inference_mode"):
                step(x, target)
        else:
            assert step(x, target) > step(x, target)


@pytest.mark.parametrize("is_done", [False, True])
def test_interrupt_leaves_the_state_before_or_after_the_step(is_done: bool) -> None:
    model = nn.Linear(8, 5)
    optimizer = adamw(model.parameters())
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    run = step._run

    def interrupted(*args: Any) -> Any:
        if is_done:
            run(*args)
        raise KeyboardInterrupt

    step._run = interrupted
    before = model.weight.detach().clone()
    with pytest.raises(KeyboardInterrupt):
        step(*batch())
    assert torch.equal(model.weight, before) is not is_done
    assert len(optimizer.state) == (2 if is_done else 0)
    step._run = run
    step(*batch())
    assert int(optimizer.state[model.weight]["step"]) == (2 if is_done else 1)


def test_after_an_error_everything_is_as_before() -> None:
    model = nn.Embedding(10, 4)
    optimizer = adamw(model.parameters())
    step = torch_pjrt.train_step(lambda i: model(i).square().sum(), optimizer)
    before = model.weight.detach().clone()
    with pytest.raises(IndexError):
        step(torch.tensor([1, 20]))
    assert torch.equal(model.weight, before)
    assert not optimizer.state
    step(torch.tensor([1, 2]))
    saved = copy.deepcopy(optimizer.state_dict()["state"][0])
    before = model.weight.detach().clone()
    with pytest.raises(IndexError):
        step(torch.tensor([1, 20]))
    assert torch.equal(model.weight, before)
    for slot, want in saved.items():
        assert torch.equal(optimizer.state[model.weight][slot], want)


def test_an_error_in_the_loss_changes_nothing() -> None:
    model = nn.Linear(8, 5)
    optimizer = adamw(model.parameters())

    def loss(output: Tensor, target: Tensor) -> Tensor:
        raise ValueError("the user's")

    before = model.weight.detach().clone()
    with pytest.raises(Exception, match="the user's"):
        torch_pjrt.train_step(model, optimizer, loss)(*batch())
    assert torch.equal(model.weight, before)
    assert not optimizer.state


def test_training_resumes_in_new_objects() -> None:
    """Saved after any step, by torch.save, and loaded into another model and optimizer."""
    torch.manual_seed(0)
    model, optimizer, other, other_optimizer = two(Net())
    step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy)
    for k in range(4):
        x, target = batch(seed=k)
        want = eager_step(model, optimizer, x, target)
        assert_close(step(x, target), want, rtol=1e-3, atol=1e-4)
        file = io.BytesIO()
        torch.save((other.state_dict(), other_optimizer.state_dict()), file)
        file.seek(0)
        weights, state = torch.load(file)
        other = Net()
        other.load_state_dict(weights)
        other_optimizer = adamw(other.parameters())
        other_optimizer.load_state_dict(state)
        step = torch_pjrt.train_step(other, other_optimizer, F.cross_entropy)
    same(other, model, tolerance=1e-3)


def test_two_parameters_over_one_storage() -> None:
    """Each is updated by its own gradient, as in eager: here they are halves of one memory."""
    torch.manual_seed(0)
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        memory = torch.randn(2, 64)
        made.append([nn.Parameter(half) for half in memory])
    x = torch.randn(64)
    (a, b), (c, d) = made
    optimizers = [torch.optim.SGD(p, lr=0.1, momentum=0.9) for p in made]
    step = torch_pjrt.train_step(lambda x: (c * x).sum() - d.square().sum(), optimizers[1])
    for _ in range(3):
        optimizers[0].zero_grad()
        want = (a * x).sum() - b.square().sum()
        want.backward()
        optimizers[0].step()
        assert_close(step(x), want.detach(), rtol=1e-4, atol=1e-4)
    assert_close([c, d], [a, b])


def test_restored_settings_compile_nothing() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy)
    x, target = batch()
    step(x, target)
    changes: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (model.eval, model.train),
        (lambda: model.first.requires_grad_(False), lambda: model.first.requires_grad_(True)),
        (
            lambda: optimizer.param_groups[0].update(weight_decay=0.1),
            lambda: optimizer.param_groups[0].update(weight_decay=0.0),
        ),
    ]
    for change, restore in changes:
        change()
        step(x, target)
        restore()
        before = torch_pjrt.stats()
        step(x, target)
        after = torch_pjrt.stats()
        assert after["captures"] == before["captures"]
        assert after["compiles"] == before["compiles"]
