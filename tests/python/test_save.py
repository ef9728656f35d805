"""torch_pjrt.save and load: results, views, mutations, draws and errors as in eager; guards."""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Calls = list[Any]


class Of(nn.Module):
    """A module of a function of its weights, f32[4,4], a buffer, f32[], and the arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.weight = nn.Parameter(torch.randn(4, 4, generator=generator))
        self.register_buffer("count", torch.zeros(()))
        self.scale = 2.0
        self.steps = 3
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def saved(tmp_path: Path, model: nn.Module, calls: Calls, **given: Any) -> Path:
    path = tmp_path / "model.tpc"
    torch_pjrt.save(torch.compile(model, backend="pjrt", **given), path, calls)
    return path


def loaded(tmp_path: Path, model: nn.Module, calls: Calls, **given: Any) -> Any:
    """The model, saved and loaded; nothing is captured from here on."""
    path = saved(tmp_path, model, calls, **given)
    torch._dynamo.reset()
    torch_pjrt.reset_stats()
    return torch_pjrt.load(path, model)


def programs() -> int:
    """Programs since the load: of this process, which saved them, or of the file."""
    found = torch_pjrt.stats()
    assert found["captures"] == 0
    return found["compiles"] + found["disk_hits"]


def check(fast: Any, model: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Compares a call with eager: results, and what becomes of arguments and buffers."""
    eager = copy.deepcopy(model)
    theirs = copy.deepcopy((args, kwargs))
    got = fast(*args, **kwargs)
    want = eager(*theirs[0], **theirs[1])
    same(got, want)
    same((args, kwargs), theirs)
    torch.testing.assert_close(dict(model.named_buffers()), dict(eager.named_buffers()))
    return got


