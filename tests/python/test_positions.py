"""Ints that say where, as the position in a decode loop: values, of which none makes a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Step = Callable[[torch.Tensor, torch.Tensor, int], Any]
SIZE = 9


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", fullgraph=True, **kwargs)


def programs() -> int:
    counts = torch_pjrt.stats()
    return counts["compiles"] + counts["disk_hits"]


def write_slice(cache: torch.Tensor, x: torch.Tensor, at: int) -> Any:
    cache[:, at : at + 1] = x
    return cache.sum(1)


def write_selected(cache: torch.Tensor, x: torch.Tensor, at: int) -> Any:
    cache.select(1, at).copy_(x[:, 0])
    return cache.select(1, at) * 2, cache.select(1, -at - 1) * 2


def write_narrow(cache: torch.Tensor, x: torch.Tensor, at: int) -> Any:
    cache.narrow(1, at, 1).add_(x)
    return cache.narrow(1, at - 2, 3) * 2


def write_copied_index(cache: torch.Tensor, x: torch.Tensor, at: int) -> Any:
    cache.index_copy_(1, torch.tensor([at]), x)
    return cache.index_select(1, torch.tensor([at, 0]))


def write_steps(cache: torch.Tensor, x: torch.Tensor, at: int) -> Any:
    cache[:, at - 2 : at + 1 : 2] += x
    return cache[:, at - 2 : at + 1 : 2] * 2


def write_from_the_end(cache: torch.Tensor, x: torch.Tensor, at: int) -> Any:
    cache[:, -at - 1 : -at] = x
    return cache[:, -at - 1 : -at + 1] * 2, cache[:, at % 4 : at % 4 + 2] * 2


def write_masked(cache: torch.Tensor, x: torch.Tensor, at: int) -> Any:
    places = torch.arange(cache.shape[1])
    cache.copy_(torch.where((places == at).view(1, -1, 1), x, cache))
    return (cache * (places <= at).view(1, -1, 1)).sum(1), torch.arange(at, at + 3)


def write_as_numbers(cache: torch.Tensor, x: torch.Tensor, at: int) -> Any:
    cache.mul_(at)
    return x * at, x.roll(at, 2), torch.full((3,), at), x.pow(at), at * 2, at / 3


STEPS = [
    write_slice,
    write_selected,
    write_narrow,
    write_copied_index,
    write_steps,
    write_from_the_end,
    write_masked,
    write_as_numbers,
]


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("step", STEPS)
def test_no_position_makes_a_program(step: Step, dynamic: bool | None) -> None:
    fast = compiled(step, dynamic=dynamic)
    ours = torch.randn(2, SIZE, 3)
    theirs = ours.clone()
    known = []
    for at in (3, 5, 2, 7, 6, 4, 3):
        x = torch.randn(2, 1, 3)
        assert_close(fast(ours, x, at), step(theirs, x, at), rtol=1e-5, atol=1e-6)
        assert_close(ours, theirs, rtol=0, atol=0)
        known.append((torch_pjrt.stats()["captures"], programs()))
    first = 1 if dynamic else 2
    assert known[first - 1 :] == [(first, programs())] * (len(known) - first + 1)
    counts = torch_pjrt.stats()
    assert counts["copied_inputs"] == counts["host_to_device_bytes"] == 0
    assert counts["device_to_host_bytes"] == 0


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_in_any_memory_order_and_dtype(order: tuple[int, ...], dtype: torch.dtype) -> None:
    def step(cache: torch.Tensor, x: torch.Tensor, at: int) -> torch.Tensor:
        cache.select(1, at).copy_(x)
        cache[:, at - 1 : at + 2 : 2] = x.unsqueeze(1)
        return cache[:, at - 1 : at + 1].contiguous()

    fast = compiled(step, dynamic=True)
    sizes = [(2, SIZE, 3)[dim] for dim in order]
    ours = (torch.rand(sizes) * 9).to(dtype).permute(*(order.index(dim) for dim in range(3)))
    theirs = ours.clone()
    for at in range(1, SIZE - 1):
        x = (torch.rand(2, 3) * 9).to(dtype)
        assert_close(fast(ours, x, at), step(theirs, x, at), rtol=0, atol=0)
        assert_close(ours, theirs, rtol=0, atol=0)
    assert torch_pjrt.stats()["captures"] == 1
    assert torch_pjrt.stats()["copied_inputs"] == 0


def test_slices_that_reach_beyond_the_ends() -> None:
    def cut(x: torch.Tensor, start: int, end: int) -> Any:
        return x[start:end] * 2, x[start:end:3] * 2, x[start:], x[:end] + 1

    fast = compiled(cut, dynamic=True)
    x = torch.randn(5)
    pairs = [(a, b) for a in (-7, -5, -2, 0, 1, 3, 5, 9) for b in (-6, -1, 0, 2, 5, 8)]
    torch._dynamo.config.recompile_limit, limit = 100, torch._dynamo.config.recompile_limit
    try:
        for start, end in pairs:
            assert_close(fast(x, start, end), cut(x, start, end), rtol=0, atol=0)
    finally:
        torch._dynamo.config.recompile_limit = limit


def test_a_position_outside_is_an_error_and_writes_nothing() -> None:
    def step(cache: torch.Tensor, x: torch.Tensor, at: int) -> torch.Tensor:
        cache.select(1, at).copy_(x)
        return cache.sum()

    fast = compiled(step, dynamic=True)
    cache, x = torch.zeros(2, SIZE, 3), torch.ones(2, 3)
    fast(cache, x, 3)
    old = cache.clone()
    for at in (SIZE, -SIZE - 1, 100):
        with pytest.raises(Exception, match=r"(?i)out of range|index"):
            fast(cache, x, at)
        assert_close(cache, old)
    assert_close(fast(cache, x, -SIZE), step(old, x, -SIZE))
    assert_close(cache, old)


def test_a_length_is_structure() -> None:
    fast = compiled(lambda x, n: x[:, :n].sum(1), dynamic=True)
    x = torch.randn(2, SIZE)
    for n in (4, 6, 4, 7, 6):
        assert_close(fast(x, n), x[:, :n].sum(1))
    assert (torch_pjrt.stats()["captures"], torch_pjrt.stats()["executions"]) == (1, 5)
    assert programs() == 3


class Attention(nn.Module):
    """One token against a cache of a fixed number of places."""

    def __init__(self, width: int, heads: int, places: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads
        shape = (1, heads, places, width // heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x: torch.Tensor, at: int) -> torch.Tensor:
        """x: [1, 1, width]."""
        q, k, v = (
            part.view(1, 1, self.heads, -1).transpose(1, 2) for part in self.project(x).chunk(3, -1)
        )
        self.keys[:, :, at : at + 1] = k
        self.values[:, :, at : at + 1] = v
        seen = (torch.arange(self.keys.shape[2]) <= at).view(1, -1)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Decoder(nn.Module):
    """A small GPT-2: token and position in, logits of the next token out."""

    def __init__(self, tokens: int = 60, width: int = 32, layers: int = 2, places: int = 80):
        super().__init__()
        self.token = nn.Embedding(tokens, width)
        self.place = nn.Embedding(places, width)
        self.attention = nn.ModuleList(Attention(width, 4, places) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.narrow = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))

    def forward(self, token: torch.Tensor, at: int) -> torch.Tensor:
        x = self.token(token) + self.place(torch.arange(at, at + 1))
        for k, attention in enumerate(self.attention):
            x = x + attention(self.norms[2 * k](x), at)
            x = x + self.narrow[k](F.gelu(self.wide[k](self.norms[2 * k + 1](x))))
        return x[:, -1] @ self.token.weight.t()


def greedy(model: Any, first: int, places: Iterable[int]) -> Iterable[tuple[int, torch.Tensor]]:
    token = torch.tensor([[first]])
    for at in places:
        logits = model(token, at)
        token = logits.argmax(-1, keepdim=True)
        yield int(token), logits


@pytest.mark.parametrize("dynamic", [True, pytest.param(None, marks=pytest.mark.full)])
def test_greedy_decoding_compiles_nothing_after_the_first_position(dynamic: bool | None) -> None:
    torch.manual_seed(0)
    eager, model = Decoder().eval(), Decoder().eval()
    model.load_state_dict(eager.state_dict())
    fast = compiled(model, dynamic=dynamic)
    first = 2 if dynamic else 3  # the last position that compiles
    with torch.no_grad():
        theirs = greedy(eager, 7, range(2, 66))
        for at, ours in enumerate(greedy(fast, 7, range(2, 66)), 2):
            token, logits = next(iter(theirs))
            assert ours[0] == token
            assert_close(ours[1], logits, rtol=1e-4, atol=1e-5)
            if at == first:
                known = (torch_pjrt.stats()["captures"], programs())
                assert known[0] == first - 1
                where = [buffer.data_ptr() for buffer in model.buffers()]
    counts = torch_pjrt.stats()
    assert (counts["captures"], programs(), counts["executions"]) == (*known, 64)
    assert counts["copied_inputs"] == counts["host_to_device_bytes"] == 0
    assert [buffer.data_ptr() for buffer in model.buffers()] == where
    for ours_, theirs_ in zip(model.buffers(), eager.buffers(), strict=True):
        assert_close(ours_, theirs_, rtol=1e-4, atol=1e-5)


def test_positions_in_training() -> None:
    def part(x: torch.Tensor, w: torch.Tensor, at: int) -> torch.Tensor:
        y = (x * w)[:, at : at + 2].sum() + (x * w).select(1, at).pow(2).sum()
        return y * at

    fast = compiled(part, dynamic=True)
    x = torch.randn(2, SIZE, 3)
    for at in (2, 5, 3, 7):
        ours, theirs = (torch.randn(3, generator=torch.manual_seed(0)) for _ in range(2))
        fast(x, ours.requires_grad_(), at).backward()
        part(x, theirs.requires_grad_(), at).backward()
        assert_close(ours.grad, theirs.grad)
        if at == 2:
            known = programs()
    assert (torch_pjrt.stats()["captures"], programs()) == (2, known)
