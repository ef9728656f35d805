"""Samples of the ops that make complex numbers, take them apart, and conjugate or negate lazily.

Arithmetic on complex numbers is in test_complex.py.
"""

from __future__ import annotations

import torch
from ops.compare import Sample, sample
from ops.inputs import layouts, plain

Samples = list[Sample]
COMPLEX = (torch.complex64, torch.complex128)
REAL = (torch.float32, torch.float64)


def _complex(op: str) -> Samples:
    return [sample(op, x) for dtype in COMPLEX for x in layouts(dtype)]


def parts() -> dict[str, Samples]:
    pairs = [(plain(d, *s), plain(d, *s)) for d in REAL for s in ((2, 3), (), (0, 2))]
    broadcast = (plain(torch.float32, 2, 1), plain(torch.float32, 3))
    return {
        "aten::angle": [sample("aten::angle", plain(d, 2, 3)) for d in (*COMPLEX, *REAL)],
        **{op: [sample(op, *p) for p in (*pairs, broadcast)] for op in MADE_OF_TWO},
        "aten::view_as_real": _complex("aten::view_as_real"),
        "aten::view_as_complex": [
            sample("aten::view_as_complex", plain(d, *s)) for d in REAL for s in ((2, 3, 2), (2,))
        ],
    }


MADE_OF_TWO = ("aten::complex", "aten::polar")


def lazy() -> dict[str, Samples]:
    ops = ("_conj", "_conj_physical", "_neg_view")
    return {f"aten::{op}": _complex(f"aten::{op}") for op in ops}


FAMILIES = (parts, lazy)
TABLE: dict[str, Samples] = {op: s for family in FAMILIES for op, s in family().items()}