def same(got: Any, want: Any) -> None:
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    assert got_spec == want_spec
    for a, b in zip(got_leaves, want_leaves, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()
        else:
            assert type(a) is type(b)
            assert a == b


def x(rows: int = 5) -> torch.Tensor:
    return torch.randn(rows, 4)


@torch.no_grad()
def test_several_sizes_and_one_that_was_not_saved(tmp_path: Path) -> None:
    model = Of(lambda m, a: (a @ m.weight).relu())
    fast = loaded(tmp_path, model, [(x(2),), (x(5),)])
    for rows in (2, 5, 2):
        check(fast, model, x(rows))
    assert programs() == 2
    check(fast, model, x(9))
    assert programs() == 3


@torch.no_grad()
def test_a_size_of_its_own(tmp_path: Path) -> None:
    """Sizes 0 and 1 are others than the rest: each has a graph."""
    model = Of(lambda m, a: a.sum(0) @ m.weight)
    fast = loaded(tmp_path, model, [(x(3),), (x(1),), (x(0),)])
    for rows in (0, 1, 3):
        check(fast, model, x(rows))
    check(fast, model, x(8))


@torch.no_grad()
def test_both_sides_of_a_branch(tmp_path: Path) -> None:
    model = Of(lambda m, a: a @ m.weight if a.shape[0] > 4 else a - 1)
    fast = loaded(tmp_path, model, [(x(3),), (x(8),)])
    for rows in (2, 3, 4, 5, 9):
        check(fast, model, x(rows))
    assert programs() == 5


@torch.no_grad()
def test_structures(tmp_path: Path) -> None:
    def function(m: Of, a: Any, *, options: dict[str, Any], flag: bool = True) -> Any:
        y = a[0] @ m.weight + options["bias"]
        return {"y": (y, [y * options["k"], None]), "n": a[0].shape[0], "s": "text", "flag": flag}

    model = Of(function)

    def call(rows: int, k: int) -> Any:
        return ((x(rows), "name"),), {"options": {"bias": x(rows), "k": k}, "flag": False}

    fast = loaded(tmp_path, model, [call(3, 4), call(5, 4)])
    for rows, k in ((3, 4), (5, 7)):
        args, kwargs = call(rows, k)
        check(fast, model, *args, **dict(reversed(kwargs.items())))


@torch.no_grad()
def test_outputs_share_memory_as_in_eager(tmp_path: Path) -> None:
    def function(m: Of, a: torch.Tensor) -> Any:
        y = a @ m.weight
        return y, y[1:], y, a, a.t(), m.weight, m.weight[0], y.t()

    model = Of(function)
    fast = loaded(tmp_path, model, [(x(3),), (x(5),)])
    for rows in (3, 6):
        a = x(rows)
        y, part, same, given, turned, weight, row, y_turned = check(fast, model, a)
        assert same is y
        assert given is a
        assert weight is model.weight
        pointers = {t.untyped_storage().data_ptr() for t in (y, part, y_turned)}
        assert len(pointers) == 1
        assert turned.data_ptr() == a.data_ptr()
        assert turned.stride() == (1, 4)
        assert row.data_ptr() == model.weight.data_ptr()


@torch.no_grad()
def test_mutation(tmp_path: Path) -> None:
    def function(m: Of, a: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        m.count.add_(1)
        cache[:, 1] = a[:, 0]
        a.t().mul_(2)
        return cache.sum() + m.count

    model = Of(function)
    fast = loaded(tmp_path, model, [(x(3), x(3)), (x(5), x(5))])
    for rows in (3, 5, 7):
        check(fast, model, x(rows), x(rows))
    assert model.count.item() == 3
    assert programs() == 3


@torch.no_grad()
def test_saving_runs_nothing(tmp_path: Path) -> None:
    def function(m: Of, a: torch.Tensor) -> torch.Tensor:
        m.count.add_(1)
        return a.add_(torch.rand_like(a))

    model, a = Of(function), torch.zeros(3, 4)
    before = torch.get_rng_state()
    saved(tmp_path, model, [(a,)])
    assert model.count.item() == 0
    assert a.sum() == 0
    assert torch.equal(torch.get_rng_state(), before)
    assert torch_pjrt.stats()["executions"] == 0


@torch.no_grad()
def test_random_numbers_are_those_of_the_compiled_model(tmp_path: Path) -> None:
    model = Of(lambda m, a: nn.functional.dropout(a, 0.5) + torch.randn(2, 1, 4))
    a = x(3)
    torch.manual_seed(7)
    want = [torch.compile(model, backend="pjrt")(a) for _ in range(2)]
    fast = loaded(tmp_path, model, [(a,)])
    torch.manual_seed(7)
    got = [fast(a) for _ in range(2)]
    assert all(torch.equal(g, w) for g, w in zip(got, want, strict=True))
    assert not torch.equal(got[0], got[1])


@torch.no_grad()
def test_errors_from_values(tmp_path: Path) -> None:
    def function(m: Of, a: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        m.count.add_(1)
        return a[i]

    model = Of(function)
    fast = loaded(tmp_path, model, [(x(3), torch.tensor([1]))])
    check(fast, model, x(3), torch.tensor([2]))
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        fast(x(3), torch.tensor([3]))
    assert model.count.item() == 1


@torch.no_grad()
def test_numbers(tmp_path: Path) -> None:
    """Numbers of the call and of the module that may change compile nothing."""
    model = Of(lambda m, a, k, r: (a * k + r) * m.scale + m.steps)
    fast = loaded(tmp_path, model, [(x(3), 4, 0.5)], dynamic=True)
    check(fast, model, x(3), 4, 0.5)
    check(fast, model, x(3), 7, -2.25)
    model.scale = 5.0
    check(fast, model, x(3), -7, 1.0)
    assert programs() == 1
    model.steps = 9
    with pytest.raises(torch_pjrt.Error, match=r"model.steps is 9, and was 3"):
        fast(x(3), 4, 0.5)


@torch.no_grad()
def test_floats_that_the_program_holds(tmp_path: Path) -> None:
    """Where a float is no operand of a tensor, Dynamo takes it for constant."""

    def function(m: Of, a: torch.Tensor, r: float) -> torch.Tensor:
        first = nn.functional.layer_norm(a, (4,), eps=m.scale)
        return first + nn.functional.layer_norm(a, (4,), eps=r) * r

    model = Of(function)
    fast = loaded(tmp_path, model, [(x(3), 0.5), (x(5), 0.5)])
    check(fast, model, x(3), 0.5)
    check(fast, model, x(5), 0.5)
    with pytest.raises(torch_pjrt.Error, match=r"argument 1 is 0.25, and was 0.5"):
        fast(x(3), 0.25)
    model.scale = 3.0
    with pytest.raises(torch_pjrt.Error, match=r"model.scale is 3.0, and was 2.0"):
        fast(x(3), 0.5)


@torch.no_grad()
def test_sizes_in_numbers(tmp_path: Path) -> None:
    """Sizes that are expressions, compared with one another, and with a number of the call."""

    def function(m: Of, a: torch.Tensor, b: torch.Tensor, n: int) -> Any:
        if a.shape[0] * 2 == b.shape[0]:
            return a + b[::2] * n, b.shape[0] // 3
        return b[: a.shape[0] - 1] * n, a.shape[0]

    model = Of(function)
    calls = [(x(3), x(6), 5), (x(4), x(8), 7), (x(3), x(5), 4)]
    fast = loaded(tmp_path, model, calls, dynamic=True)
    for rows, more, n in ((3, 6, 5), (5, 10, 2), (6, 12, 6), (3, 5, 4), (7, 9, 5), (4, 7, 3)):
        check(fast, model, x(rows), x(more), n)


def test_the_plugin(tmp_path: Path) -> None:
    model = small().eval()
    fast = loaded(tmp_path, model, [(x(),)], options=fake.OPTIONS)
    with torch.no_grad():
        fast(x())
        assert programs() == 1
        check(torch_pjrt.load(tmp_path / "model.tpc", model, plugin="cpu"), model, x())


@torch.no_grad()
def test_tensors_in_the_code(tmp_path: Path) -> None:
    model = Of(lambda m, a: a + torch.tensor([1.0, 2.0, 3.0, 4.0]) * torch.tensor(3, dtype=a.dtype))
    fast = loaded(tmp_path, model, [(x(3),), (x(3).bfloat16(),)])
    check(fast, model, x(3))
    check(fast, model, x(3).bfloat16())


@torch.no_grad()
def test_layouts(tmp_path: Path) -> None:
    model = Of(lambda m, a: (a @ m.weight, a.t().contiguous()))
    fast = loaded(tmp_path, model, [(x(6),), (torch.randn(4, 6).t(),), (x(12)[::2],)])
    check(fast, model, x(6))
    check(fast, model, torch.randn(4, 6).t())
    check(fast, model, x(12)[::2])
    with pytest.raises(torch_pjrt.Error, match=r"argument 0 has strides \[12, 1\]"):
        fast(torch.randn(6, 12)[:, :4])


def small(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(dropout), nn.ReLU(), nn.Linear(8, 4)
    )


@torch.no_grad()
def test_training_mode_is_guarded(tmp_path: Path) -> None:
    model = small().train()
    fast = loaded(tmp_path, model, [(x(3),)])
    check(fast, model, x(3))
    assert model[1].num_batches_tracked.item() == 1
    model.eval()
    with pytest.raises(torch_pjrt.Error, match=r"training is False\n.*\n?.*call model.train\(\)"):
        fast(x(3))


@torch.no_grad()
def test_weights_come_from_the_model(tmp_path: Path) -> None:
    model = small().eval()
    path = saved(tmp_path, model, [(x(3),)])
    other = small().eval()
    for parameter in other.parameters():
        parameter.add_(torch.randn(()))
    fast = torch_pjrt.load(path, other)
    check(fast, other, x(3))
    other.load_state_dict(model.state_dict())
    check(fast, other, x(3))
    other[0].weight = nn.Parameter(torch.randn(8, 4))
    other[1].running_mean = torch.randn(8)
    check(fast, other, x(3))
    other[0].weight = nn.Parameter(torch.randn(4, 8).t())
    with pytest.raises(torch_pjrt.Error, match=r"weight 0.weight is .* strides \[1, 8\]"):
        fast(x(3))


@torch.no_grad()
def test_tied_weights(tmp_path: Path) -> None:
    def tied(tie: bool = True) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        if tie:
            model[2].weight = model[0].weight
        return model.eval()

    model = tied()
    fast = loaded(tmp_path, model, [(x(3),)])
    check(fast, model, x(3))
    with pytest.raises(torch_pjrt.Error, match="ties"):
        torch_pjrt.load(tmp_path / "model.tpc", tied(False))
    model[2].weight = nn.Parameter(torch.randn(4, 4))
    with pytest.raises(torch_pjrt.Error, match="tie them again"):
        fast(x(3))


def test_gradients_are_refused(tmp_path: Path) -> None:
    model = small().eval()
    fast = loaded(tmp_path, model, [(x(3),)])
    with pytest.raises(torch_pjrt.Error, match=r"torch.no_grad\(\)"):
        fast(x(3))
    with torch.inference_mode():
        check(fast, model, x(3))
    model.requires_grad_(False)
    check(fast, model, x(3))
    with pytest.raises(torch_pjrt.Error, match=r"torch.no_grad\(\)"):
        fast(x(3).requires_grad_())


@torch.no_grad()
def test_autocast_is_guarded(tmp_path: Path) -> None:
    model = small().eval()
    with torch.autocast("cpu", torch.bfloat16):
        fast = loaded(tmp_path, model, [(x(3),)])
        assert fast(x(3)).dtype == torch.bfloat16
    with pytest.raises(torch_pjrt.Error, match=r"torch.autocast is"):
        fast(x(3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((x().double(),), "argument 0 has dtype torch.float64, and had torch.float32"),
        ((x()[0],), "argument 0 has rank 1, and had 2"),
        ((torch.randn(5, 3),), r"argument 0.size\(1\)"),
        ((x(1),), r"argument 0.size\(0\) >= 2 doesn't hold"),
        ((x().to("meta"),), "device meta"),
        ((x().to_sparse(),), "layout torch.sparse_coo"),
        ((3,), "argument 0 is a int, and was a tensor"),
        ((x(), x()), "the structure of the arguments"),
    ],
)
@torch.no_grad()
def test_other_calls_are_refused(tmp_path: Path, arguments: Any, message: str) -> None:
    fast = loaded(tmp_path, Of(lambda m, a: a @ m.weight), [(x(2),), (x(3),)])
    with pytest.raises((torch_pjrt.Error, RuntimeError), match=message):
        fast(*arguments)


@torch.no_grad()
def test_one_tensor_twice(tmp_path: Path) -> None:
    model = Of(lambda m, a, b: a.add_(b))
    a = x(3)
    fast = loaded(tmp_path, model, [(a, a)])
    both = x(3)
    want = both * 2
    assert torch.equal(fast(both, both), want)
    with pytest.raises(torch_pjrt.Error, match="aren't one tensor"):
        fast(x(3), x(3))


class Tensors(nn.Module):
    """Reads a tensor that isn't registered."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = torch.ones(4)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return a + self.plain


def count_calls(m: Of, a: torch.Tensor) -> torch.Tensor:
    m.steps += 1
    return a + 1


@pytest.mark.parametrize(
    ("model", "calls", "message"),
    [
        (Tensors(), [(x(),)], "register_buffer"),
        (Of(count_calls), [(x(),)], "changes Python's objects"),
        (Of(lambda m, a: a.imag), [(torch.randn(3, 4, dtype=torch.complex64),)], "clone"),
        (Of(lambda m, a: 3), [(x(),)], "computes nothing"),
        (Of(lambda m, a: a + 1), [x()], "a call to save is a Tensor"),
        (Of(lambda m, a: a + 1), [], "no call to save"),
        (Of(lambda m, a, b: a.add_(b)), [(both := x(), both[0])], "inputs that share memory"),
        (Of(lambda m, a: torch.linalg.svdvals(a)), [(x(),)], "no lowering for aten::_linalg_svd"),
    ],
    ids=["attribute", "side effect", "imag", "nothing", "call", "none", "overlap", "op"],
)
def test_what_cannot_be_saved(tmp_path: Path, model: nn.Module, calls: Calls, message: str) -> None:
    with pytest.raises(torch_pjrt.Error, match=message):
        saved(tmp_path, model, calls)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_compiled_module(tmp_path: Path) -> None:
    for fast in (
        small(),
        torch.compile(small(), backend="eager"),
        torch.compile(lambda a: a, backend="pjrt"),
    ):
        with pytest.raises(torch_pjrt.Error, match=r"save takes what torch.compile"):
            torch_pjrt.save(fast, tmp_path / "model.tpc", [(x(),)])


def test_a_graph_break_is_dynamos_error(tmp_path: Path) -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"[Dd]ata-dependent"):
        saved(tmp_path, Of(lambda m, a: a if a.sum() > 0 else -a), [(x(),)])


def test_random_eager_is_refused(tmp_path: Path) -> None:
    with pytest.raises(torch_pjrt.Error, match="random='eager'"):
        saved(tmp_path, small(), [(x(),)], options={"random": "eager"})


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(torch_pjrt.Error, match="can't be written: No such file"):
        saved(tmp_path / "no", small(), [(x(),)])


def test_other_models_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, small().eval(), [(x(),)])
    wide, less, other = small(), small(), small()
    wide[4] = nn.Linear(8, 5)
    del less[4]
    other[3] = nn.GELU()
    for model, message in (
        (wide, r"4.weight is torch.float32 of shape \[5, 8\]"),
        (less, "it lacks 4.bias, 4.weight"),
        (small().double(), "torch.float64"),
        (other, "3 is .*GELU, and was .*ReLU"),
        (nn.Sequential(small()), "it also has 0.0.bias"),
    ):
        with pytest.raises(torch_pjrt.Error, match=message):
            torch_pjrt.load(path, model)
    with pytest.raises(torch_pjrt.Error, match=r"load takes a torch.nn.Module"):
        torch_pjrt.load(path, dict(small().state_dict()))  # type: ignore[arg-type]


@torch.no_grad()
def test_a_submodule_that_is_replaced(tmp_path: Path) -> None:
    model = small().eval()
    fast = loaded(tmp_path, model, [(x(),)])
    model[0] = nn.Linear(4, 8)
    with pytest.raises(torch_pjrt.Error, match="load the file again"):
        fast(x())


def test_files_that_are_refused(tmp_path: Path) -> None:
    model = small().eval()
    path = saved(tmp_path, model, [(x(),)])
    good = path.read_bytes()
    path.chmod(0o664)
    with pytest.raises(torch_pjrt.Error, match="may be written by other users"):
        torch_pjrt.load(path, model)
    path.chmod(0o644)
    with pytest.raises(torch_pjrt.Error, match="Is a directory"):
        torch_pjrt.load(tmp_path, model)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(torch_pjrt.Error, match="is no regular file"):
        torch_pjrt.load(tmp_path / "pipe", model)
    with pytest.raises(torch_pjrt.Error, match="No such file"):
        torch_pjrt.load(tmp_path / "no", model)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
        with pytest.raises(torch_pjrt.Error, match="belongs to user 12345"):
            torch_pjrt.load(path, model)
        os.chown(path, 0, 0)
    generator = random.Random(1)
    for _ in range(200):
        bad = bytearray(good)
        at = generator.randrange(len(bad))
        match generator.randrange(3):
            case 0:
                bad[at] ^= 1 << generator.randrange(8)
            case 1:
                del bad[at:]
            case _:
                bad += b"more"
        path.write_bytes(bad)
        with pytest.raises(torch_pjrt.Error) as caught:
            torch_pjrt.load(path, model)
        assert caught.value.code == "io"
    path.write_bytes(good)
    torch_pjrt.load(path, model)


def test_another_process_needs_no_dynamo(tmp_path: Path) -> None:
    model = """
        import torch, torch_pjrt
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3)).eval()
        tokens = torch.tensor([[1, 2, 3]])
    """
    save = """
        torch_pjrt.save(torch.compile(model, backend="pjrt"), PATH, [(tokens,), (tokens[:, :2],)])
        assert torch_pjrt.stats()["executions"] == 0
    """
    load = """
        fast = torch_pjrt.load(PATH, model)
        with torch.no_grad():
            for n in (2, 3):
                torch.testing.assert_close(fast(tokens[:, :n]), model(tokens[:, :n]))
        import sys
        assert "torch._dynamo" not in sys.modules
        assert "torch._functorch.aot_autograd" not in sys.modules
        counts = torch_pjrt.stats()
        assert (counts["compiles"], counts["captures"], counts["disk_hits"]) == (0, 0, 2), counts
    """
    path = str(tmp_path / "model.tpc")
    for script in (save, load):
        program = textwrap.dedent(model) + textwrap.dedent(script).replace("PATH", repr(path))
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            env={**os.environ, "TORCH_PJRT_CACHE": "0"},
        )


@torch.no_grad()
def test_small_bert(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()

    def tokens(n: int) -> torch.Tensor:
        return torch.randint(0, 100, (2, n))

    fast = loaded(tmp_path, model, [(tokens(8),), (tokens(16),)])
    for n in (8, 16, 24):
        got, want = fast(ids := tokens(n)), model(ids)
        assert type(got) is type(want)
        torch.testing.assert_close(got.last_hidden_state, want.last_hidden_state)
        torch.testing.assert_close(got.pooler_output, want.pooler_output)
    assert programs() == 3
