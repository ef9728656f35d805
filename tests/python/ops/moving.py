"""Samples of the ops that move elements: views, rearrangement, indexing, scattering, creation."""

from __future__ import annotations

from typing import Any

import torch
from ops.compare import Sample, sample
from ops.inputs import ALL, FLOATS, INF, INTS, NAN, NUMBERS, SIGNED, layouts, plain

Samples = list[Sample]
F32 = torch.float32


def _shapes(op: str, *args: Any) -> Samples:
    """On a row-major, a permuted and a channels-last tensor of rank 4, and of three dtypes."""
    x = plain(F32, 2, 3, 4, 5)
    inputs = [
        x,
        plain(F32, 4, 2, 5, 3).permute(1, 3, 0, 2),
        x.contiguous(memory_format=torch.channels_last),
        plain(torch.bool, 2, 3, 4, 5),
        plain(torch.bfloat16, 2, 3, 4, 5),
    ]
    return [sample(op, x, *args) for x in inputs]


def views() -> dict[str, Samples]:
    row = plain(F32, 2, 3, 4, 5)
    view = "aten::view"
    wide = plain(F32, 2, 1, 4, 1)
    return {
        view: [sample(view, row, s) for s in ([6, 20], [-1], [2, 3, 2, 2, 5], [2, 3, 4, 5])]
        + [sample(view, plain(F32, 0, 3), [3, 0]), sample(view, plain(F32), [1, 1])],
        "aten::_unsafe_view": [sample("aten::_unsafe_view", row, [6, 20])],
        "aten::expand": [
            sample("aten::expand", wide, [2, 3, 4, 5]),
            sample("aten::expand", wide, [7, -1, 3, -1, -1]),
            sample("aten::expand", plain(F32), [2, 2]),
            sample("aten::expand", plain(F32, 3, 1).t(), [2, 3]),
        ],
        "aten::permute": [
            *_shapes("aten::permute", [0, -1, 1, 2]),
            sample("aten::permute", plain(F32), []),
        ],
        "aten::transpose.int": [
            *_shapes("aten::transpose.int", 1, -1),
            sample("aten::transpose.int", plain(F32), 0, -1),
        ],
        "aten::t": [sample("aten::t", x) for x in (plain(F32, 2, 3), plain(F32, 3), plain(F32))],
        "aten::select.int": [
            s for d, i in ((0, 1), (-1, -2), (2, 0)) for s in _shapes("aten::select.int", d, i)
        ],
        "aten::slice.Tensor": [
            s
            for args in ((0, 1), (1, -2, 100, 2), (-1, 1, -1, 3), (2, 3, 1), (3, None, 2))
            for s in _shapes("aten::slice.Tensor", *args)
        ],
        "aten::as_strided": [
            sample("aten::as_strided", row, [3, 4], [2, 5], 7),
            sample("aten::as_strided", plain(F32, 6, 4).t(), [2, 3], [1, 4], 2),
            sample("aten::as_strided", row, [2, 3, 2], [0, 20, 1]),
            sample("aten::as_strided", row, [0, 3], [3, 1]),
            # A transpose, a slice with steps, a diagonal, a select with an expand, windows.
            sample("aten::as_strided", plain(F32, 6, 4), [4, 6], [1, 4]),
            sample("aten::as_strided", plain(F32, 4, 6), [2, 2], [12, 4], 1),
            sample("aten::as_strided", plain(F32, 5, 5), [5], [6]),
            sample("aten::as_strided", plain(F32, 3, 4, 5), [2, 3, 5], [0, 20, 1], 10),
            sample("aten::as_strided", plain(F32, 10), [4, 3], [2, 1], 1),
            sample("aten::as_strided", plain(F32, 3, 4, 5), [3, 2, 4], [20, 5, 1], 6),
            sample("aten::as_strided", plain(F32, 7, 3), [3, 2], [6, 1], 4),
        ],
        "aten::as_strided_scatter": [
            sample("aten::as_strided_scatter", plain(F32, 4, 6), plain(F32, 6, 2), [6, 2], [1, 12]),
            sample("aten::as_strided_scatter", plain(F32, 5, 5), plain(F32, 5), [5], [6]),
            sample("aten::as_strided_scatter", plain(F32, 4, 6), plain(F32, 2, 2), [2, 2], [12, 4]),
            sample(
                "aten::as_strided_scatter", plain(F32, 7, 3), plain(F32, 3, 2), [3, 2], [6, 1], 4
            ),
            sample("aten::as_strided_scatter", row, plain(F32, 3, 4, seed=1), [3, 4], [20, 5], 7),
            sample("aten::as_strided_scatter", row, plain(F32, seed=1), [], [], 7),
        ],
        "aten::split.Tensor": _shapes("aten::split.Tensor", 2, -1),
        "aten::split_with_sizes": _shapes("aten::split_with_sizes", [1, 0, 3], 2),
        "aten::squeeze.dim": [sample("aten::squeeze.dim", wide, d) for d in (1, 0, -1)],
        "aten::squeeze.dims": [sample("aten::squeeze.dims", wide, d) for d in ([1, 3], [0, -1])],
        "aten::unsqueeze": [s for d in (0, 2, -1) for s in _shapes("aten::unsqueeze", d)],
        "aten::alias": [sample("aten::alias", row)],
        "aten::detach": [sample("aten::detach", row)],
        "aten::view.dtype": [
            sample("aten::view.dtype", plain(torch.int64, 2, 4), b)
            for b in (F32, torch.int16, torch.uint8, torch.bool, torch.float64)
        ]
        + [
            sample("aten::view.dtype", plain(a, 3, 8), b)
            for a in (torch.bool, torch.int8, torch.int16, torch.bfloat16)
            for b in (torch.int64, F32)
        ]
        + [
            sample("aten::view.dtype", plain(a, 3, 4).t(), b)
            for a, b in (
                (F32, torch.int32),
                (torch.int64, torch.float64),
                (torch.bfloat16, torch.int16),
                (torch.int8, torch.uint8),
            )
        ],
    }


