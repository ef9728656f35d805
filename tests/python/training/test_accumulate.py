"""train_step with accumulate: a loop whose body is stated once, against the stock loop."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import torch_pjrt
from torch_pjrt import fx

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Batch = tuple[Tensor, Tensor]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16, bias=False)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.norm(self.first(x)).relu())  # type: ignore[no-any-return]


def batches(count: int, seed: int = 0) -> list[Batch]:
    torch.manual_seed(seed)
    return [(torch.randn(6, 8), torch.randint(0, 5, (6,))) for _ in range(count)]


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def eager_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: list[Batch], clip: float | None = None
) -> tuple[Tensor, list[Tensor]]:
    optimizer.zero_grad()
    total, picks = torch.zeros(()), []
    for x, target in data:
        output = model(x)
        loss = F.cross_entropy(output, target) / len(data)
        loss.backward()
        total = total + loss.detach()
        picks.append(output.argmax(1))
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return total, picks


def same(model: nn.Module, other: nn.Module) -> None:
    pairs = zip(model.state_dict().items(), other.state_dict().values(), strict=True)
    for (name, want), got in pairs:
        assert_close(got, want, rtol=1e-4, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("clip", [None, 0.1])
def test_steps_follow_the_stock_loop(clip: float | None) -> None:
    """Batch normalization changes its buffers at each batch."""
    torch.manual_seed(0)
    model = Net()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = adamw(model), adamw(other)

    def forward(x: Tensor, target: Tensor) -> tuple[Tensor, dict[str, Any]]:
        output = other(x)
        return F.cross_entropy(output, target), {"picks": output.argmax(1), "name": "net"}

    step = torch_pjrt.train_step(
        forward, other_optimizer, accumulate=3, clip_grad_norm=clip, keep_grads=True
    )
    for k in range(4):
        data = batches(3, seed=k)
        want, picks = eager_step(model, optimizer, data, clip)
        got, aux = step(data)
        assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert torch.equal(aux["picks"], torch.stack(picks))
        assert aux["name"] == ["net"] * 3
        for p, q in zip(other.parameters(), model.parameters(), strict=True):
            assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-5, check_stride=True)
    same(model, other)
    assert int(other.norm.num_batches_tracked) == 12  # type: ignore[arg-type]
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"], counts["executions"]) == (1, 1, 4)


def test_the_body_is_stated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    capture = fx.capture

    def noted(*args: Any) -> fx.Captured:
        captured = capture(*args)
        texts.append(str(captured.graph))
        return captured

    monkeypatch.setattr(fx, "capture", noted)
    for k in (2, 6):
        model = Net()
        step = torch_pjrt.train_step(model, adamw(model), F.cross_entropy, accumulate=k)
        step(batches(k))
    short, long = texts
    assert short.count("higher_order::scan") == long.count("higher_order::scan") == 1
    assert long.count("aten::mm(") == short.count("aten::mm(") > 0
    # Of each further batch's two tensors: an input, and what makes it a row of all.
    assert len(long.splitlines()) - len(short.splitlines()) == 4 * 2 * 3


def test_convolutions_in_channels_last() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 5))
    model = model.to(memory_format=torch.channels_last)
    other = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other)]
    step = torch_pjrt.train_step(
        other, optimizers[1], F.cross_entropy, accumulate=2, keep_grads=True
    )
    data = [
        (torch.randn(4, 3, 6, 6).to(memory_format=torch.channels_last), torch.tensor([0, 1, 2, 3]))
        for _ in range(2)
    ]
    want, _ = eager_step(model, optimizers[0], data)
    assert_close(step(data), want)
    same(model, other)
    for p, q in zip(other.parameters(), model.parameters(), strict=True):
        assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5, check_stride=True)


def test_dropout_has_a_mask_for_each_batch() -> None:
    p = nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.SGD([p], lr=0.0)

    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.dropout(p, 0.5) * x
        return y.sum(), y

    step = torch_pjrt.train_step(forward, optimizer, accumulate=3, keep_grads=True)
    torch.manual_seed(1)
    data = [(torch.ones(()),)] * 3
    _, first = step(data)
    assert p.grad is not None
    assert_close(p.grad, first.mean(0))  # the masks of forward and backward are the same
    _, second = step(data)
    masks = torch.cat([first, second]) != 0
    assert len({tuple(m.tolist()) for m in masks}) == 6
    assert 400 < int(masks[0].sum()) < 600
    agreement = (masks[0] == masks[1]).float().mean()
    assert 0.4 < agreement < 0.6


def test_a_bad_index_in_one_batch_changes_nothing() -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = adamw(model)
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy, accumulate=3)
    step(batches(3))
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    data = batches(3)
    data[1][1][2] = 7
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        step(data)
    assert_close(model.state_dict(), before[0], rtol=0, atol=0)
    assert_close(optimizer.state_dict()["state"], before[1], rtol=0, atol=0)
    step(batches(3))


def test_autocast_and_tied_weights() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    model[2].weight = model[0].weight
    other = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other)]
    step = torch_pjrt.train_step(
        other, optimizers[1], F.cross_entropy, accumulate=2, autocast=torch.bfloat16
    )
    data = batches(2)
    optimizers[0].zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        want = sum(F.cross_entropy(model(x), t) for x, t in data) / 2
    want.backward()  # type: ignore[union-attr]
    optimizers[0].step()
    assert_close(step(data), want.detach(), rtol=1e-2, atol=1e-2)  # type: ignore[union-attr]
    for p, q in zip(other.parameters(), model.parameters(), strict=True):
        assert_close(p, q, rtol=1e-2, atol=1e-2)


def test_batches_of_several_sizes_are_repeated_in_the_program() -> None:
    torch.manual_seed(0)
    model = Net()
    other = copy.deepcopy(model)
    optimizers = [adamw(model), adamw(other)]
    step = torch_pjrt.train_step(other, optimizers[1], F.cross_entropy, accumulate=2)
    (x, target), second = batches(2)
    data = [(x[:4], target[:4]), second]
    want, _ = eager_step(model, optimizers[0], data)
    assert_close(step(data), want, rtol=1e-4, atol=1e-5)
    same(model, other)


def test_a_parameter_without_gradient_and_other_batch_sizes() -> None:
    model, unused = nn.Linear(8, 5), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([*model.parameters(), unused], lr=0.1)
    step = torch_pjrt.train_step(model, optimizer, F.cross_entropy, accumulate=2)
    for n in (6, 4, 5):
        data = [(x[:n], target[:n]) for x, target in batches(2)]
        want = sum(F.cross_entropy(model(x), t) for x, t in data) / 2
        assert_close(step(data), want.detach(), rtol=1e-4, atol=1e-5)  # type: ignore[union-attr]
    assert torch.equal(unused, torch.ones(3))
    assert torch_pjrt.stats()["captures"] == 2
