"""Samples of the ops that compute each element by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from ops.compare import Sample, sample
from ops.inputs import ALL, FLOATS, INF, INTS, NAN, NUMBERS, SIGNED, layouts, pairs, plain, special

Samples = list[Sample]


def _unary(op: str, dtypes: Iterable[torch.dtype]) -> Samples:
    """Special values of every dtype; every layout of one of them."""
    dtypes = list(dtypes)
    samples = [sample(op, special(d)) for d in dtypes]
    return samples + [sample(op, x) for x in layouts(dtypes[0])]


def _on(op: str, inputs: Iterable[torch.Tensor], **kwargs: Any) -> Samples:
    return [sample(op, x, **kwargs) for x in inputs]


def _binary(op: str, dtypes: Iterable[torch.dtype], **kwargs: Any) -> Samples:
    """All pairs of special values; layouts with one another and by broadcasting; promotion."""
    dtypes = list(dtypes)
    samples = [sample(op, *pairs(special(d)), **kwargs) for d in dtypes]
    first = dtypes[0]
    samples += [sample(op, x, x.clone(), **kwargs) for x in layouts(first)]
    samples.append(sample(op, plain(first, 4, 3).t(), plain(first, 3, 4), **kwargs))
    samples.append(sample(op, plain(first, 2, 3, 4), plain(first, 3, 1), **kwargs))
    if len(dtypes) > 2:
        samples.append(sample(op, plain(dtypes[1], 5), plain(dtypes[2], 5), **kwargs))
        samples.append(sample(op, plain(dtypes[-1], 5), plain(first), **kwargs))
    return samples


def _with_number(op: str, dtypes: Iterable[torch.dtype], numbers: Iterable[Any]) -> Samples:
    return [sample(op, special(d), n) for d in dtypes for n in numbers]


def _divisors(dtype: torch.dtype) -> torch.Tensor:
    """Without 0 and NaN. Of integers: no -1 either, by which eager's least integer traps."""
    if dtype.is_floating_point:
        return torch.tensor(
            [0.1, -0.1, 0.5, -3, 7, 1 / 3, 1e-3, INF, -INF, 0, -0.0, NAN], dtype=dtype
        )
    values = [1, 2, 3, 7, 100] + ([] if dtype is torch.uint8 else [-2, -3, -100])
    return torch.tensor(values, dtype=dtype)


def _division(op: str, dtypes: Iterable[torch.dtype], **kwargs: Any) -> Samples:
    samples = []
    for d in dtypes:
        if op.endswith(("Scalar", "Scalar_mode")):
            samples += [sample(op, special(d), n, **kwargs) for n in (2, 3, -7)]
        else:
            samples.append(sample(op, special(d)[:, None], _divisors(d), **kwargs))
    if "Scalar" not in op:
        samples += [sample(op, plain(d), torch.tensor(3, dtype=d), **kwargs) for d in dtypes]
        samples.append(sample(op, torch.tensor([7, -7]), torch.tensor([2.5, -2.5]), **kwargs))
        x = plain(torch.float32, 4, 3).t()
        samples.append(sample(op, x, plain(torch.float32, 3, 1) + 9, **kwargs))
    return samples


def _elementary() -> dict[str, Samples]:
    real = [*FLOATS, *INTS, torch.bool]
    table = {
        f"aten::{name}": _unary(f"aten::{name}", real)
        for name in (
            "acos acosh asin asinh atan atanh cos cosh erf erfc erfinv exp exp2 expm1 log log10 "
            "log1p log2 reciprocal rsqrt sigmoid sin sinh sqrt tan tanh"
        ).split()
    }
    small = [
        torch.tensor([-1.01, -0.99, -0.3, -1e-5, -0.0, 1e-5, 0.3, 0.99, 1.01, 1e10, -1e10], dtype=d)
        for d in FLOATS
    ]
    for name in "acos acosh asin asinh atan atanh erfc erfinv sinh tan".split():
        table[f"aten::{name}"] += _on(f"aten::{name}", small)
    near = 1 - torch.logspace(-6, -1, 20, dtype=torch.float64).to(torch.float32)
    table["aten::erfinv"].append(Sample("aten::erfinv", (near,), tolerance=3e-7))
    for name in "abs sign".split():
        table[f"aten::{name}"] = _unary(f"aten::{name}", NUMBERS)
    for name in "ceil floor round trunc".split():
        table[f"aten::{name}"] = _unary(f"aten::{name}", [*FLOATS, *INTS])
    table["aten::neg"] = _unary("aten::neg", NUMBERS)
    table["aten::relu"] = _unary("aten::relu", NUMBERS)
    for name in "isnan isinf signbit logical_not".split():
        table[f"aten::{name}"] = _unary(f"aten::{name}", ALL)
    table["aten::bitwise_not"] = _unary("aten::bitwise_not", [*INTS, torch.bool])
    table["aten::round.decimals"] = [
        sample("aten::round.decimals", plain(d, 20) * 100, decimals=n)
        for d in FLOATS
        for n in (0, 2, -1)
    ]
    finite = [torch.tensor([-10, -2.5, -0.5, -0.0, 0.5, 2.5, 10, NAN], dtype=d) for d in FLOATS]
    # At infinity eager's float32 and bfloat16 give NaN by the way they compute erf: not here.
    infinite = [torch.tensor([INF, -INF], dtype=d) for d in (torch.float64, torch.float16)]
    table["aten::gelu"] = _on("aten::gelu", finite + infinite)
    finite += [torch.tensor([INF, -INF], dtype=d) for d in FLOATS]
    table["aten::gelu"] += _on("aten::gelu", finite, approximate="tanh")
    return table