def rearranged() -> dict[str, Samples]:
    pad, diagonal, scatter = "aten::constant_pad_nd", "aten::diagonal", "aten::slice_scatter"
    cat, unfold = "aten::cat", "aten::unfold"
    table = {
        "aten::flip": [s for d in ([0], [1, -1], []) for s in _shapes("aten::flip", d)]
        + [sample("aten::flip", plain(F32), [0])],
        "aten::repeat": [
            s for r in ([1, 2, 1, 3], [2, 1, 1, 2, 1]) for s in _shapes("aten::repeat", r)
        ]
        + [sample("aten::repeat", plain(F32), [3]), sample("aten::repeat", plain(F32, 2), [0])],
        pad: [
            s
            for p, v in (([1, 2], 0), ([-1, 0, 2, -1], 1), ([0, 0], 3))
            for s in _shapes(pad, p, v)
        ]
        + [
            sample(pad, plain(d, 3), [1, 1], v)
            for d, v in (
                (torch.int8, 7),
                (torch.uint8, 255),
                (torch.float64, -INF),
                (torch.float16, NAN),
            )
        ],
        diagonal: [
            s
            for a in ((0,), (1, 1, 2), (-2, -1, 0), (2, 3, 0), (-9, 0, 1))
            for s in _shapes(diagonal, *a)
        ],
        unfold: [s for a in ((2, 3, 1), (-1, 2, 2), (0, 2, 1)) for s in _shapes(unfold, *a)]
        + [
            sample(unfold, plain(F32, 7), 0, 3, 2),
            sample(unfold, plain(F32, 7), 0, 0, 3),
            sample(unfold, plain(F32), 0, 1, 1),
        ],
        cat: [
            sample(cat, [plain(F32, 2, 3), plain(F32, 2, 0), plain(F32, 2, 1)], -1),
            sample(cat, [plain(F32, 3, 2).t(), plain(F32, 0), plain(F32, 1, 3)], 0),
            sample(cat, [plain(torch.int8, 2), plain(torch.int64, 2), plain(torch.bfloat16, 1)], 0),
            sample(cat, [plain(torch.bool, 2), plain(torch.uint8, 2)]),
        ],
    }
    one = "aten::select_scatter"
    table[one] = [
        sample(one, x, plain(dtype, *shape, seed=1), dim, at)
        for x in (plain(F32, 4, 6, 2), plain(F32, 6, 2, 4).permute(2, 0, 1))
        for dtype in (F32, torch.int64)
        for shape, dim, at in (((6, 2), 0, 3), ((4, 2), -2, -6), ((4, 6), 2, 1))
    ]
    table[scatter] = [
        sample(scatter, plain(a, 4, 6, 2), plain(b, *shape, seed=1), *args)
        for a, b in (
            (F32, F32),
            (torch.int64, torch.int64),
            (torch.bfloat16, torch.bfloat16),
            (torch.bool, torch.bool),
        )
        for shape, args in (
            ((2, 6, 2), (0, 1, 3)),
            ((4, 2, 2), (1, -4, None, 2)),
            ((4, 3, 2), (1, 0, 100, 2)),
            ((4, 0, 2), (1, 3, 3)),
            ((4, 6, 2), (1,)),
            ((4, 6, 1), (-1, -1)),
        )
    ]
    return table


