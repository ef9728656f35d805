"""Solutions, inverses and determinants in terms of triangular factors, which have rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_library = torch.library.Library("torch_pjrt", "FRAGMENT")
_library.define(
    "order_of_pivots(Tensor pivots, SymInt size) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


@torch.library.register_fake("torch_pjrt::order_of_pivots", lib=_library)
def _order_type(pivots: Tensor, size: int | torch.SymInt) -> Tensor:
    return pivots.new_empty((*pivots.shape[:-1], size), dtype=torch.int64)


@torch.library.impl(_library, "order_of_pivots", "CPU")
def _order(pivots: Tensor, size: int) -> Tensor:
    """For tracing alone, which computes what constants give."""
    order = torch.arange(size).repeat(*pivots.shape[:-1], 1)
    for k in range(pivots.shape[-1]):
        other = pivots[..., k : k + 1].to(torch.int64) - 1
        there, here = order.gather(-1, other), order[..., k : k + 1].clone()
        order = order.scatter(-1, other, here)
        order[..., k : k + 1] = there
    return order


def _rows(pivots: Tensor, size: int | torch.SymInt) -> Tensor:
    """Which row of A each row of L U is: [..., size]."""
    order: Tensor = torch.ops.torch_pjrt.order_of_pivots(pivots, size)
    return order


def _by_columns(t: Tensor) -> Tensor:
    """In the order of memory in which LAPACK has matrices."""
    return t.mT.contiguous().mT


def _solved(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    result: Tensor = aten.linalg_solve_triangular(
        a, b, upper=upper, left=left, unitriangular=unitriangular
    )
    return result


def _cholesky(a: Tensor, upper: bool = False) -> Tensor:
    factor, info = aten.linalg_cholesky_ex(a, upper=upper)
    aten._linalg_check_errors(info, "cholesky", is_matrix=a.dim() == 2)
    return factor


def _cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """x of A x = b for A = L L^H, or U^H U."""
    batch = torch.broadcast_shapes(b.shape[:-2], factor.shape[:-2])
    b = b.expand(*batch, *b.shape[-2:])
    lower = factor.mH if upper else factor
    x = _solved(lower.mH, _solved(lower, b, upper=False), upper=True)
    return _by_columns(x)


def _cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    n = factor.shape[-1]
    identity = torch.eye(n, dtype=factor.dtype).expand(factor.shape)
    return _cholesky_solve(identity, factor, upper)


def _triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    batch = torch.broadcast_shapes(b.shape[:-2], a.shape[:-2])
    a = a.expand(*batch, *a.shape[-2:])
    b = b.expand(*batch, *b.shape[-2:])
    flipped = a.mT if transpose else a
    x = _solved(flipped, b, upper=upper != transpose, unitriangular=unitriangular)
    return _by_columns(x), _by_columns(a.clone())


def _lu_solve(
    factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """x of A x = b, or of x A = b, for the factors of A."""
    x = _lu_solved(factors, pivots, b, left, adjoint)
    return _by_columns(x) if left else x.contiguous()


def _lu_solved(factors: Tensor, pivots: Tensor, b: Tensor, left: bool, adjoint: bool) -> Tensor:
    if not left:
        return _lu_solved(factors, pivots, b.mH, True, not adjoint).mH
    batch = torch.broadcast_shapes(b.shape[:-2], factors.shape[:-2])
    b = b.expand(*batch, *b.shape[-2:])
    order = _rows(pivots, factors.shape[-1])
    order = order.unsqueeze(-1).expand(*batch, order.shape[-1], b.shape[-1])
    if adjoint:
        y = _solved(factors.mH, b, upper=False)
        y = _solved(factors.mH, y, upper=True, unitriangular=True)
        return torch.zeros_like(y).scatter(-2, order, y)
    y = _solved(factors, b.gather(-2, order), upper=False, unitriangular=True)
    return _solved(factors, y, upper=True)


def _solve_ex(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, ...]:
    factors, pivots, info = aten.linalg_lu_factor_ex(a)
    if check_errors:
        aten._linalg_check_errors(info, "torch.linalg.solve_ex", is_matrix=a.dim() == 2)
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    rhs = b.unsqueeze(-1) if is_vector else b
    x = _lu_solve(factors, pivots, rhs, left=left)
    if is_vector:
        x = x.squeeze(-1)
        x = _by_columns(x) if x.dim() > 1 and left else x
    return x, factors, pivots, info


def _inv_ex(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, ...]:
    factors, pivots, info = aten.linalg_lu_factor_ex(a)
    if check_errors:
        aten._linalg_check_errors(info, "linalg.inv_ex", is_matrix=a.dim() == 2)
    return _lu_solve(factors, pivots, torch.eye(a.shape[-1], dtype=a.dtype)), info


def _sign_of_order(pivots: Tensor) -> Tensor:
    """1, or -1 for an odd number of swaps."""
    places = torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype)
    return 1 - 2 * ((pivots != places).sum(-1) % 2)


def _factored(a: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of A or of its transpose, whichever lies as LAPACK wants it, as in eager: the
    gradients' formulas ask which."""
    flips = a.is_contiguous() and not a.is_complex()
    factors, pivots, _ = aten.linalg_lu_factor_ex(a.mT if flips else a)
    return factors, pivots


