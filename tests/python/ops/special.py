"""Samples of the gamma function and its kin, and of Fourier transforms."""

from __future__ import annotations

from typing import Any

import torch
from ops.compare import Sample, sample
from ops.inputs import FLOATS, INF, NAN, layouts, plain

Samples = list[Sample]

WIDE = (torch.float32, torch.float64)
# As good as eager's own: the sums and series differ in their last bits.
TOLERANCE = {
    torch.float32: 2e-5,
    torch.float64: 1e-11,
    torch.float16: 4e-3,
    torch.bfloat16: 2e-2,
    torch.complex64: 1e-5,
    torch.complex128: 1e-11,
}
POINTS = [0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 0.1, 12.25, 100.0, -0.5, -1.5, -2.25, -1.0, -3.0]
POINTS += [-8.478373527526855, -7.4, -3.2, -20.3, -50.6, 0.3]
ENDS = [INF, NAN]


def _loose(op: str, *args: Any) -> Sample:
    dtype = next(a.dtype for a in args if isinstance(a, torch.Tensor))
    return Sample(op, args, {}, TOLERANCE.get(dtype, 2e-5))


def _permuted() -> torch.Tensor:
    return plain(torch.float32, 3, 1, 4).transpose(0, 2)


def gammas() -> dict[str, Samples]:
    points = [torch.tensor(POINTS + ENDS, dtype=d) for d in FLOATS]
    others = [torch.tensor([1, 2, 5]), torch.tensor([True]), *layouts(torch.float32)]
    unary = {
        f"aten::{name}": [_loose(f"aten::{name}", x) for x in (*points, *others)]
        for name in ("digamma", "lgamma")
    }
    orders = [_loose("aten::polygamma", 0, x) for x in points]
    # Eager's series has nine digits, and no infinity at whole numbers below 0.
    finite = [x[(x >= 0) | (x != x.round())] for x in points]
    narrow = {2: 2e-2, 4: 1e-4, 8: 1e-8}
    for x in finite:
        orders.append(Sample("aten::polygamma", (1, x), {}, narrow[x.dtype.itemsize]))
    return {**unary, "aten::polygamma": orders}


def zetas() -> dict[str, Samples]:
    """Also polygamma from the second derivative on, which is one."""
    op = "aten::special_zeta"
    table: dict[str, Samples] = {op: [], f"{op}.other_scalar": [], f"{op}.self_scalar": []}
    for dtype in WIDE:
        q = torch.tensor([*POINTS, *ENDS, 40.0], dtype=dtype)
        x = q[q != INF]  # for which eager has NaN
        table[op].append(_loose(op, x[:, None], q))
        table[f"{op}.other_scalar"].append(_loose(f"{op}.other_scalar", x, 0.3))
        table[f"{op}.self_scalar"].append(_loose(f"{op}.self_scalar", 3, x))
    table[op].append(_loose(op, _permuted() + 3, _permuted().abs()))
    table[op].append(_loose(op, torch.tensor([2, 3]), torch.tensor([1, 4])))
    x = torch.tensor([*POINTS, *ENDS, -INF, -30.3], dtype=torch.float64)
    x = x[x != -1.5]  # where terms cancel, and digits with them
    tower = [Sample("aten::polygamma", (n, x), {}, 1e-9) for n in (2, 3, 4, 5, 8)]
    tower += [Sample("aten::polygamma", (n, x.float()), {}, 1e-4) for n in (2, 3)]
    return {**table, "aten::polygamma": tower}


# Where series change, and where functions overflow.
TURNS = [0.0, -0.0, 1e-30, 1e-8, 0.125, 0.5, 1.0, 2.0, 2.5, 4.0, 4.5, 7.9, 8.0, 8.1, 20.0, 87.0]
TURNS += [104.0, 300.0, 705.0, 720.0, 1e3]
BESSEL = ["i0", "special_i0e", "special_i1", "special_i1e", "special_airy_ai"]
BESSEL += [f"special_modified_bessel_{kind}{order}" for kind in "ik" for order in "01"]
BESSEL += [f"special_scaled_modified_bessel_k{order}" for order in "01"]
BESSEL += [f"special_bessel_{kind}{order}" for kind in "jy" for order in "01"]
BESSEL += ["special_spherical_bessel_j0"]
NORMAL = ["special_erfcx", "special_ndtri"]


