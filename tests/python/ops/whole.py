"""Samples of the ops that look at more than one element: reductions, scans, sorting, norms,
products, convolution, pooling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from ops.compare import Sample, sample
from ops.inputs import ALL, FLOATS, INF, INTS, NAN, NUMBERS, plain, special

Samples = list[Sample]

# Sums of hundreds of numbers, in another order than eager's.
SUMS = {torch.float32: 1e-5, torch.float64: 1e-11, torch.float16: 4e-3, torch.bfloat16: 3e-2}


AXES = ([-1], [0], [1])  # one for each of _tensors


def _loosely(samples: Iterable[Sample], dtype: torch.dtype) -> Samples:
    return [Sample(s.op, s.args, s.kwargs, SUMS.get(dtype)) for s in samples]


def _tensors(dtype: torch.dtype) -> list[torch.Tensor]:
    return [
        plain(dtype, 3, 5),
        plain(dtype, 4, 2, 3).permute(2, 0, 1),
        plain(dtype, 2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
    ]


def _with_nan(dtype: torch.dtype) -> torch.Tensor:
    n, i = NAN, INF
    return torch.tensor(
        [
            [1, n, 3, n],
            [n, n, 0, n],
            [2, 2, -1, 2],
            [-i, i, n, 1],
            [-i, -i, -i, -i],
            [0.0, -0.0, 0, 0],
        ],
        dtype=dtype,
    )


def _over_dims(op: str, dtypes: Iterable[torch.dtype], **kwargs: Any) -> Samples:
    """For ops of `dim: int[]` and keepdim."""
    samples: Samples = []
    for d in dtypes:
        calls = [sample(op, x, dims, **kwargs) for x, dims in zip(_tensors(d), AXES, strict=True)]
        calls += [sample(op, plain(d, 2, 3, 4), [0, -1], True, **kwargs)]
        calls += [
            sample(op, plain(d, 2, 3), [], **kwargs),
            sample(op, plain(d), [0], True, **kwargs),
        ]
        samples += _loosely(calls, d)
    return samples


def _over_dim(op: str, dtypes: Iterable[torch.dtype], **kwargs: Any) -> Samples:
    """For ops of `dim: int` and keepdim."""
    samples: Samples = []
    for d in dtypes:
        calls = [sample(op, x, dim, **kwargs) for x, (dim,) in zip(_tensors(d), AXES, strict=True)]
        calls += [sample(op, plain(d, 2, 3), 0, True, **kwargs), sample(op, plain(d), 0, **kwargs)]
        calls += [sample(op, plain(d, 0, 3), -1, True, **kwargs)]
        samples += _loosely(calls, d)
    return samples


def _over_all(op: str, dtypes: Iterable[torch.dtype]) -> Samples:
    return [
        s for d in dtypes for s in _loosely([sample(op, x) for x in (*_tensors(d), plain(d))], d)
    ]


def reductions() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    nan = [_with_nan(d) for d in FLOATS]
    extremes = [special(d) for d in INTS]
    table["aten::sum.dim_IntList"] = _over_dims("aten::sum.dim_IntList", ALL)
    table["aten::sum.dim_IntList"] += [
        sample("aten::sum.dim_IntList", torch.full((4096,), 1.0, dtype=d), [0]) for d in FLOATS
    ]
    table["aten::sum.dim_IntList"] += [
        sample("aten::sum.dim_IntList", plain(d, 2, 0), dim) for d in ALL for dim in ([0], [1])
    ]
    table["aten::mean.dim"] = _over_dims("aten::mean.dim", FLOATS)
    table["aten::mean"] = _over_all("aten::mean", FLOATS)
    table["aten::prod"] = _over_all("aten::prod", ALL)
    table["aten::prod.dim_int"] = _over_dim("aten::prod.dim_int", ALL)
    for name in "amax amin".split():
        op = f"aten::{name}"
        table[op] = _over_dims(op, ALL) + [sample(op, x, [-1]) for x in (*nan, *extremes)]
    for name in "max min".split():
        op = f"aten::{name}"
        table[op] = _over_all(op, ALL) + [sample(op, x) for x in (*nan, *extremes)]
        op = f"aten::{name}.dim"
        table[op] = _over_dim(op, ALL) + [sample(op, x, -1) for x in (*nan, *extremes)]
    for name in "argmax argmin".split():
        op = f"aten::{name}"
        table[op] = _over_dim(op, NUMBERS) + _over_all(op, NUMBERS)
        table[op] += [sample(op, x, -1) for x in (*nan, *extremes)] + [sample(op, x) for x in nan]
        table[op] += [sample(op, plain(torch.float32, 2, 3), None, True)]
    few = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
    for name in "any all".split():
        table[f"aten::{name}"] = _over_all(f"aten::{name}", few)
        table[f"aten::{name}.dim"] = _over_dim(f"aten::{name}.dim", few)
        table[f"aten::{name}.dims"] = _over_dims(f"aten::{name}.dims", few)
        table[f"aten::{name}"] += [sample(f"aten::{name}", x) for x in nan]
    for name in "var var_mean".split():
        op = f"aten::{name}.correction"
        table[op] = [
            s
            for d in FLOATS
            for c in (None, 0, 1, 2.5)
            for s in _loosely(
                [
                    sample(op, plain(d, 3, 4, 5), [0, -1], correction=c),
                    sample(op, plain(d, 4, 3).t(), [1], correction=c, keepdim=True),
                ],
                d,
            )
        ]
        table[op] += [sample(op, plain(torch.float32, 1, 3), [0]), sample(op, nan[0], None)]
    norm = "aten::linalg_vector_norm"
    table[norm] = [
        s
        for d in FLOATS
        for order in (2, 1, 0, INF, -INF, 3, 0.5)
        for s in _loosely(
            [sample(norm, plain(d, 3, 4), order, [1]), sample(norm, plain(d, 5), order)], d
        )
    ]
    return table


def scans_and_sorts() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    nan = [_with_nan(d) for d in FLOATS]
    for name in "cumsum cumprod".split():
        op = f"aten::{name}"
        table[op] = [
            s
            for d in ALL
            for s in _loosely(
                [
                    sample(op, x, dim)
                    for x in (*_tensors(d), plain(d, 2, 0), plain(d, 1, 7))
                    for dim in (0, -1)
                ]
                + [sample(op, plain(d), 0), sample(op, plain(d, 33), 0)],
                d,
            )
        ]
        table[op] += [sample(op, x, 1) for x in nan]
        table[op] += [sample(op, plain(torch.bool, 9), 0, dtype=torch.int32)]
    op = "aten::logcumsumexp"
    table[op] = [
        s
        for d in FLOATS
        for s in _loosely([sample(op, x, dim) for x in _tensors(d) for dim in (0, -1)], d)
    ]
    far = torch.tensor([-INF, -INF, -800.0, 3.0, 800.0, -5.0, INF, 1.0, NAN, 2.0])
    table[op] += [sample(op, x, 0) for x in (far, far.flip(0), far.double(), torch.empty(0))]
    table[op].append(sample(op, torch.tensor(2.0), 0))
    for name in "cummax cummin".split():
        op = f"aten::{name}"
        table[op] = [sample(op, x, dim) for d in NUMBERS for x in _tensors(d) for dim in (0, -1)]
        table[op] += [sample(op, x, 1) for x in nan] + [sample(op, plain(torch.float32), 0)]
    table["aten::sort"] = [
        sample("aten::sort", x, dim, descending)
        for d in ALL
        for x in _tensors(d)
        for dim, descending in ((0, False), (-1, True))
    ]
    table["aten::sort.stable"] = [
        sample("aten::sort.stable", x, stable=True, dim=-1, descending=descending)
        for x in (
            *nan,
            *[special(d) for d in INTS],
            plain(torch.int8, 50),
            plain(torch.float32),
            plain(torch.float32, 0, 2),
        )
        for descending in (False, True)
    ]
    # Without ties: which of equal elements eager names is not defined.
    different = [torch.arange(24).mul(7).remainder(29).view(4, 6).to(d) for d in NUMBERS]
    table["aten::topk"] = [
        sample("aten::topk", x, k, dim, largest, True)
        for x in (*different, torch.tensor([1.0, NAN, 3.0, -INF, INF]))
        for k, dim, largest in ((2, -1, True), (3, 0, False), (0, 0, True))
    ]
    table["aten::kthvalue"] = [
        sample("aten::kthvalue", x, k, dim) for x in different for k, dim in ((1, 0), (4, -1))
    ]
    one_nan = torch.tensor([[1.0, NAN, 3.0, 0.5], [4.0, 2.0, 3.0, 1.0], [NAN, 2.5, 1.0, 7.0]])
    for name in "median nanmedian".split():
        table[f"aten::{name}"] = [sample(f"aten::{name}", x) for x in (*different, one_nan)]
        table[f"aten::{name}.dim"] = [
            sample(f"aten::{name}.dim", x, dim, keep)
            for x in (*different, one_nan)
            for dim, keep in ((0, False), (-1, True))
        ]
    return table


def norms() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    for name in "_softmax _log_softmax".split():
        op = f"aten::{name}"
        table[op] = [
            s
            for d in FLOATS
            for s in _loosely(
                [sample(op, x * 3, dim, False) for x in _tensors(d) for dim in (0, -1)]
                + [sample(op, plain(d), 0, False), sample(op, plain(d, 0, 3), 0, False)]
                + [sample(op, _with_nan(d), 1, False)],
                d,
            )
        ]
    layer = "aten::native_layer_norm"
    batch = "aten::_native_batch_norm_legit_no_training"
    table[layer] = [
        s
        for d in FLOATS
        for affine in (True, False)
        for s in _loosely(
            [
                sample(
                    layer,
                    plain(d, 2, 3, 8),
                    shape,
                    *([plain(d, *shape), plain(d, *shape, seed=1)] if affine else [None, None]),
                    1e-5,
                )
                for shape in ([8], [3, 8])
            ],
            d,
        )
    ]
    table[batch] = [
        Sample(batch, (x, weight, bias, mean, var, 0.1, 1e-3), {}, 1e-5)
        for x in (
            plain(torch.float32, 4, 3),
            plain(torch.float32, 2, 3, 4, 4),
            plain(torch.float32, 2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        )
        for mean, var in ((plain(torch.float32, 3), plain(torch.float32, 3, seed=1).abs()),)
        for weight, bias in ((plain(torch.float32, 3), plain(torch.float32, 3)), (None, None))
    ]
    return table


def products() -> dict[str, Samples]:
    table: dict[str, Samples] = {"aten::mm": [], "aten::bmm": [], "aten::addmm": []}
    for d in [*FLOATS, torch.int64, torch.int32, torch.uint8]:
        calls = [
            sample("aten::mm", plain(d, 3, 4), plain(d, 4, 5, seed=1)),
            sample("aten::mm", plain(d, 4, 3).t(), plain(d, 5, 4).t()),
            sample("aten::mm", plain(d, 0, 3), plain(d, 3, 4)),
            sample("aten::mm", plain(d, 2, 0), plain(d, 0, 3)),
            sample("aten::bmm", plain(d, 2, 3, 4), plain(d, 2, 5, 4).transpose(1, 2)),
            sample("aten::bmm", plain(d, 3, 2, 4).transpose(0, 1), plain(d, 2, 4, 1)),
            sample("aten::addmm", plain(d, 5), plain(d, 3, 4), plain(d, 4, 5)),
            sample(
                "aten::addmm", plain(d, 3, 5), plain(d, 3, 4), plain(d, 5, 4).t(), beta=2, alpha=3
            ),
        ]
        for s in _loosely(calls, d):
            table[s.op].append(s)
    ignored = torch.full((5,), NAN)
    table["aten::addmm"].append(
        sample(
            "aten::addmm", ignored, plain(torch.float32, 3, 4), plain(torch.float32, 4, 5), beta=0
        )
    )
    return table


def convolutions() -> dict[str, Samples]:
    op = "aten::convolution"
    one = torch.float32
    samples = []
    for rank, size in ((1, (9,)), (2, (9, 8)), (3, (5, 6, 5))):
        x = plain(one, 2, 4, *size)
        images = (
            [x]
            if rank == 1
            else [
                x,
                x.contiguous(
                    memory_format=torch.channels_last if rank == 2 else torch.channels_last_3d
                ),
            ]
        )
        for groups in (1, 2, 4):
            weight = plain(one, 8, 4 // groups, *([3] * rank))
            turned = (
                plain(one, 4, 6 // 2, *([3] * rank))
                if groups < 4
                else plain(one, 4, 2, *([3] * rank))
            )
            for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 2, 2)):
                geometry = [[stride] * rank, [padding] * rank, [dilation] * rank]
                for image in images if groups == 1 else images[:1]:
                    samples.append(
                        sample(
                            op, image, weight, plain(one, 8), *geometry, False, [0] * rank, groups
                        )
                    )
                    more = [stride - 1] * rank
                    samples.append(sample(op, image, turned, None, *geometry, True, more, groups))
    samples.append(
        sample(
            op,
            plain(one, 2, 4, 9, 8),
            plain(one, 8, 4, 3, 1),
            None,
            [1, 2],
            [1, 0],
            [2, 1],
            False,
            [0, 0],
            1,
        )
    )
    samples.append(
        sample(
            op,
            plain(one, 2, 4, 5, 5),
            plain(one, 4, 3, 1, 1),
            plain(one, 3),
            [1, 1],
            [0, 0],
            [1, 1],
            True,
            [0, 0],
            1,
        )
    )
    samples.append(
        sample(
            op,
            plain(one, 0, 4, 5, 5),
            plain(one, 2, 4, 3, 3),
            None,
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
        )
    )
    low = [
        sample(
            op,
            plain(d, 1, 3, 5, 5),
            plain(d, 2, 3, 3, 3),
            plain(d, 2),
            [1, 1],
            [1, 1],
            [1, 1],
            False,
            [0, 0],
            1,
        )
        for d in FLOATS
    ]
    return {op: _loosely(samples, one) + [s for x in low for s in _loosely([x], x.args[0].dtype)]}


def pools() -> dict[str, Samples]:
    max2, max3 = "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices"
    avg2, avg3 = "aten::avg_pool2d", "aten::avg_pool3d"
    table: dict[str, Samples] = {max2: [], max3: [], avg2: [], avg3: []}
    settings = [
        ([2, 2],),
        ([3, 2], [2, 1], [1, 1]),
        ([3, 3], [2, 2], [1, 1], [1, 1], True),
        ([2, 2], [1, 1], [0, 0], [2, 2]),
    ]
    for d in [*FLOATS, torch.int64, torch.int32]:
        x = plain(d, 2, 3, 10, 9)
        table[max2] += [sample(max2, x, *s) for s in settings]
        table[max2] += [sample(max2, plain(d, 3, 7, 6), [2, 2])]
    x = plain(torch.float32, 2, 3, 10, 9)
    x[0, 0, 3, 3], x[1, 1], x[1, 2] = NAN, 0, -INF
    table[max2] += [sample(max2, x, *s) for s in settings]
    table[max2] += [
        sample(max2, x.contiguous(memory_format=torch.channels_last), *s) for s in settings
    ]
    for d in FLOATS:
        y = plain(d, 2, 2, 5, 6, 5)
        table[max3] += [
            sample(max3, y, [2, 2, 2]),
            sample(max3, y, [3, 2, 3], [2, 1, 2], [1, 1, 1]),
        ]
        calls = [
            sample(op, image, [3, 3, 3][:rank], [2, 1, 2][:rank], padding, ceil, counts, divisor)
            for op, image, rank in ((avg2, plain(d, 2, 3, 9, 8), 2), (avg3, y, 3))
            if op == avg2 or d in (torch.float32, torch.float64)  # all that eager has
            for padding in ([0] * rank, [1] * rank)
            for ceil in (False, True)
            for counts in (False, True)
            for divisor in (None, 5)
        ]
        calls.append(
            sample(avg2, plain(d, 2, 3, 4, 4).contiguous(memory_format=torch.channels_last), [2, 2])
        )
        for s in _loosely(calls, d):
            table[s.op].append(s)
    return table


def factors() -> dict[str, Samples]:
    """Matrices below, at and above the size of a block; what has no factor; of complex numbers."""
    cholesky, lu = "aten::linalg_cholesky_ex", "aten::linalg_lu_factor_ex"
    solve, order = "aten::linalg_solve_triangular", "torch_pjrt::order_of_pivots"
    table: dict[str, Samples] = {cholesky: [], lu: [], solve: [], order: []}
    for dtype, digits in ((torch.float64, 1e-10), (torch.float32, 2e-4), (torch.complex128, 1e-10)):
        is_first = dtype is torch.float64
        squares = [(3, 3), (2, 1, 40, 40), (0, 0), (2, 0, 0)]
        for shape in [*squares, (1, 1), (32, 32), (70, 70), (0, 2, 2)] if is_first else squares:
            a = plain(dtype, *shape)
            positive = a @ a.mH + shape[-1] * torch.eye(shape[-1], dtype=dtype)
            for upper in (False, True):
                table[cholesky].append(Sample(cholesky, (positive,), {"upper": upper}, digits))
        sizes = [(3, 3), (2, 7, 5), (5, 7), (40, 70), (0, 3), (3, 0)]
        for shape in [*sizes, (70, 33), (64, 32), (32, 64), (2, 2, 33, 33)] if is_first else sizes:
            table[lu].append(Sample(lu, (plain(dtype, *shape),), {}, digits))
        a = plain(dtype, 3, 3) + 4 * torch.eye(3, dtype=dtype)
        for b in (plain(dtype, 2, 3, 3), plain(dtype, 3, 3).mT):
            for bits in range(8):
                flags = {"upper": bits % 2 == 1, "left": bits & 2 == 2, "unitriangular": bits > 3}
                table[solve].append(Sample(solve, (a, b), flags, digits))
        table[solve].append(sample(solve, a, plain(dtype, 3, 0), upper=True))
        table[solve].append(
            Sample(solve, (plain(dtype, 2, 1, 2, 2), b[:2]), {"upper": True}, digits)
        )
    # Singular, or with a tie of pivots.
    ones = torch.ones(40, 40, dtype=torch.float64)
    table[lu] += [sample(lu, ones), sample(lu, ones[:4, :4] * 0), sample(lu, ones[:3, :3] * NAN)]
    pivots = torch.tensor([[3, 2, 3], [1, 3, 4]], dtype=torch.int32)
    table[order] += [sample(order, pivots, size) for size in (4, 5)]
    table[order] += [sample(order, pivots[:0], 3), sample(order, pivots[:, :0], 3)]
    return table


TABLE: dict[str, Samples] = {
    op: samples
    for family in (reductions, scans_and_sorts, norms, products, convolutions, pools, factors)
    for op, samples in family().items()
}