def _det(a: Tensor) -> tuple[Tensor, ...]:
    factors, pivots = _factored(a)
    product = factors.diagonal(0, -2, -1).prod(-1)
    return product * _sign_of_order(pivots).to(a.dtype), factors, pivots


def _slogdet(a: Tensor) -> tuple[Tensor, ...]:
    factors, pivots = _factored(a)
    diagonal = factors.diagonal(0, -2, -1)
    sign = diagonal.sgn().prod(-1) * _sign_of_order(pivots).to(a.dtype)
    return sign, diagonal.abs().log().sum(-1), factors, pivots


def _lu_unpack(
    factors: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, ...]:
    """P, L and U; what isn't asked for is empty."""
    rows, columns = factors.shape[-2:]
    least = min(rows, columns)
    empty = factors.new_empty((0,))
    lower = upper = order = empty
    if unpack_data:
        lower = factors[..., :, :least].tril(-1)
        lower = (lower + torch.eye(rows, dtype=factors.dtype)[:, :least]).contiguous()
        upper = factors[..., :least, :].triu().contiguous()
    if unpack_pivots:
        order = _permutation(pivots, rows, factors.dtype)
    return order, lower, upper


def _permutation(pivots: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """P with A = P L U."""
    places = torch.arange(rows)
    return (_rows(pivots, rows).unsqueeze(-2) == places.unsqueeze(-1)).to(dtype)


def _lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, ...]:
    if not pivot:
        return NotImplemented
    factors, pivots, _ = aten.linalg_lu_factor_ex(a)
    return _lu_unpack(factors, pivots)


def _pinv(
    a: Tensor,
    *,
    atol: Tensor | None = None,
    rtol: Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:
    """By singular values, or by eigenvalues, of which the small ones count as 0."""
    if a.numel() == 0:
        return a.new_empty((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    real = a.real.dtype if a.is_complex() else a.dtype
    if rtol is None:
        rtol = torch.full((), torch.finfo(a.dtype).eps * max(a.shape[-2:]), dtype=real)
        rtol = rtol if atol is None else torch.where(atol > 0, 0.0, rtol)
    atol = torch.zeros((), dtype=real) if atol is None else atol
    if hermitian:
        values, left = torch.linalg.eigh(a)
        right, sizes = left, values.abs()
    else:
        left, values, rows = torch.linalg.svd(a, full_matrices=False)
        right, sizes = rows.mH, values
    least = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * sizes.amax(-1, keepdim=True))
    inverse = torch.where(sizes > least, values.reciprocal(), 0.0).to(a.dtype)
    return (right * inverse.unsqueeze(-2)) @ left.mH


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        aten._linalg_det.default: _det,
        aten._linalg_slogdet.default: _slogdet,
        aten._linalg_solve_ex.default: _solve_ex,
        aten.cholesky.default: _cholesky,
        aten.cholesky_inverse.default: _cholesky_inverse,
        aten.cholesky_solve.default: _cholesky_solve,
        aten.linalg_inv_ex.default: _inv_ex,
        aten.linalg_lu.default: _lu,
        aten.linalg_lu_solve.default: _lu_solve,
        # Also since torch's own is wrong for complex numbers where it runs below a mode.
        aten.linalg_pinv.atol_rtol_tensor: _pinv,
        aten.lu_unpack.default: _lu_unpack,
        aten.triangular_solve.default: _triangular_solve,
    }
