"""Tensors and other values of every kind, as arguments, attributes, globals and closures: right, or
an error that names the remedy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import torch_pjrt

GLOBAL = torch.ones(3)


def compiled(fn: Callable[..., Any], fallback: str = "partition") -> Callable[..., Any]:
    torch._dynamo.reset()
    torch_pjrt.reset_stats()
    return torch.compile(fn, backend="pjrt", dynamic=False, options={"fallback": fallback})


def affine(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def by_argument(x: torch.Tensor, **options: str) -> Callable[[], Any]:
    fast = compiled(affine, **options)
    return lambda: fast(x)


def by_attribute(x: torch.Tensor) -> Callable[[], Any]:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = x

        def forward(self) -> torch.Tensor:
            return affine(self.held)

    return compiled(Holder())


def by_buffer(x: torch.Tensor) -> Callable[[], Any]:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("held", x)

        def forward(self) -> torch.Tensor:
            return affine(self.held)

    return compiled(Holder())


def by_global(x: torch.Tensor) -> Callable[[], Any]:
    global GLOBAL
    GLOBAL = x
    return compiled(lambda: affine(GLOBAL))


def by_closure(x: torch.Tensor, **options: str) -> Callable[[], Any]:
    return compiled(lambda: affine(x), **options)


def by_container(x: torch.Tensor) -> Callable[[], Any]:
    fast = compiled(lambda d: affine(d["x"][0]))
    return lambda: fast({"x": [x, 1]})


WAYS = [by_argument, by_attribute, by_buffer, by_global, by_closure, by_container]


def made_in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return torch.randn(3, 4)


# Name -> the tensor, and how many copies a call makes of it.
TENSORS: dict[str, tuple[Callable[[], torch.Tensor], int]] = {
    "0-d": (lambda: torch.tensor(2.5), 0),
    "zero-size": (lambda: torch.randn(2, 0, 3), 0),
    "transposed": (lambda: torch.randn(3, 4).t(), 0),
    "permuted": (lambda: torch.randn(2, 3, 4).permute(2, 0, 1), 0),
    "channels last": (lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), 0),
    "aligned offset": (lambda: torch.randn(32)[16:], 0),
    "misaligned": (lambda: torch.randn(17)[1:], 1),
    "gaps": (lambda: torch.randn(4, 6)[:, :3], 1),
    "steps": (lambda: torch.randn(12)[::3], 1),
    "expanded": (lambda: torch.randn(3, 1).expand(3, 4), 1),
    "expanded 0-d": (lambda: torch.randn(()).expand(3, 4), 1),
    "overlapping": (lambda: torch.randn(10).as_strided((4, 3), (2, 1)), 1),
    "conjugate": (lambda: torch.randn(3, 4, dtype=torch.complex64).conj(), 1),
    "conjugate transposed": (lambda: torch.randn(3, 4, dtype=torch.complex64).mH, 1),
    "conjugate with gaps": (lambda: torch.randn(4, 6, dtype=torch.complex64).conj()[:, :3], 1),
    "negative": (lambda: torch.randn(3, 4, dtype=torch.complex64).conj().imag, 1),
    "zeros without memory": (lambda: torch._efficientzerotensor((3, 4)), 1),
    "copy on write": (lambda: torch._lazy_clone(torch.randn(64)), 0),
    "of inference mode": (made_in_inference_mode, 0),
    "parameter": (lambda: torch.nn.Parameter(torch.randn(3)), 0),
    **{
        str(dtype): (lambda dtype=dtype: torch.tensor([0, 1, 1]).to(dtype), 0)
        for dtype in (
            *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
            *(torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128),
        )
    },
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors(name: str) -> None:
    make, copies = TENSORS[name]
    x = make()
    want = affine(x)
    call = by_argument(x)
    with torch.no_grad():
        got = call()
        assert torch.equal(got, want)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert torch.equal(call(), want)
    assert torch_pjrt.stats()["copied_inputs"] == 2 * copies
    assert torch_pjrt.stats()["executions"] == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name",
    ["transposed", "overlapping", "conjugate", "zeros without memory", "copy on write"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_way_in(way: Callable[..., Any], name: str) -> None:
    x = TENSORS[name][0]()
    call = way(x)
    assert torch.equal(call(), affine(x))
    if name in ("transposed", "copy on write"):  # seen at the next call, as in eager
        x.add_(1)
        assert torch.equal(call(), affine(x))
    assert torch_pjrt.stats()["captures"] == 1


def test_reading_a_lazy_clone_leaves_it_lazy() -> None:
    source = torch.randn(64)
    want = affine(source)
    clone = torch._lazy_clone(source)
    call = by_argument(clone)
    assert torch.equal(call(), want)
    assert torch._C._is_cow_tensor(clone)
    assert torch._C._is_cow_tensor(source)
    clone.add_(1)  # into memory of its own
    assert torch.equal(call(), affine(clone))
    assert torch.equal(by_argument(source)(), want)


def test_inference_mode_inside_and_outside() -> None:
    made_inside, made_outside = made_in_inference_mode(), torch.randn(3, 4)
    fast = compiled(affine)
    for x in (made_inside, made_outside):
        assert torch.equal(fast(x), affine(x))
        with torch.inference_mode():
            assert torch.equal(fast(x), affine(x))


def test_a_storage_without_its_memory_is_an_error_until_it_is_back() -> None:
    x = torch.randn(100)
    fast = compiled(affine)
    fast(x)
    storage = x.untyped_storage()
    for size in (0, 40):
        storage.resize_(size)
        with pytest.raises(torch_pjrt.Error, match="was resized") as e:
            fast(x)
        assert e.value.code == "invalid"
    storage.resize_(400)
    x.fill_(2)
    assert torch.equal(fast(x), affine(x))
    gone = torch.randn(6, 6).t()[:, ::2]
    for size in (0, 80):  # it has 18 elements, and its last is the storage's 30th
        gone.untyped_storage().resize_(size)
        with pytest.raises(torch_pjrt.Error, match="was resized"):
            by_argument(gone)()


# --- numbers and containers


@pytest.mark.parametrize("number", [3, 2.5, True, 1 - 2j, None, "abc", torch.float64], ids=repr)
def test_values_that_are_no_tensors(number: Any) -> None:
    def use(x: torch.Tensor, n: Any) -> torch.Tensor:
        if n is None:
            return x + 1
        if isinstance(n, str):
            return x * len(n)
        return x.to(n) if isinstance(n, torch.dtype) else x * n

    x = torch.randn(3)
    got, want = compiled(use)(x, number), use(x, number)
    assert got.dtype == want.dtype
    assert torch.equal(got, want)


class Pair(NamedTuple):
    a: torch.Tensor
    b: int


@dataclasses.dataclass
class Record:
    a: torch.Tensor
    b: float
    c: dict[str, list[Any]]


def test_containers() -> None:
    x = torch.randn(3)

    def use(record: Record, d: dict[str, Any]) -> Any:
        total = record.a * record.b + record.c["k"][0] * d["n"]
        return {"pair": Pair(total, d["n"]), "list": [record.a, None, 2.5]}

    arguments = Record(x, 2.0, {"k": [x + 1, "s"]}), {"n": 3}
    got, want = compiled(use)(*arguments), use(*arguments)
    assert isinstance(got["pair"], Pair)
    torch.testing.assert_close(got["pair"].a, want["pair"].a)
    assert got["pair"].b == 3
    assert got["list"][0] is x
    assert got["list"][1:] == [None, 2.5]


# --- subclasses and transforms


class Marked(torch.Tensor):
    pass


def test_subclasses() -> None:
    marked = torch.randn(3).as_subclass(Marked)
    got = by_argument(marked)()
    assert type(got) is Marked
    assert torch.equal(got, affine(marked))
    two = TwoTensor(torch.randn(3), torch.randn(3))
    got = by_argument(two)()
    assert isinstance(got, TwoTensor)
    assert torch.equal(got.a, affine(two.a))
    assert torch.equal(got.b, affine(two.b))


def total(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum()


@pytest.mark.parametrize(
    "transform",
    [
        torch.vmap,
        torch.func.grad,
        lambda fn: lambda x: torch.func.vjp(fn, x)[1](torch.ones(()))[0],
        lambda fn: lambda x: torch.func.jvp(fn, (x,), (x,))[1],
    ],
    ids=["vmap", "grad", "vjp", "jvp"],
)
def test_function_transforms(transform: Callable[..., Any]) -> None:
    x = torch.randn(3, 4)
    want = transform(total)(x)
    torch.testing.assert_close(compiled(transform(total))(x), want)
    torch.testing.assert_close(transform(compiled(total))(x), want)


# --- what is refused

REFUSED: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "meta": (lambda: torch.ones(3, device="meta"), "has no data"),
    "jagged": (
        lambda: torch.nested.nested_tensor([torch.ones(2, 3)] * 2, layout=torch.jagged),
        r"to_padded_tensor",
    ),
    "mkldnn": (lambda: torch.ones(3).to_mkldnn(), r"\.to_dense\(\)"),
    "uint16": (lambda: torch.ones(3, dtype=torch.uint16), r"\.to\(torch.int32\)"),
    "uint32": (lambda: torch.ones(3, dtype=torch.uint32), r"\.to\(torch.int64\)"),
    "uint64": (lambda: torch.ones(3, dtype=torch.uint64), r"\.to\(torch.int64\)"),
    "float8": (lambda: torch.ones(3).to(torch.float8_e5m2), r"\.to\(torch.float32\)"),
    "fake": (lambda: FakeTensorMode().from_tensor(torch.ones(3)), "FakeTensor"),
}


@pytest.mark.parametrize("way", [by_argument, by_closure])
@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_remedy(name: str, way: Callable[..., Any]) -> None:
    make, remedy = REFUSED[name]
    with pytest.raises(torch_pjrt.Error, match=remedy) as e:
        way(make(), fallback="error")()
    assert e.value.code == "unsupported"


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.quint8),
    ],
    ids=["sparse", "csr", "quantised"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_dynamo_does_not_capture_runs_in_eager(make: Callable[[], torch.Tensor]) -> None:
    def dense(t: torch.Tensor) -> torch.Tensor:
        return t.dequantize() if t.is_quantized else t.to_dense()

    x = make()
    assert torch.equal(compiled(dense)(x), dense(x))
    assert torch_pjrt.stats()["captures"] == 0