def _indices(size: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """From -size to size - 1."""
    generator = torch.Generator().manual_seed(3)
    return torch.randint(-size, size, shape, generator=generator).to(dtype)


def indexing() -> dict[str, Samples]:
    index, gather, select = "aten::index.Tensor", "aten::gather", "aten::index_select"
    embedding, search, bucketize = "aten::embedding", "aten::searchsorted", "aten::bucketize"
    samples: Samples = []
    for d in ALL:
        x = plain(d, 4, 5, 6)
        samples += [
            sample(index, x, [_indices(4, 3)]),
            sample(index, x, [None, _indices(5, 2, 2), _indices(6, 2)]),
        ]
    x = plain(F32, 6, 5, 4).permute(2, 1, 0)
    samples += [
        sample(index, x, [_indices(4, 3), None, _indices(6, 2, 1)]),
        sample(index, x, [None, None, _indices(6, 2, dtype=torch.int32)]),
        sample(index, x, [_indices(4)]),
        sample(index, x, [_indices(4, 0)]),
        sample(index, plain(F32, 3, 0), [_indices(3, 2)]),
        sample(index, x, [_indices(4, 2), _indices(5, 2), _indices(6, 2)]),
    ]
    first = _indices(4, 3).abs() % 4
    table = {
        index: samples,
        embedding: [
            sample(embedding, plain(d, 7, 3), i)
            for d in FLOATS
            for i in (
                torch.tensor([[0, 6], [3, 3]]),
                torch.tensor(2),
                torch.tensor([1], dtype=torch.int32),
                torch.zeros(0, 2, dtype=torch.int64),
            )
        ],
        gather: [
            sample(gather, plain(d, 4, 5), 0, torch.tensor([[0, 3, 1], [2, 2, 0]])) for d in ALL
        ]
        + [
            sample(gather, plain(F32, 5, 4).t(), -1, torch.tensor([[0, 4], [4, 1], [0, 0]])),
            sample(gather, plain(F32), 0, torch.tensor(0)),
            sample(gather, plain(F32, 3), 0, torch.tensor(2)),
            sample(gather, plain(F32, 3, 2), 0, torch.zeros(0, 2, dtype=torch.int64)),
        ],
        select: [sample(select, plain(d, 4, 5), dim, first) for d in ALL for dim in (0, -1)]
        + [
            sample(select, plain(F32, 5, 4).t(), 0, first.to(torch.int32)),
            sample(select, plain(F32), 0, torch.tensor([0])),
            sample(select, plain(F32, 3), 0, torch.tensor(1)),
            sample(select, plain(F32, 4, 2), 0, torch.zeros(0, dtype=torch.int64)),
        ],
    }
    edges = torch.tensor([-2.0, -1.0, 0.0, 0.0, 2.0])
    values = torch.tensor([[-3.0, -2.0, 0.0], [1.0, 2.0, 9.0], [INF, -INF, NAN]])
    rights = [{"right": r, "out_int32": o} for r in (False, True) for o in (False, True)]
    table[f"{bucketize}.Tensor"] = [
        sample(f"{bucketize}.Tensor", values, edges, **k) for k in rights
    ]
    table[f"{bucketize}.Tensor"] += [
        sample(f"{bucketize}.Tensor", values, edges[:n]) for n in (0, 1, 4)
    ]
    table[f"{bucketize}.Tensor"] += [
        sample(f"{bucketize}.Tensor", plain(torch.int64, 9), torch.tensor([-2, 0, 3]))
    ]
    table[f"{bucketize}.Scalar"] = [sample(f"{bucketize}.Scalar", v, edges) for v in (0.0, 5.0, -2)]
    rows = torch.stack([edges, edges + 1, edges * 2])
    table[f"{search}.Tensor"] = [
        sample(f"{search}.Tensor", s, values, **k) for s in (edges, rows) for k in rights
    ]
    table[f"{search}.Tensor"] += [sample(f"{search}.Tensor", edges, values, side="right")]
    sorters = [(torch.tensor([3, 0, 4, 1, 2]), edges), (torch.arange(5).flip(0).repeat(3, 1), rows)]
    for order, sequence in sorters:
        shuffled = torch.empty_like(sequence).scatter(-1, order, sequence)
        table[f"{search}.Tensor"] += [
            sample(f"{search}.Tensor", shuffled, values, sorter=order, right=r)
            for r in (False, True)
        ]
    table[f"{search}.Scalar"] = [sample(f"{search}.Scalar", edges, v) for v in (0.0, 5.0, -2)]
    return table


def scattering() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    two = torch.tensor([[0, 2, 0], [2, 2, 1]])
    for name in ("scatter.src", "scatter_add"):
        op = f"aten::{name}"
        table[op] = [sample(op, plain(d, 4, 5), 0, two, plain(d, 3, 4, seed=1)) for d in ALL]
        table[op] += [
            sample(op, plain(F32, 5, 4).t(), -1, two, plain(F32, 2, 3)),
            sample(op, plain(F32), 0, torch.tensor(0), plain(F32, seed=1)),
            sample(op, plain(F32, 3), 0, torch.tensor([1, 1, 1]), plain(F32, 3, seed=1)),
            sample(op, plain(F32, 3), 0, torch.zeros(0, dtype=torch.int64), plain(F32, 0)),
        ]
    table["aten::scatter.value"] = [
        sample("aten::scatter.value", plain(d, 4, 5), dim, two, v)
        for d in ALL
        for dim, v in ((0, 1), (1, 0))
    ]
    for reduce in ("add", "multiply"):
        op = "aten::scatter.reduce"
        table.setdefault(op, []).extend(
            sample(op, plain(d, 4, 5), 0, two, plain(d, 3, 4, seed=1), reduce=reduce)
            for d in NUMBERS
        )
        op = "aten::scatter.value_reduce"
        table.setdefault(op, []).extend(
            sample(op, plain(d, 4, 5), 0, two, 2, reduce=reduce) for d in NUMBERS
        )
    op, by_row = "aten::scatter_reduce.two", "aten::index_reduce"
    table[op], table[by_row] = [], []
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            table[op] += [
                sample(
                    op, plain(d, 4, 5), 0, two, plain(d, 3, 4, seed=1), reduce, include_self=include
                )
                for d in (F32, torch.float64, torch.bfloat16, *SIGNED)
            ]
            if reduce != "sum":
                rows = torch.tensor([0, 2, 0])
                table[by_row] += [
                    sample(
                        by_row,
                        plain(d, 4, 5),
                        0,
                        rows,
                        plain(d, 3, 5, seed=1),
                        reduce,
                        include_self=include,
                    )
                    for d in (F32, torch.int64)
                ]
    with_nan = torch.tensor([NAN, 1.0, 2.0, -INF])
    table[op] += [
        sample(op, with_nan, 0, torch.tensor([0, 1, 1, 2]), with_nan, r) for r in ("amax", "amin")
    ]
    put = "aten::index_put"
    table[put] = []
    rows = torch.tensor([0, -2, 0, 0, 2])
    for d in ALL:
        x = plain(d, 4, 3)
        table[put] += [
            sample(put, x, [rows], plain(d, 5, 3, seed=1), accumulate)
            for accumulate in (False, True)
        ]
        table[put].append(sample(put, x, [x > 0], plain(d)))
    table[put] += [
        sample(put, plain(F32, 3, 4).t(), [None, rows.abs()], plain(F32, 5), True),
        sample(put, plain(F32, 4, 2, 3), [rows, None, rows], plain(F32, 5, 2)),
        sample(put, plain(F32, 4, 3), [rows.view(5, 1), torch.tensor([0, 1])], plain(F32, 5, 2)),
        sample(put, plain(F32, 4, 3), [torch.zeros(0, dtype=torch.int64)], plain(F32)),
        sample(put, plain(F32, 2, 3, 4), [plain(torch.bool, 2, 3)], plain(F32, 4)),
    ]
    return table


def creation() -> dict[str, Samples]:
    dtypes = [{"dtype": d} for d in ALL]
    full, arange = "aten::full", "aten::arange.start_step"
    table = {
        full: [sample(full, [2, 3], v, **d) for d in dtypes for v in (0, 1)]
        + [sample(full, [2], v) for v in (7, 2.5, True)]
        + [sample(full, [], 3), sample(full, [0, 2], 3)],
        "aten::scalar_tensor": [
            sample("aten::scalar_tensor", v, **d) for d in dtypes for v in (0, 1)
        ],
        "aten::arange": [
            sample("aten::arange", 5, **d) for d in dtypes if d["dtype"] is not torch.bool
        ],
        arange: [sample(arange, 1, 10, 3, **d) for d in dtypes if d["dtype"] is not torch.bool]
        + [
            sample(arange, 0, 1, 0.1),
            sample(arange, 5, -5, -2),
            sample(arange, 0.5, 4),
            sample(arange, 2**40, 2**40 + 3),
        ],
        "aten::ones": [sample("aten::ones", [2, 3], **d) for d in dtypes],
        "aten::zeros": [sample("aten::zeros", [2, 3], **d) for d in dtypes],
    }
    for name, args in (("full_like", (3,)), ("ones_like", ()), ("zeros_like", ())):
        op = f"aten::{name}"
        table[op] = [sample(op, x, *args) for x in layouts(F32)] + [
            sample(op, plain(d, 2), *args) for d in INTS
        ]
        table[op] += [sample(op, plain(F32, 2), *args, dtype=torch.int8)]
    iota = {"dtype": torch.int64, "device": torch.device("cpu"), "requires_grad": False}
    table["prims::iota"] = [sample("prims::iota", 5, start=2, step=3, **iota)]
    for name, args in (
        ("aten::empty.memory_format", ([2, 3],)),
        ("aten::empty_permuted", ([2, 3], [1, 0])),
        ("aten::empty_strided", ([2, 3], [1, 2])),
        ("aten::new_empty_strided", (plain(F32), [2, 3], [1, 2])),
    ):
        table[name] = [Sample(name, args, d, has_values=False) for d in dtypes]
    return table


TABLE: dict[str, Samples] = {
    op: samples
    for family in (views, rearranged, indexing, scattering, creation)
    for op, samples in family().items()
}