def series() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    for name in BESSEL + NORMAL:
        op = f"aten::{name}"
        # Eager's own of J, Y, Ai have fewer digits.
        rough = {"airy": 5e-7, "bessel_": 2e-8}
        digits = next((d for kind, d in rough.items() if kind in name), 1e-12)
        signed = [s * x for x in (*TURNS, INF) for s in (1, -1)]
        probabilities = [0.1 * k for k in range(-1, 12)] + [1e-3, 1e-7, 1 - 1e-4]
        wide = torch.tensor([*signed, *probabilities, NAN], dtype=torch.float64)
        narrow = wide.float()
        if "airy" in name:
            narrow = narrow[narrow > -8]
        table[op] = [Sample(op, (wide,), {}, digits), Sample(op, (narrow,), {}, 5e-6)]
        table[op] += [_loose(op, x) for x in (torch.tensor([0, 1, 5]), _permuted(), plain(WIDE[0]))]
        table[op].append(_loose(op, torch.empty(0)))
    table["aten::i0"].append(_loose("aten::i0", torch.tensor(TURNS[:-4], dtype=torch.bfloat16)))
    return table


def incomplete_gammas() -> dict[str, Samples]:
    points = [0.0, -1.0, 1e-9, 0.3, 1.0, 2.5, 11.0, 90.0, 100.0, 999.0, 1001.0, 1100.0, 1e6, 1e12]
    table: dict[str, Samples] = {}
    for op in ("aten::igamma", "aten::igammac"):
        wide = torch.tensor([*points, *ENDS], dtype=torch.float64)
        narrow = torch.tensor([*points[:9], *ENDS], dtype=torch.float32)
        table[op] = [Sample(op, (wide[:, None], wide), {}, 1e-9)]
        table[op].append(Sample(op, (narrow[:, None], narrow), {}, 1e-5))
        table[op].append(_loose(op, _permuted().abs(), _permuted().abs() + 1))
        half = torch.tensor([0.5, 2.0], dtype=torch.bfloat16)
        table[op].append(_loose(op, half, half + 1))
    return table


POLYNOMIALS = [f"chebyshev_polynomial_{kind}" for kind in "tuvw"]
POLYNOMIALS += [f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"]
POLYNOMIALS += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l"]
POLYNOMIALS += ["legendre_polynomial_p"]


def polynomials() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    degrees = [-3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 33, 140, 2.7, NAN]
    for name in POLYNOMIALS:
        op = f"aten::special_{name}"
        table[op] = []
        for dtype in reversed(WIDE):
            values = [0.0, -0.0, 1.0, -1.0, 0.5, 0.3, -0.9, 2.0, -2.0, 10.0, 1e20, INF, -INF, NAN]
            x, n = torch.tensor(values, dtype=dtype), torch.tensor(degrees, dtype=dtype)
            digits = 2e-4 if dtype is torch.float32 else 1e-10
            table[op].append(Sample(op, (x[:, None], n), {}, digits))
        table[f"{op}.n_scalar"] = [Sample(f"{op}.n_scalar", (x, n), {}, 2e-4) for n in (0, 12.9)]
        n = torch.tensor([-1, 0, 1, 12])
        table[f"{op}.x_scalar"] = [Sample(f"{op}.x_scalar", (0.3, n), {}, 2e-5)]
        table[op].append(_loose(op, _permuted(), _permuted().abs() * 3))
        table[op] += [
            _loose(op, t, t) for t in (torch.arange(4), torch.empty(0), torch.tensor(2.0))
        ]
    return table


def neighbours() -> dict[str, Samples]:
    op = "aten::nextafter"
    points = [torch.tensor([*POINTS, *ENDS, -INF, 1e-30], dtype=d) for d in WIDE]
    samples = [sample(op, x[:, None], x) for x in points]
    x = plain(torch.bfloat16, 5)
    return {op: [*samples, sample(op, x, -x)]}


def transforms() -> dict[str, Samples]:
    c2c, c2r, r2c = "aten::_fft_c2c", "aten::_fft_c2r", "aten::_fft_r2c"
    table: dict[str, Samples] = {c2c: [], c2r: [], r2c: []}
    modes = (0, 1, 2)
    for real, dtype in ((torch.float32, torch.complex64), (torch.float64, torch.complex128)):
        z, x = plain(dtype, 3, 5, 4), plain(real, 3, 5, 4)
        for dims in ([2], [0], [1, 2], [0, 1, 2], []):
            for mode in modes if dims else (0,):
                table[c2c] += [_loose(c2c, z, dims, mode, forward) for forward in (True, False)]
                if dims:
                    table[r2c] += [_loose(r2c, x, dims, mode, half) for half in (True, False)]
        table[c2c].append(_loose(c2c, z.transpose(0, 2), [0], 0, True))
        table[r2c].append(_loose(r2c, x.permute(2, 0, 1), [1], 0, True))
        for length in (6, 7):
            spectrum = torch.fft.rfftn(plain(real, 3, length))
            for mode in modes:
                table[c2r].append(_loose(c2r, spectrum, [1], mode, length))
                table[c2r].append(_loose(c2r, spectrum, [0, 1], mode, length))
    return table


FAMILIES = (gammas, zetas, series, incomplete_gammas, polynomials, neighbours, transforms)
TABLE: dict[str, Samples] = {}
for _family in FAMILIES:
    for _op, _samples in _family().items():
        TABLE.setdefault(_op, []).extend(_samples)
