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


TABLE: dict[str, Samples] = {
    op: samples for family in (gammas, neighbours, transforms) for op, samples in family().items()
}