def _arithmetic() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    for name in "add mul".split():
        op = f"aten::{name}.Tensor"
        table[op] = _binary(op, ALL)
        table[f"aten::{name}.Scalar"] = _with_number(f"aten::{name}.Scalar", ALL, [2, -1, 2.5])
    table["aten::sub.Tensor"] = _binary("aten::sub.Tensor", NUMBERS)
    table["aten::sub.Scalar"] = _with_number("aten::sub.Scalar", NUMBERS, [2, -1, 2.5])
    table["aten::add.Tensor"] += _binary("aten::add.Tensor", [torch.float32, torch.int8], alpha=-3)
    table["aten::sub.Tensor"] += _binary("aten::sub.Tensor", [torch.bfloat16, torch.uint8], alpha=2)
    for name in "maximum minimum".split():
        table[f"aten::{name}"] = _binary(f"aten::{name}", ALL)
    for name in "fmax fmin".split():
        table[f"aten::{name}"] = _binary(f"aten::{name}", ALL)
    for name in "atan2 copysign.Tensor".split():
        table[f"aten::{name}"] = _binary(f"aten::{name}", NUMBERS)
    table["aten::copysign.Scalar"] = _with_number("aten::copysign.Scalar", NUMBERS, [2, -0.0, 0.0])
    table["aten::hypot"] = _binary("aten::hypot", FLOATS)
    for overload in ("Tensor", "Tensor_mode"):
        modes = (
            [{}]
            if overload == "Tensor"
            else [{"rounding_mode": m} for m in (None, "trunc", "floor")]
        )
        op = f"aten::div.{overload}"
        table[op] = [s for m in modes for s in _division(op, NUMBERS, **m)]
    table["aten::div.Scalar"] = _division("aten::div.Scalar", NUMBERS)
    table["aten::div.Scalar_mode"] = [
        s
        for m in (None, "trunc", "floor")
        for s in _division("aten::div.Scalar_mode", [*FLOATS, *SIGNED], rounding_mode=m)
    ]
    for name in "fmod remainder".split():
        table[f"aten::{name}.Tensor"] = _division(f"aten::{name}.Tensor", NUMBERS)
        table[f"aten::{name}.Scalar"] = _division(f"aten::{name}.Scalar", [*FLOATS, *SIGNED])
    table["aten::remainder.Scalar_Tensor"] = [
        sample("aten::remainder.Scalar_Tensor", n, _divisors(d)) for d in NUMBERS for n in (7, 100)
    ]
    return table


def _powers() -> dict[str, Samples]:
    tensor, scalar, base = "aten::pow.Tensor_Tensor", "aten::pow.Tensor_Scalar", "aten::pow.Scalar"
    exponents = [0, 1, 2, 3, 4, 5]
    reals = [0.5, -0.5, -1, -2, -3, 2.5, 0, 1, 2, 3, 4]
    ints = [
        sample(tensor, special(d)[:, None], torch.tensor([0, 1, 2, 3, 7], dtype=d)) for d in INTS
    ]
    negative = [
        sample(
            tensor,
            torch.tensor([-2, -1, 1, 2], dtype=d)[:, None],
            torch.tensor([-1, -2, -3], dtype=d),
        )
        for d in SIGNED
    ]
    return {
        tensor: _binary(tensor, FLOATS) + ints + negative,
        scalar: [sample(scalar, special(d), e) for d in INTS for e in exponents]
        + [sample(scalar, special(d), e) for d in FLOATS for e in reals]
        + [sample(scalar, special(torch.int32), 0.5), sample(scalar, special(torch.bool), 2)],
        base: [sample(base, b, special(d)) for d in FLOATS for b in (2, 0.5, 1, 0, -1)]
        + [sample(base, 2, torch.tensor([0, 1, 5, 6], dtype=d)) for d in INTS],
    }


