"""Matrices that can't be factored raise eager's errors, and change no input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

SPD = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
INDEFINITE = torch.tensor([[4.0, 1.0, 0.5], [1.0, -3.0, 0.2], [0.5, 0.2, 2.0]])
SINGULAR = torch.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])

FUNCTIONS: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    "linalg.cholesky": (torch.linalg.cholesky, INDEFINITE),
    "upper": (lambda a: torch.linalg.cholesky(a, upper=True), INDEFINITE),
    "cholesky": (torch.cholesky, INDEFINITE),
    "inv": (torch.linalg.inv, SINGULAR),
    "inv_ex": (lambda a: torch.linalg.inv_ex(a, check_errors=True).inverse, SINGULAR),
    "inverse": (torch.inverse, SINGULAR),
    "solve": (lambda a: torch.linalg.solve(a, torch.ones(3, 2)), SINGULAR),
    "solve_ex": (
        lambda a: torch.linalg.solve_ex(a, torch.ones(3, 2), check_errors=True).result,
        SINGULAR,
    ),
    "lu_factor": (torch.linalg.lu_factor, SINGULAR),
    "matrix_power": (lambda a: torch.linalg.matrix_power(a, -2), SINGULAR),
    "tensorinv": (lambda a: torch.linalg.tensorinv(a.view(3, 3), ind=1), SINGULAR),
}


def compiled(function: Callable[..., Any], **options: str) -> Callable[..., Any]:
    return torch.compile(
        function, backend="pjrt", fullgraph=True, options={"fallback": "error", **options}
    )


def error_of(function: Callable[..., Any], *inputs: Tensor) -> tuple[type, str]:
    with pytest.raises(RuntimeError) as caught:
        function(*inputs)
    return caught.type, str(caught.value).split("\n")[0]


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize(
    ("name", "batched"),
    [(name, b) for name in FUNCTIONS for b in (False, True) if name != "tensorinv" or not b],
)
def test_errors_are_eagers(name: str, batched: bool) -> None:
    function, bad = FUNCTIONS[name]
    good = SPD
    if batched:
        good, bad = torch.stack([SPD] * 3), torch.stack([SPD, SPD, bad])
    fast = compiled(function)
    assert_close(fast(good), function(good))
    assert error_of(fast, bad) == error_of(function, bad)
    assert_close(fast(good), function(good))
    assert torch_pjrt.stats()["fallbacks"] == 0


def test_the_first_error_of_the_code_is_raised_and_no_input_changes() -> None:
    def f(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
        x.add_(1)
        inverse = torch.linalg.inv(a)
        x.mul_(2)
        return inverse @ torch.linalg.cholesky(b) + x

    fast = compiled(f)
    x = torch.ones(3, 3)
    for bad in ((SINGULAR, INDEFINITE), (SPD, INDEFINITE), (SINGULAR, SPD)):
        assert error_of(fast, *bad, x) == error_of(f, *bad, torch.ones(3, 3))
        assert torch.equal(x, torch.ones(3, 3))
    assert_close(fast(SPD, SPD, x), f(SPD, SPD, torch.ones(3, 3)))
    assert torch.equal(x, torch.full((3, 3), 4.0))


@pytest.mark.parametrize("function", [torch.linalg.cholesky, torch.linalg.inv])
def test_gradients(function: Callable[[Tensor], Tensor]) -> None:
    fast = compiled(function)
    grads = []
    for f in (function, fast):
        a = SPD.double().requires_grad_()
        (f(a) * torch.arange(9.0).view(3, 3)).sum().backward()
        grads.append(a.grad)
    assert_close(*grads)
    with pytest.raises(torch.linalg.LinAlgError):
        fast(
            INDEFINITE.double().requires_grad_()
            if function is torch.linalg.cholesky
            else SINGULAR.double().requires_grad_()
        )


def test_sizes_may_change() -> None:
    fast = torch.compile(torch.linalg.inv, backend="pjrt", dynamic=True, fullgraph=True)
    for n in (2, 5, 33):
        a = torch.randn(n, n, dtype=torch.float64) + 8 * torch.eye(n)
        assert_close(fast(a), torch.linalg.inv(a))
    assert torch_pjrt.stats()["captures"] == 1
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        fast(torch.zeros(4, 4, dtype=torch.float64))


def test_on_the_device() -> None:
    good, bad = SPD.to("pjrt"), INDEFINITE.to("pjrt")
    torch.pjrt.reset_host_ops()
    assert_close(torch.linalg.cholesky(good).cpu(), torch.linalg.cholesky(SPD))
    with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order 2"):
        torch.linalg.cholesky(bad).cpu()
    assert not torch.pjrt.host_ops()
    fast = compiled(torch.linalg.cholesky)
    assert_close(fast(good).cpu(), torch.linalg.cholesky(SPD))
    with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order 2"):
        fast(bad).cpu()
