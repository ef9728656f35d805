"""Complex numbers against eager: functions at branch cuts, zeros and infinities, views that eager
only notes, promotion, and what has no order."""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_pjrt

DTYPES = [torch.complex64, torch.complex128]
TOLERANCE = {torch.complex64: 1e-5, torch.complex128: 1e-12}
INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -2.5, INF, -INF, NAN]
# Products of these stay clear of float32's denormals, which XLA takes for zero.
FINITE = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 30.0, -30.0, 1e-6, -1e6]


def grid(parts: list[float], dtype: torch.dtype) -> torch.Tensor:
    """All complex numbers with these parts."""
    return torch.tensor([complex(a, b) for a, b in itertools.product(parts, parts)], dtype=dtype)


def compiled(fn: Callable[..., Any], *args: Any, fallback: str = "error") -> Any:
    torch._dynamo.reset()
    return torch.compile(fn, backend="pjrt", dynamic=False, options={"fallback": fallback})(*args)


def parts(t: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t[..., None]


def signed_zeros_agree(got: torch.Tensor, want: torch.Tensor) -> bool:
    zero = (parts(want) == 0) & (parts(got) == 0)
    return bool((parts(got).signbit() == parts(want).signbit())[zero].all())


def same(fn: Callable[..., Any], *args: torch.Tensor) -> torch.Tensor:
    """The compiled function gives what eager gives."""
    got = compiled(fn, *args)
    check(got, fn(*args))
    return got


def check(got: torch.Tensor, want: torch.Tensor) -> None:
    """Each part is right within the modulus's rounding."""
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    if not (want.is_complex() or want.is_floating_point()):
        assert torch.equal(got, want)
        return
    tolerance = TOLERANCE.get(torch.promote_types(want.dtype, torch.complex64), 0)
    a, b = parts(got).double(), parts(want).double()
    size = torch.where(b.isfinite(), b.abs(), 0).sum(-1, keepdim=True)
    near = (a - b).abs() <= tolerance * size
    agree = near | (a == b) | (a.isnan() & b.isnan())
    assert agree.all(), (got[~agree.all(-1)], want[~agree.all(-1)])


# --- functions

UNARY = {
    "abs": torch.abs,
    "angle": torch.angle,
    "cos": torch.cos,
    "exp": torch.exp,
    "isfinite": torch.isfinite,
    "log": torch.log,
    "neg": torch.neg,
    "reciprocal": torch.reciprocal,
    "rsqrt": torch.rsqrt,
    "sgn": torch.sgn,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tanh": torch.tanh,
    "half power": lambda z: z**0.5,
    "power 3": lambda z: z**3,
    "power -2": lambda z: z**-2,
    "power 2.5": lambda z: z**2.5,
    "complex power": lambda z: z ** (1.5 + 0.5j),
}


@functools.cache
def all_functions(dtype: torch.dtype, is_special: bool) -> dict[str, tuple[torch.Tensor, ...]]:
    """Name -> what the function gives compiled (all in one program), and in eager."""
    z = grid(SPECIAL if is_special else FINITE, dtype)
    got = compiled(lambda z: [fn(z) for fn in UNARY.values()], z)
    return {name: (g, fn(z)) for g, (name, fn) in zip(got, UNARY.items(), strict=True)}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_finite_numbers(name: str, dtype: torch.dtype) -> None:
    check(*all_functions(dtype, False)[name])


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "angle"])
def test_signs_of_zeros(name: str) -> None:
    assert signed_zeros_agree(*all_functions(torch.complex128, False)[name])


