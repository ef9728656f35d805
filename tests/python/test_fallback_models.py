"""Training and GPT-2 with ops that no program can hold."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import transformers as T
from torch.testing import assert_close

import torch_pjrt

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.plugin,
    pytest.mark.filterwarnings("ignore::torch_pjrt.FallbackWarning"),
]

EAGER_TANH = {"eager_ops": ["aten::tanh"]}


def test_forward_and_backward_are_cut_each() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.tanh((x @ w).sin() * 2)
        return torch.linalg.slogdet(y @ y.t() + torch.eye(len(x)))[1] * 2 + (y.cos() * 2).sum()

    x = torch.randn(3, 4, dtype=torch.float64)
    w = torch.randn(4, 5, dtype=torch.float64)
    compiled = torch.compile(f, backend="pjrt", options=EAGER_TANH, fullgraph=True)
    for _ in range(2):
        grads = []
        for function in (f, compiled):
            leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
            out = function(leaves[0].double(), leaves[1]) if function is f else function(*leaves)
            out.backward()
            grads.append([leaf.grad for leaf in leaves])
        assert_close(grads[0], grads[1], rtol=1e-9, atol=1e-9)
    assert torch_pjrt.stats()["fallbacks"] > 0


# --- GPT-2


def gpt2(layers: int = 2) -> torch.nn.Module:
    torch.manual_seed(0)
    config = T.GPT2Config(
        vocab_size=50,
        n_positions=32,
        n_embd=16,
        n_layer=layers,
        n_head=2,
        use_cache=False,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
    )
    return T.GPT2LMHeadModel(config)


WITHOUT_CUMSUM_AND_TANH = {"eager_ops": ["aten::cumsum", "aten::tanh"]}


class Positions(torch.nn.Module):
    """GPT-2 that counts its positions itself, and gives its loss."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.model = gpt2(layers)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        positions = mask.cumsum(-1).sub(1).clamp(min=0)
        logits = self.model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def batch(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(length)
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, : length // 3] = 0
    return torch.randint(0, 50, (2, length), generator=generator), mask


def test_gpt2_without_cumsum_and_tanh() -> None:
    """A tanh a layer: one piece more than layers, and none for the cumsum of an input."""
    model = Positions().eval()
    compiled = torch.compile(model, backend="pjrt", options=WITHOUT_CUMSUM_AND_TANH, fullgraph=True)
    with torch.no_grad():
        for length in (9, 9, 12, 15):
            torch_pjrt.reset_stats()
            assert_close(compiled(*batch(length)), model(*batch(length)), rtol=1e-4, atol=1e-4)
            counts = torch_pjrt.stats()
            assert counts["executions"] == 3
            assert counts["fallbacks"] == 3
    assert counts["captures"] == 0


@pytest.mark.full
def test_gpt2_of_more_layers() -> None:
    model = Positions(5).eval()
    compiled = torch.compile(model, backend="pjrt", options=WITHOUT_CUMSUM_AND_TANH, fullgraph=True)
    with torch.no_grad():
        assert_close(compiled(*batch(9)), model(*batch(9)), rtol=1e-4, atol=1e-4)
    assert torch_pjrt.stats()["executions"] == 6


def test_gpt2_trains_without_cumsum_and_tanh() -> None:
    ours, eagers = Positions(), Positions()
    compiled = torch.compile(ours, backend="pjrt", options=WITHOUT_CUMSUM_AND_TANH, fullgraph=True)
    steps = [
        (model, torch.optim.SGD(parameters.parameters(), lr=0.1))
        for model, parameters in ((compiled, ours), (eagers, eagers))
    ]
    for _ in range(3):
        losses = []
        for model, optimizer in steps:
            loss = model(*batch(9))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        assert_close(*losses, rtol=1e-4, atol=1e-5)
    for a, b in zip(ours.parameters(), eagers.parameters(), strict=True):
        assert_close(a, b, rtol=1e-3, atol=1e-5)
    assert torch_pjrt.stats()["fallbacks"] > 0


@pytest.mark.full
def test_gpt2_trains_without_them_over_many_sizes() -> None:
    """One capture; three pieces forward, as in inference, and one backward."""
    ours, eagers = Positions(), Positions()
    compiled = torch.compile(
        ours, backend="pjrt", options=WITHOUT_CUMSUM_AND_TANH, fullgraph=True, dynamic=True
    )
    for length in (9, 12, 15):
        torch_pjrt.reset_stats()
        for model, parameters in ((compiled, ours), (eagers, eagers)):
            parameters.zero_grad()
            model(*batch(length)).backward()
        for a, b in zip(ours.parameters(), eagers.parameters(), strict=True):
            assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)
        counts = torch_pjrt.stats()
        assert counts["executions"] == 4
        assert counts["fallbacks"] == 3
    assert counts["captures"] == 0