def _logic() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    for name in "and or xor".split():
        table[f"aten::logical_{name}"] = _binary(f"aten::logical_{name}", ALL)
        op = f"aten::bitwise_{name}"
        bits = [*INTS, torch.bool]
        table[f"{op}.Tensor"] = _binary(f"{op}.Tensor", bits)
        table[f"{op}.Scalar"] = _with_number(f"{op}.Scalar", INTS, [3, 100])
        table[f"{op}.Scalar_Tensor"] = [sample(f"{op}.Scalar_Tensor", 3, special(d)) for d in INTS]
    for direction in "left right".split():
        op = f"aten::bitwise_{direction}_shift"
        old = f"aten::__{direction[0]}shift__"
        table[f"{op}.Tensor"] = _binary(f"{op}.Tensor", INTS)
        table[f"{old}.Tensor"] = _binary(f"{old}.Tensor", INTS)
        table[f"{op}.Tensor_Scalar"] = _with_number(f"{op}.Tensor_Scalar", INTS, [0, 1, 7])
        table[f"{old}.Scalar"] = _with_number(f"{old}.Scalar", INTS, [0, 1, 7, 8, 31])
        table[f"{op}.Scalar_Tensor"] = [
            sample(f"{op}.Scalar_Tensor", 5, torch.tensor([0, 1, 3], dtype=d)) for d in INTS
        ]
    for name in "eq ne lt le gt ge".split():
        table[f"aten::{name}.Tensor"] = _binary(f"aten::{name}.Tensor", ALL)
        table[f"aten::{name}.Scalar"] = _with_number(f"aten::{name}.Scalar", ALL, [0, 1, 1.5])
    return table


def _choices() -> dict[str, Samples]:
    where, clamp = "aten::where.self", "aten::clamp"
    return {
        where: [
            sample(where, plain(torch.bool, 4, 3), plain(a, 4, 3), plain(b, 3))
            for a, b in zip(ALL, [*ALL[1:], ALL[0]], strict=True)
        ]
        + [sample(where, x > 0, x, x + 1) for x in layouts(torch.float32)],
        clamp: [
            sample(clamp, special(d), *bounds)
            for d in NUMBERS
            for bounds in ((0, 2), (None, 1), (1, None), (3, 1), (0.5, None))
        ]
        + [sample(clamp, special(torch.float32), NAN, None)],
        "aten::clamp.Tensor": [
            sample("aten::clamp.Tensor", special(d)[:, None], special(d), high)
            for d in NUMBERS
            for high in (None, torch.tensor(3, dtype=d))
        ]
        + [sample("aten::clamp.Tensor", special(torch.float32), None, special(torch.float32))],
    }


def _conversions() -> dict[str, Samples]:
    to = "aten::_to_copy"
    samples = [sample(to, special(d), dtype=t) for d in [*INTS, torch.bool] for t in ALL]
    samples += [sample(to, special(d), dtype=t) for d in FLOATS for t in ALL]
    # Beyond the range of the integers.
    wide = torch.tensor([300.7, -300.7, 7e4, -7e4, 3e9, -3e9, 1e19, -1e19])
    samples += [sample(to, wide.to(d), dtype=t) for d in FLOATS for t in INTS]
    # Rounded once, half to even.
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 65519.0, 65520.0, 2**-25, 3e38])
    samples += [sample(to, ties, dtype=t) for t in (torch.float16, torch.bfloat16)]
    samples += [sample(to, x, dtype=torch.float64) for x in layouts(torch.float32)]
    table = {to: samples}
    for name in "clone".split():
        table[f"aten::{name}"] = _unary(f"aten::{name}", ALL)
    table["aten::copy"] = [
        sample("aten::copy", plain(a, 4, 3), plain(b, 3))
        for a in ALL
        for b in (torch.float32, torch.int64)
    ]
    return table


def _with_value() -> dict[str, Samples]:
    """Combined with a number, of any class and not."""
    table: dict[str, Samples] = {}
    for op, dtypes in (("aten::addcmul", NUMBERS), ("aten::addcdiv", FLOATS)):
        table[op] = [
            sample(op, plain(d, 4, 3), plain(d, 3) + 1, plain(d, 4, 1) + 2, value=v)
            for d in dtypes
            for v in (1, -1, 3)
        ] + [sample(op, x, x + 1, x * 2 + 9, value=0.3) for x in layouts(torch.float32)]
    lerp, fill = "aten::lerp.Scalar", "aten::fill.Scalar"
    table[lerp] = [
        sample(lerp, plain(d, 4, 3), plain(d, 3) + 1, w)
        for d in FLOATS
        for w in (0, 0.25, 0.5, -0.75, 1)
    ] + [sample(lerp, x, x + 1, 0.3) for x in layouts(torch.float32)]
    table[fill] = [sample(fill, plain(d, 2, 3), v) for d in ALL for v in (0, 1, 7)]
    table[fill] += [sample(fill, x, 2.5) for x in layouts(torch.float32)]
    return table


FAMILIES: list[Callable[[], dict[str, Samples]]] = [
    _elementary,
    _arithmetic,
    _powers,
    _logic,
    _choices,
    _conversions,
    _with_value,
]
TABLE: dict[str, Samples] = {op: s for family in FAMILIES for op, s in family().items()}
