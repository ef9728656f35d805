"""Faults that were met in other ways to run PyTorch on XLA: none of them is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Run = Callable[..., Any]
NAN = float("nan")


def _compiled(function: Run) -> Run:
    return torch.compile(function, backend="pjrt", fullgraph=True)


def _on_device(function: Run) -> Run:
    def run(*tensors: Tensor) -> Any:
        results = function(*(t.to("pjrt") for t in tensors))
        return torch.utils._pytree.tree_map_only(Tensor, Tensor.cpu, results)

    return run


@pytest.fixture(params=[_compiled, _on_device], ids=["compiled", "device"])
def run(request: pytest.FixtureRequest) -> Callable[[Run], Run]:
    return request.param


def test_dropout_scales_values_and_gradients_once(run: Callable[[Run], Run]) -> None:
    x = torch.ones(4000, requires_grad=True)
    y = run(lambda t: F.dropout(t, 0.25))(x)
    y.sum().backward()
    assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / 0.75))
    assert 0.7 < float((y != 0).float().mean()) < 0.8
    assert_close(x.grad, y.detach())


def test_extremes_reduce_all_dims_and_keep_nan(run: Callable[[Run], Run]) -> None:
    def extremes(x: Tensor, y: Tensor) -> list[Tensor]:
        found = [x.amax(), x.amin(), y.amax(), y.amin(), y.max(), y.argmax(), y.max(1).values]
        return [*found, torch.maximum(x, y), torch.minimum(x, y), y.argmax(1), y.amax(1)]

    x = torch.randn(3, 4)
    y = x.clone()
    y[1, 2] = NAN
    for got, want in zip(run(extremes)(x, y), extremes(x, y), strict=True):
        assert got.shape == want.shape
        assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_the_running_variance_is_unbiased() -> None:
    x = torch.randn(2, 3, 2, 2)
    ours, eagers = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    _compiled(ours)(x)
    eagers(x)
    assert_close(ours.running_var, eagers.running_var)
    unbiased = 0.9 + 0.1 * x.transpose(0, 1).flatten(1).var(1, correction=1)
    assert_close(ours.running_var, unbiased)
    on_device = nn.BatchNorm2d(3).to("pjrt")
    on_device(x.to("pjrt"))
    assert_close(on_device.running_var.cpu(), unbiased)  # type: ignore[union-attr]


def test_types_of_results(run: Callable[[Run], Run]) -> None:
    x = torch.randn(1, 2, 6, 6)
    got = run(lambda t: (torch.fft.fft(t).abs(), *F.max_pool2d(t, 2, return_indices=True)))(x)
    want = torch.fft.fft(x).abs(), *F.max_pool2d(x, 2, return_indices=True)
    assert [t.dtype for t in got] == [torch.float32, torch.float32, torch.int64]
    assert_close(list(got), list(want))


def test_a_gru_and_embeddings_of_limited_length() -> None:
    gru, x = nn.GRU(3, 4, batch_first=True), torch.randn(2, 5, 3)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        assert_close(torch.compile(gru, backend="pjrt")(x), gru(x))
    ours, eagers = (nn.Embedding(5, 3, max_norm=0.5) for _ in range(2))
    eagers.load_state_dict(ours.state_dict())
    fast, ids = _compiled(ours), torch.tensor([1, 4, 1])
    with torch.no_grad():
        for _ in range(3):
            assert_close(fast(ids), eagers(ids))
    assert_close(ours.weight, eagers.weight)


def test_a_seed_gives_the_same_numbers_at_the_first_call(run: Callable[[Run], Run]) -> None:
    function = run(lambda t: t + torch.rand_like(t))
    x = torch.zeros(8)
    drawn = []
    for _ in range(3):
        torch.manual_seed(3)
        drawn.append(function(x))
    assert torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[1], drawn[2])


def test_an_index_out_of_range_raises(run: Callable[[Run], Run]) -> None:
    x, index = torch.arange(6.0).view(3, 2), torch.tensor([0, 3])
    with pytest.raises(IndexError):
        run(lambda t, i: t[i] + 1)(x, index)
    with pytest.raises(IndexError):
        run(lambda t, i: F.embedding(i, t) + 1)(x, index)


def test_strides_are_eagers(run: Callable[[Run], Run]) -> None:
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    conv = nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)

    def images(t: Tensor) -> Tensor:
        return F.conv2d(t, conv.weight.to(t.device)).relu()

    def views(t: Tensor) -> list[Tensor]:
        return [(t * 2).t(), (t + 1).as_strided((2, 2), (1, 2)), t.t() * 2]

    with torch.no_grad():
        assert run(images)(image).stride() == images(image).stride()
    x = torch.randn(3, 4)
    for got, want in zip(run(views)(x), views(x), strict=True):
        assert_close(got, want)
        assert got.stride() == want.stride()


def test_new_sizes_and_numbers_capture_nothing() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return F.layer_norm(x, (4,)) * n

    fast = torch.compile(f, backend="pjrt", dynamic=True, fullgraph=True)
    for size, n in ((3, 2), (5, 2), (7, 9), (9, 11)):
        x = torch.randn(size, 4)
        assert_close(fast(x, n), f(x, n))
    assert torch_pjrt.stats()["captures"] == 1


def test_a_step_of_training_is_two_executions() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    fast, x = _compiled(model), torch.randn(5, 3)
    for _ in range(2):
        torch_pjrt.reset_stats()
        fast(x).sum().backward()
        assert torch_pjrt.stats()["executions"] == 2


def test_tensors_of_the_host_are_refused_by_a_model_of_the_device() -> None:
    model = nn.Linear(3, 2).to("pjrt")
    with pytest.raises(RuntimeError, match="pjrt"):
        model(torch.randn(4, 3)).cpu()
    with pytest.raises(RuntimeError, match="device"):
        torch.compile(model, backend="pjrt", fullgraph=True)(torch.randn(4, 3))


def _spd() -> Tensor:
    a = torch.randn(4, 4)
    return a @ a.t() + 4 * torch.eye(4)


IN_PROGRAMS: dict[str, tuple[Run, Tensor]] = {
    "logcumsumexp": (lambda x: x.logcumsumexp(1), torch.randn(3, 4)),
    "embedding_bag": (
        lambda w: F.embedding_bag(torch.tensor([[1, 2], [0, 1]], device=w.device), w),
        torch.randn(3, 4),
    ),
    "grid_sample": (
        lambda x: F.grid_sample(x, x.new_full((1, 2, 2, 2), 0.3), align_corners=False),
        torch.randn(1, 2, 4, 4),
    ),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), torch.randn(1, 2, 5, 5)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), torch.randn(1, 2, 5, 5)),
    "rfft": (lambda x: torch.fft.rfft(x).abs(), torch.randn(3, 8)),
    "cholesky": (torch.linalg.cholesky, _spd()),
    "det": (torch.linalg.det, torch.randn(3, 3)),
    "median": (lambda x: x.median(1).values, torch.randn(3, 5)),
    "mode": (lambda x: x.round().mode(1).values, torch.randn(3, 5)),
    "unfold": (lambda x: F.unfold(x, 2), torch.randn(1, 2, 4, 4)),
    "digamma": (torch.digamma, torch.rand(5) + 0.5),
    "lgamma": (torch.lgamma, torch.rand(5) + 0.5),
    "bucketize": (
        lambda x: torch.bucketize(x, torch.arange(4.0, device=x.device)),
        torch.randn(5) * 3,
    ),
    "searchsorted": (
        lambda x: torch.searchsorted(torch.arange(4.0, device=x.device), x),
        torch.randn(5) * 3,
    ),
    "histc": (lambda x: torch.histc(x, 4, -1, 1), torch.randn(9)),
}


OFTEN = ("cholesky", "median", "digamma", "histc")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in OFTEN else pytest.mark.full) for n in IN_PROGRAMS],
)
def test_no_part_runs_in_eager(name: str) -> None:
    function, x = IN_PROGRAMS[name]
    fast = torch.compile(function, backend="pjrt", fullgraph=True, options={"fallback": "error"})
    assert_close(fast(x), function(x))
    torch.pjrt.reset_host_ops()
    assert_close(_on_device(function)(x), function(x))
    assert not torch.pjrt.host_ops()


@pytest.mark.filterwarnings("ignore::torch_pjrt.FallbackWarning")
@pytest.mark.parametrize("function", [torch.nonzero, torch.unique], ids=["nonzero", "unique"])
def test_sizes_by_values_break_no_graph(function: Run) -> None:
    x = torch.tensor([2.0, 0.0, 1.0, 2.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fast = torch.compile(lambda t: function(t * 2) + 1, backend="pjrt", fullgraph=True)
        assert torch.equal(fast(x), function(x * 2) + 1)


@pytest.mark.filterwarnings("ignore::torch_pjrt.FallbackWarning")
def test_around_a_ctc_loss_all_is_compiled() -> None:
    """Dynamo itself stops there, since torch has no shape function for it, and says so."""

    def loss(x: Tensor, targets: Tensor) -> Tensor:
        y = (x * 2).sin().log_softmax(2)
        return (F.ctc_loss(y, targets, [6, 5], [3, 2]) * 2).cos() + 1

    x, targets = torch.randn(6, 2, 5), torch.tensor([[1, 2, 2], [3, 1, 0]])
    assert torch_pjrt.explain(loss, x, targets).breaks[0].reason
    torch_pjrt.reset_stats()
    results = []
    for function in (loss, torch.compile(loss, backend="pjrt")):
        leaf = x.clone().requires_grad_()
        value = function(leaf, targets)
        value.backward()
        results.append((value, leaf.grad))
    assert_close(*results)
    assert torch_pjrt.stats()["executions"] == 4
