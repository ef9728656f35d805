"""Ops that are written in others, against eager: counting, fractional pooling, linear algebra."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ops.compare import Sample, compile_and_run
from ops.inputs import INF, NAN, plain

import torch_pjrt

F32, F64 = torch.float32, torch.float64


def call(name: str, *args: Any, **kwargs: Any) -> Sample:
    return Sample(f"aten::{name}", args, kwargs)


def check(samples: list[Sample], tolerance: float = 1e-5) -> None:
    for s, got in zip(samples, compile_and_run(samples), strict=True):
        for mine, want in zip(got, s.run(), strict=True):
            torch.testing.assert_close(
                mine,
                want,
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
                msg=lambda m, s=s: f"{s}: {m}",
            )


def test_modes() -> None:
    tied = torch.tensor([[3, 1, 3, 1, 2], [5, 4, 3, 2, 1], [7, 7, 7, 0, 0]])
    samples = [
        call("mode", t, dim, keep)
        for t in (tied, tied.float())
        for dim in (0, 1, -2)
        for keep in (False, True)
    ]
    samples += [call("mode", torch.tensor(3.0)), call("mode", torch.tensor([True, False, True]))]
    samples += [call("mode", torch.tensor([[-0.0, 0.0, 1.0, INF, INF]]), 1)]
    check(samples)


def test_histograms() -> None:
    x = torch.randn(3000, generator=torch.Generator().manual_seed(0))
    samples = [
        call("histc", t, bins, low, high)
        for t in (x, x.double())
        for bins in (1, 10, 100)
        for low, high in ((0, 0), (-1, 1), (-0.3, 0.7), (5, 6))
    ]
    samples += [call("histc", torch.full((4,), 2.0), 5), call("histc", torch.empty(0), 5)]
    samples += [call("histc", torch.tensor([NAN, 0.5, 1.0, 0.0, -0.1, INF]), 4, 0, 1)]
    check(samples, 0)


def test_a_histogram_of_infinite_range_raises() -> None:
    f = torch.compile(lambda t: torch.histc(t, 4), backend="pjrt", fullgraph=True)
    with pytest.raises(RuntimeError, match="not finite"):
        f(torch.tensor([1.0, INF]))


def test_places_of_what_is_not_zero() -> None:
    x = torch.tensor([[0, 3, 0], [1, 0, -2]])
    samples = [
        call("nonzero_static", t, size=n, fill_value=fill)
        for t in (x, x.float(), x.bool(), x[:, :0], x[0], torch.tensor(1.0))
        for n, fill in ((0, -1), (2, -1), (3, 7), (5, -1))
    ]
    check(samples, 0)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances_of_pairs(p: float) -> None:
    x = plain(F64, 5, 3)
    x[3] = x[1]
    x[2, 1] = x[0, 1]
    distances = torch.nn.functional.pdist(x, p)
    samples = [call("_pdist_forward", x, p), call("_pdist_forward", x[:1], p)]
    samples += [call("_pdist_backward", plain(F64, 10), x, p, distances)]
    a, b = x[:3].unsqueeze(0), torch.stack([x[1:], x[1:] * 2])
    distances = torch.cdist(a, b, p)
    samples += [call("_cdist_backward", plain(F64, 2, 3, 4), a.expand(2, 3, 3), b, p, distances)]
    check(samples, 1e-9)


def test_gradients_of_masks_and_random_slopes() -> None:
    grad, mask = plain(F32, 3, 4), plain(torch.bool, 3, 4)
    samples = [
        call("masked_scatter_backward", grad, mask & on, [n])
        for on in (True, False)
        for n in (9, 12)
    ]
    samples += [call("masked_scatter_backward", grad, torch.ones_like(mask), [2, 6])]
    x = plain(F32, 3, 4)
    for training, lower, upper in ((True, 0.1, 0.3), (False, 0.1, 0.3), (True, 0.2, 0.2)):
        samples += [
            call("rrelu_with_noise_backward", grad, x, grad.abs(), lower, upper, training, False)
        ]
    check(samples)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling(rank: int) -> None:
    name = f"fractional_max_pool{rank}d"
    sizes, kernel, windows = [9, 7, 8][:rank], [3, 2, 2][:rank], [4, 5, 1][:rank]
    x = plain(F32, 2, 3, *sizes)
    numbers = torch.rand(2, 3, rank, generator=torch.Generator().manual_seed(1))
    samples = [
        call(name, x, kernel, windows, numbers),
        call(name, x[0], kernel, windows, numbers[:1]),
    ]
    samples += [call(name, x.double(), kernel, windows, numbers.double())]
    values, places = samples[0].run()
    samples += [call(f"{name}_backward", values, x, kernel, windows, places)]
    check(samples)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_sampling_of_volumes(corners: bool, padding: int) -> None:
    grid = plain(F32, 2, 3, 2, 2, 3)
    grid[0, 0, 0, 0, 0] = NAN if padding == 0 else 5.0
    samples = [
        call("grid_sampler_3d", plain(d, 2, 3, 4, 3, 5), grid.to(d), mode, padding, corners)
        for d in (F32, F64)
        for mode in (0, 1)
    ]
    check(samples)


@pytest.mark.parametrize("dtype", [F64, torch.complex128], ids=str)
def test_linear_algebra(dtype: torch.dtype) -> None:
    a = plain(dtype, 2, 4, 4) + 3 * torch.eye(4, dtype=dtype)
    b = plain(dtype, 2, 4, 3)
    triangle, positive = a[0].tril(), a[0] @ a[0].mH
    samples = []
    for m in (a, a.mT, a[:, :0, :0], a[0]):
        samples += [call("linalg_inv_ex", m), call("linalg_lu", m)]
        samples += [call(name, m) for name in ("_linalg_det", "_linalg_slogdet")]
    samples += [call("linalg_lu", plain(dtype, *shape)) for shape in ((3, 5), (2, 5, 3))]
    for m in (a, a.mT):
        samples += [call("_linalg_solve_ex", m, b), call("_linalg_solve_ex", m, b.mT, left=False)]
        samples += [call("_linalg_solve_ex", m, b[..., 0])]
    factors, pivots, _ = torch.linalg.lu_factor_ex(a)
    for adjoint in (False, True):
        for left, rhs in ((True, b), (False, b.mT), (True, b[0])):
            samples += [call("linalg_lu_solve", factors, pivots, rhs, left=left, adjoint=adjoint)]
    samples += [
        call("lu_unpack", factors, pivots, *asked) for asked in ((True, False), (False, True))
    ]
    for upper in (False, True):
        factor = torch.linalg.cholesky(positive, upper=upper)
        samples += [
            call("cholesky_inverse", factor, upper),
            call("cholesky_solve", b, factor, upper),
        ]
        for transpose in (False, True):
            for unit in (False, True):
                t = triangle.mT if upper else triangle
                samples += [call("triangular_solve", b, t, upper, transpose, unit)]
    check(samples, 1e-9)


def test_the_order_of_memory_of_solutions() -> None:
    a, b = torch.randn(4, 4) + 4 * torch.eye(4), torch.randn(4, 3)
    for s in (
        call("linalg_inv_ex", a),
        call("_linalg_solve_ex", a, b),
        call("cholesky_solve", b, a),
        call("linalg_lu", a[:3]),
    ):
        got, want = compile_and_run([s])[0], s.run()
        assert [t.stride() for t in got] == [t.clone().stride() for t in want]


def test_a_singular_matrix_tells_its_first_zero_pivot() -> None:
    a = torch.tensor([[4.0, 2.0, 1.0], [2.0, 1.0, 5.0], [1.0, 0.5, 3.0]])
    samples = [call("_linalg_det", a), call("linalg_lu_factor_ex", a)]
    check(samples)


def test_the_pseudoinverse_of_complex_numbers() -> None:
    a = plain(torch.complex64, 5, 3)
    compiled = torch.compile(torch.linalg.pinv, backend="pjrt")
    with pytest.warns(torch_pjrt.FallbackWarning):
        torch.testing.assert_close(compiled(a), torch.linalg.pinv(a), rtol=1e-4, atol=1e-5)


def test_parts_of_floats() -> None:
    ends = [0.0, -0.0, 1.0, -0.5, 0.75, 1e-30, -3e30, INF, -INF, NAN]
    values = torch.cat([torch.tensor(ends, dtype=F64), plain(F64, 40) * 1e3])
    dtypes = (F32, F64, torch.float16, torch.bfloat16)
    samples = [call("frexp.Tensor", t.to(dtype)) for dtype in dtypes for t in (values, values[:0])]
    for s, (mantissa, exponent) in zip(samples, compile_and_run(samples), strict=True):
        wanted, places = s.run()
        torch.testing.assert_close(mantissa, wanted, rtol=0, atol=0, equal_nan=True)
        is_finite = s.args[0].isfinite()  # eager leaves the others open
        torch.testing.assert_close(exponent[is_finite], places[is_finite])


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_resizing_with_antialiasing(kind: str, corners: bool) -> None:
    samples = []
    for size in ((3, 4), (9, 13), (6, 7), (1, 1), (2, 20)):
        for dtype in (F32, F64):
            x = plain(dtype, 2, 3, 6, 7)
            samples += [
                call(f"_upsample_{kind}2d_aa", t, size, corners)
                for t in (x, x.contiguous(memory_format=torch.channels_last))
            ]
        grad = plain(F64, 2, 3, *size)
        samples.append(call(f"_upsample_{kind}2d_aa_backward", grad, size, (2, 3, 6, 7), corners))
    x = plain(F64, 1, 2, 8, 8)
    samples.append(call(f"_upsample_{kind}2d_aa", x, (3, 5), corners, 0.4, 0.7))
    check(samples, 1e-4)
    for s, got in zip(samples, compile_and_run(samples), strict=True):
        if s.args[0].dtype == F64:
            torch.testing.assert_close(list(got), list(s.run()), rtol=1e-9, atol=1e-9)
        if 1 not in got[0].shape[2:]:
            assert [t.stride() for t in got] == [t.stride() for t in s.run()]
