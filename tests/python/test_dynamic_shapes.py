"""Symbolic sizes: one capture for many shapes, a program for each, and the same values as eager."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import torch_pjrt
from torch_pjrt.bench.models.bert import BertEncoder

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

T = torch.Tensor
SIZES = (8, 3, 17, 1, 8, 0, 2, 3)  # with repeats, and those that Dynamo takes for constants
CLOSE = {"rtol": 1e-4, "atol": 1e-5, "equal_nan": True}


def compiled(function: Any, **kwargs: Any) -> Any:
    return torch.compile(function, backend="pjrt", fullgraph=True, **kwargs)


def captures() -> int:
    return torch_pjrt.stats()["captures"]


def programs() -> int:
    counts = torch_pjrt.stats()
    return counts["compiles"] + counts["disk_hits"]


def same(got: Any, wanted: Any) -> None:
    """Values, types of numbers, dtypes, shapes and strides are the same."""
    assert_close(got, wanted, check_stride=False, **CLOSE)
    if isinstance(wanted, list | tuple):
        for g, w in zip(got, wanted, strict=True):
            same(g, w)
    elif isinstance(wanted, T):
        steps = [
            [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (got, wanted)
        ]
        assert wanted.numel() == 0 or steps[0] == steps[1]
    else:
        assert type(got) is type(wanted)


def check(function: Any, calls: Iterable[tuple[Any, ...]], **kwargs: Any) -> None:
    fast = compiled(function, **kwargs)
    for args in calls:
        same(fast(*args), function(*args))


def rows(count: int) -> tuple[T]:
    return (torch.randn(count, 4),)


def numbers(x: T) -> Any:
    n = x.shape[0]
    return n, 2 * n + 1, n // 2, -(-n // 3), n % 3, n**2, x.numel(), min(n, 5), n << 1, n & 6, n > 2


def floats(x: T) -> Any:
    n = x.shape[0]
    scaled = x * (n + 1) ** -0.5, x / (n + 1), x.sum() / max(n, 1), x * math.log(n + 2)
    ints = round(n / 3), int(n * 0.5), math.ceil(n / 3), math.floor(n * 0.3)
    return *scaled, *ints, n / 3, n / 7 % 2, float(n) // 3, math.sqrt(n), math.log2(n + 1)


def reshaped(x: T) -> Any:
    n = x.shape[0]
    views = x.reshape(-1), x.view(n, 2, 2), x.view(2 * n, 2), x.t(), x.reshape(2, -1)
    return *views, x.unsqueeze(0).expand(3, -1, -1), x.repeat(2, 1), x.unflatten(0, (n, 1))


def counted(x: T) -> Any:
    n = x.shape[0]
    numbers = (
        torch.arange(n),
        torch.arange(n, 2 * n),
        torch.arange(0, n, 2),
        torch.linspace(0, 1, n),
    )
    return *numbers, torch.full((n,), n), torch.eye(n), torch.zeros(n // 2, n), x.new_ones(n * 2)


def sliced(x: T) -> Any:
    n = x.shape[0]
    halves = x[: n // 2] * 2, x[n // 2 :] * 2, x[n // 3 : n // 2] + 1
    return *halves, x[1:] + 1, x[:-1] + 1, x[::2] + 1, x[-2:] * 2, x[n // 2 :], x.flip(0)


def padded(x: T) -> Any:
    n = x.shape[0]
    return F.pad(x, (0, 0, 0, 20 - n)), F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, n), value=2.0)


def masked(x: T) -> Any:
    n = x.shape[0]
    places = torch.arange(n)
    causal = places[:, None] >= places[None]
    hidden = torch.full((n, n), -math.inf).triu(1)
    kept = torch.where(places[:, None] > n // 2, x, 0.0), x.masked_fill(places[:, None] >= n - 1, 5)
    return causal, hidden, *kept, ((x @ x.t()).masked_fill(~causal, -9)).softmax(-1)


def derived(x: T) -> Any:
    half = x[: x.shape[0] // 2]
    quarter = x[: x.shape[0] // 4]
    one_less = x[: max(x.shape[0] - 1, 0)]
    return half.sum(0), one_less.sum(0), half.mean(0), quarter.sum() + 1, half @ half.t(), quarter


def joined(x: T) -> Any:
    n = x.shape[0]
    return torch.cat([x, x[:1], x.new_zeros(n + 1, 4)]), torch.stack([x, x * 2], 1), x.roll(1, 0)


def reduced(x: T) -> Any:
    sums = x.sum(), x.mean(0), x.cumsum(0), x.softmax(0), x.var(0)
    return *sums, F.layer_norm(x, (4,)), x.sort(0)[0], x.max(1)[0], x.argmax(1)


def indexed(x: T) -> Any:
    last = torch.arange(x.shape[0]).flip(0)
    zeros = torch.zeros(x.shape[0], 4, dtype=torch.int64)
    read = x[last], x.index_select(0, last), F.one_hot(last % 3, 3), x.gather(1, zeros)
    return (
        *read,
        torch.zeros_like(x).index_copy(0, last, x),
        torch.zeros_like(x).scatter(1, zeros, x),
    )


def as_given(x: T) -> Any:
    return x, None, x.shape[0], {"view": x[: x.shape[0] // 2], "n": x.shape[0] * 2}["n"], x.view(-1)


FUNCTIONS = [
    numbers,
    floats,
    reshaped,
    counted,
    sliced,
    padded,
    masked,
    derived,
    joined,
    reduced,
    indexed,
    as_given,
]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_size_is_right(function: Callable[..., Any]) -> None:
    check(function, map(rows, SIZES), dynamic=True)
    known = captures(), programs()
    assert known[0] <= 6, "sizes from 2 on, 0, 1, and branches on a size"
    assert known[1] <= len(set(SIZES))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_size_is_right_after_a_static_capture(function: Callable[..., Any]) -> None:
    check(function, map(rows, SIZES))


def test_known_sizes_capture_and_compile_nothing() -> None:
    fast = compiled(derived, dynamic=True)
    for n in (8, 5, 12):
        fast(*rows(n))
    torch_pjrt.reset_stats()
    for n in (5, 12, 8, 8, 5):
        x = rows(n)
        same(fast(*x), derived(*x))
    assert (captures(), programs(), torch_pjrt.stats()["executions"]) == (0, 0, 5)


def test_a_sum_with_a_row() -> None:
    """Dynamo captures the first shape apart, and the others with symbols."""
    fast = compiled(lambda a, b: a + b, dynamic=True)
    shapes = [(1, 2), (3, 4), (5, 6), (1, 2)]
    seen = []
    for _ in range(2):
        for shape in shapes:
            a, b = torch.randn(shape), torch.randn(shape[-1])
            assert_close(fast(a, b), a + b, rtol=0, atol=0)
            seen.append((captures(), programs()))
    assert seen == [(1, 1), (2, 2), (2, 3)] + [(2, 3)] * 5


def test_indices_of_triangles() -> None:
    def f(x: T) -> Any:
        n = x.shape[0]
        return torch.tril_indices(n, 4, 1), torch.triu_indices(n, n), torch.tril_indices(3, 5, -1)

    check(f, map(rows, (5, 7, 2)), dynamic=True)


# --- numbers among the inputs


def test_ints_that_are_sizes_and_values() -> None:
    def f(x: T, n: int, scale: int) -> Any:
        return x[:n] * scale, torch.arange(n) + x.shape[0], x.new_zeros(n, x.shape[0]), n * scale

    fast = compiled(f, dynamic=True)
    x = torch.randn(9, 3)
    for n, scale in ((3, 5), (7, 5), (3, 2**40), (3, -6), (7, 9)):
        same(fast(x, n, scale), f(x, n, scale))
    assert (captures(), programs()) == (1, 2), "a size makes a program, a value none"


def test_views_by_ints() -> None:
    def f(x: T, n: int) -> Any:
        return x.view(n, -1) * 2, x.reshape(-1, n).sum(0), x[:1].expand(n, -1) + 1

    calls = [(torch.randn(k, 6), n) for k, n in ((8, 4), (4, 2), (8, 3), (2, 12), (8, 6))]
    check(f, calls, dynamic=True)


def test_floats_and_bools() -> None:
    def f(x: T, s: float, flag: bool) -> T:
        return x * s + s**2 if flag else x * max(s, 0.5) + s / x.shape[0]

    fast = compiled(f, dynamic=True)
    for n, s in ((3, 0.5), (4, 0.25), (3, 0.75), (4, 2.5), (3, 1e-9)):
        for flag in (True, False):
            x = torch.randn(n, 2)
            same(fast(x, s, flag), f(x, s, flag))
    assert (captures(), programs()) == (2, 4), "a program for each flag and size"


# --- branches


def test_a_branch_on_a_size_captures_each_side_once() -> None:
    def f(x: T) -> T:
        return x * 2 if x.shape[0] > 8 else x + 1

    fast = compiled(f, dynamic=True)
    for n in (9, 3, 12, 5, 8, 20, 9, 3):
        x = torch.randn(n)
        assert_close(fast(x), f(x), rtol=0, atol=0)
    assert (captures(), programs()) == (2, 6)


def test_a_branch_on_an_expression_of_two_sizes() -> None:
    def f(a: T, b: T) -> T:
        return a.sum() + b.sum() if a.shape[1] * 2 == b.shape[0] else a.sum() * b.sum()

    fast = compiled(f, dynamic=True)
    for m, n in ((4, 8), (5, 10), (4, 9), (5, 7), (6, 12), (3, 5), (4, 8)):
        a, b = torch.randn(3, m), torch.randn(n, 2)
        assert_close(fast(a, b), f(a, b))
    assert captures() == 2


def test_equal_sizes_that_come_apart() -> None:
    def f(x: T, y: T) -> Any:
        return torch.cat([x, y]), x @ y.t(), x.shape[0] + y.shape[0]

    fast = compiled(f, dynamic=True)
    for m, n in ((4, 4), (3, 5), (6, 2), (5, 5), (2, 7)):
        x, y = torch.randn(m, 3), torch.randn(n, 3)
        same(fast(x, y), f(x, y))
    assert captures() <= 2


# --- what is marked


def test_marked_dims() -> None:
    def f(x: T) -> Any:
        return x.softmax(-1) @ x.t(), x.shape[0]

    fast = compiled(f)
    for n in (5, 2, 9, 40, 5):
        x = torch.randn(n, 6)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
        same(fast(x), f(x))
    assert (captures(), programs()) == (1, 4)


def test_a_marked_dim_that_must_be_constant_is_an_error() -> None:
    def f(x: T) -> T:
        return x * 2 if x.shape[0] == 5 else x

    x = torch.randn(5, 6)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(Exception, match=r"[Cc]onstraint"):
        compiled(f)(x)


def test_dims_that_may_be_dynamic() -> None:
    fast = compiled(lambda x: x.cumsum(0) + x.shape[0])
    for n in (4, 6, 9, 4):
        x = torch.randn(n, 3)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        assert_close(fast(x), x.cumsum(0) + n)
    assert (captures(), programs()) == (1, 3)


def test_automatic_dynamic() -> None:
    fast = compiled(lambda x: x @ x.t())
    for n in (4, 6, 9, 4, 11, 6):
        x = torch.randn(n, 3)
        assert_close(fast(x), x @ x.t())
    assert captures() == 2
    assert programs() <= 5, "4 twice: as a constant, and as a symbol"


# --- sizes that tensors' values decide


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.nonzero() * 2,
        lambda x: x[x > 0] + 1,
        lambda x: torch.zeros(int(x.abs().sum().item()) % 5 + 2) + 1,
        lambda x: x.unique() * 2,
        lambda x: x[: int(x.argmax()) + 1].sum(),
        lambda x: x.repeat_interleave((x > 0).long()),
    ],
)
def test_sizes_by_values_break_the_graph(function: Callable[[T], T]) -> None:
    fast = torch.compile(function, backend="pjrt", dynamic=True)
    for n in (7, 9, 7):
        x = torch.randn(n)
        assert_close(fast(x), function(x))


@pytest.mark.parametrize("function", [lambda x: x.nonzero() * 2, lambda x: x[x > 0] + 1])
def test_sizes_by_values_run_in_eager_in_a_whole_graph(function: Callable[[T], T]) -> None:
    fast = compiled(function)
    for n in (7, 9, 7):
        x = torch.randn(n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", torch_pjrt.FallbackWarning)
            assert_close(fast(x), function(x))


def test_captured_sizes_by_values_are_refused_without_fallback() -> None:
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(torch_pjrt.Error) as caught,
    ):
        compiled(lambda x: x.nonzero() * 2, options={"fallback": "error"})(torch.randn(7))
    assert caught.value.code == "unsupported"


# --- models


def test_images_of_many_sizes() -> None:
    conv, norm = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4)

    def f(x: T) -> Any:
        y = norm(conv(x)).relu()
        return y, F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(y, 1), y.shape

    norm.eval()
    with torch.no_grad():
        sizes = ((2, 8, 12), (3, 12, 8), (2, 10, 14), (5, 16, 6))
        check(f, [(torch.randn(b, 3, h, w),) for b, h, w in sizes], dynamic=True)
    assert captures() == 1


def small_bert() -> nn.Module:
    from transformers import BertConfig

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    return BertEncoder(config).eval()


@pytest.mark.parametrize("dynamic", [True, pytest.param(None, marks=pytest.mark.full)])
def test_bert_over_ten_lengths(dynamic: bool | None) -> None:
    model = small_bert()
    fast = compiled(model, dynamic=dynamic)
    lengths = list(range(16, 116, 10))
    with torch.no_grad():
        for turn in range(2):
            for length in lengths if turn == 0 else reversed(lengths):
                tokens = torch.randint(0, 100, (1, length))
                assert_close(fast(tokens), model(tokens), rtol=1e-4, atol=1e-5)
            assert captures() <= 2
            assert programs() <= 10
    assert torch_pjrt.stats()["executions"] == 20


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.mix = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 5)

    def forward(self, tokens: T) -> T:
        x = self.embedding(tokens)
        seen = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        x = x + F.scaled_dot_product_attention(x, x, x, attn_mask=seen)
        x = self.norm(x + self.mix(x).relu())
        return self.out(x[:, x.shape[1] // 2 :].mean(1)) / tokens.shape[1]


@pytest.mark.parametrize("dynamic", [True, pytest.param(None, marks=pytest.mark.full)])
def test_training(dynamic: bool | None) -> None:
    torch.manual_seed(0)
    eager, model = Classifier(), Classifier()
    model.load_state_dict(eager.state_dict())
    fast = compiled(model, dynamic=dynamic)
    sizes = [(4, 6), (3, 9), (5, 7), (2, 12), (4, 6), (3, 9)]
    for batch, length in sizes:
        tokens, target = torch.randint(0, 30, (batch, length)), torch.randint(0, 5, (batch,))
        for module in (eager, model):
            module.zero_grad()
            F.cross_entropy((fast if module is model else module)(tokens), target).backward()
        for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
            assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
            with torch.no_grad():
                ours -= 0.1 * ours.grad
                theirs -= 0.1 * theirs.grad
    assert captures() == (2 if dynamic else 4), "forward and backward"
    assert programs() <= 2 * 5


def test_a_whole_step_with_dynamic_sizes() -> None:
    torch.manual_seed(0)
    eager, model = Classifier(), Classifier()
    model.load_state_dict(eager.state_dict())
    ours = torch.optim.SGD(model.parameters(), 0.1)
    theirs = torch.optim.SGD(eager.parameters(), 0.1)
    step = torch_pjrt.train_step(model, ours, F.cross_entropy)
    for length in (6, 9, 7, 9):
        tokens, target = torch.randint(0, 30, (4, length)), torch.randint(0, 5, (4,))
        theirs.zero_grad()
        loss = F.cross_entropy(eager(tokens), target)
        loss.backward()
        theirs.step()
        assert_close(step(tokens, target), loss.detach(), rtol=1e-4, atol=1e-5)
    for a, b in zip(model.parameters(), eager.parameters(), strict=True):
        assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert captures() == 2