@pytest.mark.parametrize("name", ["abs", "angle", "exp", "isfinite", "log", "neg", "sqrt"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_at_infinity_and_nan(name: str, dtype: torch.dtype) -> None:
    check(*all_functions(dtype, True)[name])


@pytest.mark.parametrize("name", UNARY)
def test_nothing_finite_comes_of_nan(name: str) -> None:
    got = all_functions(torch.complex64, True)[name][0][-1]  # of NaN + NaN j
    assert not got if got.dtype == torch.bool else not got.isfinite()


def test_a_result_is_finite_where_its_factors_overflow() -> None:
    z = torch.tensor([complex(89, math.pi / 2), complex(88.7, 1.57), complex(0, 100)])
    same(torch.exp, z[:2])
    same(torch.sin, z[2:])
    same(torch.cos, z[2:])
    same(torch.abs, torch.tensor([complex(3e38, 1e38), complex(3e-38, 4e-38)]))
    same(lambda a, b: a / b, torch.tensor([complex(1e38, 1e38)]), torch.tensor([complex(2e38, 0)]))


def test_sigmoid_is_finite_where_eager_overflows() -> None:
    z = grid([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 30.0, -30.0], torch.complex64)
    same(torch.sigmoid, z)
    far = torch.tensor([complex(-1000, 1), complex(1000, 1)])
    assert compiled(torch.sigmoid, far).tolist() == [0, 1]


def test_powers_of_zero() -> None:
    zero = torch.zeros(1, dtype=torch.complex64)
    assert compiled(lambda z: z**0j, zero).item() == 1
    assert compiled(lambda z: z**2.5, zero).item() == 0
    assert not compiled(lambda z: z**-2.5, zero).isfinite().item()


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "eq": torch.eq,
    "ne": torch.ne,
    "scaled": lambda a, b: torch.add(a, b, alpha=2 - 1j),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: torch.dtype) -> None:
    a = torch.randn(4, 5, dtype=dtype)
    b = torch.randn(5, 4, dtype=dtype).t()
    b[1, 2] = a[1, 2]
    same(BINARY[name], a, b)
    same(BINARY[name], a, b[0, :1])
    same(BINARY[name], a[:0], b[:0])
    same(BINARY[name], a[0, 0], b[1, 2])


# --- promotion and conversion


@pytest.mark.parametrize("other", [torch.bool, torch.int32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("dims", [(), (3,)], ids=str)
def test_promotion_with_real_tensors(other: torch.dtype, dims: tuple[int, ...]) -> None:
    z = torch.tensor([1 + 2j, -3j, 1 + 0j])
    r = torch.ones(dims, dtype=other)
    for fn in (torch.add, torch.mul, torch.eq):
        same(fn, z, r)
        same(fn, r, z[0])
    same(lambda a, b: torch.where(a == b, a, b), z, r)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int64, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_complex_numbers_on_a_real_tensor_are_values(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 3]).to(dtype)
    same(lambda t: t * (2 + 3j) + 1j, x)
    same(lambda t: t == 1 + 0j, x)
    same(lambda t: torch.full((2,), 1 - 2j) + t[0], x)
    torch._dynamo.reset()
    before = torch_pjrt.stats()["compiles"]
    fn = torch.compile(lambda t, s: t * s, backend="pjrt", dynamic=False)
    for number in (4j, 5 + 1j, complex(0.1, -7)):
        assert torch.equal(fn(x, number), x * number)
    assert torch_pjrt.stats()["compiles"] - before == 1


def test_conversion() -> None:
    z = torch.tensor([1.7 - 2j, -3.9 + 0j, 0j, 1j, complex(NAN, 0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the imaginary part is dropped
        for dtype in (torch.complex128, torch.float64, torch.float16, torch.int32, torch.bool):
            same(lambda t, d=dtype: t.to(d), z)
    for dtype in (torch.bool, torch.uint8, torch.float16, torch.float64):
        same(lambda t: t.to(torch.complex64), torch.tensor([0, 1, 2]).to(dtype))


# --- reductions, products, data movement


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reductions(dtype: torch.dtype) -> None:
    z = torch.randn(3, 4, dtype=dtype)
    same(lambda t: t.sum(), z)
    same(lambda t: t.sum(0, keepdim=True), z.t())
    same(lambda t: t.mean(-1), z)
    same(lambda t: t.sum(0), z[:0])
    same(lambda t: t.sum(), z[0, 0])
    same(lambda t: t.any(1), z)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products(dtype: torch.dtype) -> None:
    a, b = torch.randn(3, 4, dtype=dtype), torch.randn(4, 3, dtype=dtype)
    same(torch.mm, a, b)
    same(lambda x: x.conj().t() @ x, a)
    same(lambda x, y: torch.bmm(x[None], y[None]), a, b)
    same(lambda x, y: torch.addmm(x[:, :3], x, y, beta=2j, alpha=1 - 1j), a, b)
    same(lambda x, y: torch.addmm(x[:, :3] * NAN, x, y, beta=0), a, b)
    same(torch.mm, a[:0], b)


def test_data_movement() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    same(lambda t: torch.cat([t, t.real]), z)
    same(lambda t: t[[2, 0]], z)
    same(lambda t: t.gather(0, torch.tensor([[0, 2, 1, 1]])), z)
    same(lambda t: t.t().reshape(2, 6)[:, ::2], z)
    same(lambda t: torch.where(t.real > 0, t, 1j), z)
    same(lambda t: t.clone().mul_(2j), z)


# --- parts and lazy views


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_parts(dtype: torch.dtype) -> None:
    z = torch.randn(3, 4, dtype=dtype)
    r = torch.randn(3, 4, 2, dtype=dtype.to_real())
    for t in (z, z.t(), z[:0], z[0, 0]):
        same(lambda t: torch.view_as_real(t) * 2, t)
        same(lambda t: t.real + t.imag, t)
        same(lambda t: torch.polar(t.abs(), t.angle()), t)
        same(lambda t: torch.complex(t.imag, t.real.clone()), t)
    same(lambda t: torch.view_as_complex(t) * 1j, r)
    same(lambda t: torch.view_as_complex(t) * 1j, r.transpose(0, 1))
    same(torch.angle, torch.tensor([1.0, -1.0, 0.0, -0.0, NAN, -INF]))
    same(torch.angle, torch.tensor([1, -1, 0]))


def test_lazy_conjugation_and_negation() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    same(lambda t: t.conj() * 2j, z)
    same(lambda t: t.conj().resolve_conj() + t.conj_physical(), z)
    same(lambda t: torch._neg_view(t.real) * 2, z)
    same(lambda t: t.conj().imag + 1, z)
    same(lambda t: t.mH @ t, z)
    got = same(lambda t: (t * 2).conj(), z)
    assert not got.is_conj()  # the numbers are in its memory
    same(lambda t: (t * 2).conj().imag, z)


def test_a_part_of_an_input_is_a_view_of_it() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    for fn in (
        torch.view_as_real,
        lambda t: t.imag,
        lambda t: t.conj(),
        lambda t: t.conj().imag,
        lambda t: t.mH,
    ):
        got = compiled(fn, z)
        assert torch.equal(got, fn(z))
        assert got.untyped_storage().data_ptr() == z.untyped_storage().data_ptr()
        assert (got.is_conj(), got.is_neg()) == (fn(z).is_conj(), fn(z).is_neg())


def test_a_part_of_an_input_is_written_to() -> None:
    def double(t: torch.Tensor) -> torch.Tensor:
        t.imag.mul_(2)
        return t * 1

    z = torch.randn(3, dtype=torch.complex64)
    want, got = z.clone(), z.clone()
    assert torch.equal(compiled(double, got), double(want))
    assert torch.equal(got, want)


# --- what is refused


@pytest.mark.parametrize(
    "fn",
    [lambda t: t < t, lambda t: torch.maximum(t, t), lambda t: t.relu()],
    ids=["lt", "maximum", "relu"],
)
def test_what_has_no_complex_form_is_unsupported(fn: Callable[..., Any]) -> None:
    z = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(torch_pjrt.Error, match=r"(?s)for complex numbers.*test_complex\.py") as e:
        compiled(fn, z)
    assert e.value.code == "unsupported"


def test_a_rule_for_real_numbers_drops_no_imaginary_part() -> None:
    z = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(torch_pjrt.Error, match="for complex numbers") as e:
        compiled(lambda t: t.sum(dtype=torch.float32), z)
    assert e.value.code == "unsupported"


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_complex32_is_unsupported() -> None:
    with pytest.raises(torch_pjrt.Error, match=r"complex32(?s:.*)\.to\(torch.complex64\)") as e:
        compiled(lambda t: t * 2, torch.ones(2, dtype=torch.complex32))
    assert e.value.code == "unsupported"
