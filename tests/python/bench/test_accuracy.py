"""The float32 rule."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from torch_pjrt.bench import accuracy
from torch_pjrt.bench.accuracy import Check


def no_reference() -> Any:
    raise AssertionError("float64 must not be needed")


def check(actual: Any, expected: Any, exact: Any = None) -> Check:
    return accuracy.compare(actual, expected, no_reference if exact is None else lambda: exact)


def test_error_is_a_part_of_the_scale() -> None:
    want = torch.tensor([-200.0, 1.0])
    got = check(torch.tensor([-200.0, 1.015625]), want)
    assert got == Check(True, 0.015625 / 200.0, "scale")


def test_just_over_the_tolerance_fails() -> None:
    want = torch.tensor([1.0, 0.5])
    exact = want.double()
    assert check(want + torch.tensor([0.0, 0.9e-4]), want).passed
    failed = check(want + torch.tensor([0.0, 1.2e-4]), want, exact)
    assert not failed.passed
    assert failed.error == pytest.approx(1.2e-4, rel=1e-2)
    assert "float64" in failed.message


def test_twice_eagers_own_error_is_allowed() -> None:
    exact = torch.tensor([1.0], dtype=torch.float64)
    eager = torch.tensor([1.0 + 0.25])
    assert check(torch.tensor([1.0 - 0.5]), eager, exact) == Check(True, 0.6, "float64")
    assert not check(torch.tensor([1.0 - 0.501]), eager, exact).passed


def test_the_worst_output_decides() -> None:
    want = (torch.ones(2), torch.ones(3))
    got = check((torch.ones(2), torch.ones(3) + 2e-5), want)
    assert got.passed
    assert got.error == pytest.approx(2e-5, rel=1e-2)
    exact = tuple(value.double() for value in want)
    assert "output 1" in check((want[0], want[1] * 2), want, exact).message


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (torch.ones(2), (torch.ones(2),), "outputs are"),
        (torch.ones(2, 1), torch.ones(2), "[2, 1]"),
        (torch.ones(2).double(), torch.ones(2), "float64"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "integers"),
        (torch.tensor([math.nan, 1.0]), torch.tensor([1.0, 1.0]), "not finite"),
        (torch.tensor([1.0, 1.0]), torch.tensor([math.nan, 1.0]), "not finite"),
        (torch.tensor([-math.inf, 1.0]), torch.tensor([math.inf, 1.0]), "infinities"),
        (True, 1, "bool where eager has int"),
        (3, 4, "3 where eager has 4"),
        (None, torch.ones(1), "NoneType where eager has Tensor"),
    ],
)
def test_what_cannot_be_near(actual: Any, expected: Any, message: str) -> None:
    got = check(actual, expected)
    assert not got.passed
    assert got.error == math.inf
    assert message in got.message


def test_equal_special_values_pass() -> None:
    value = torch.tensor([math.nan, math.inf, -math.inf, 2.0])
    assert check(value.clone(), value) == Check(True, 0.0, "scale")
    assert check((torch.empty(0), 3), (torch.empty(0), 3)) == Check(True, 0.0, "scale")


def test_all_zero_output_must_be_matched_exactly() -> None:
    zero = torch.zeros(2)
    assert check(zero.clone(), zero).passed
    assert not check(zero + 1e-30, zero, zero.double()).passed


def test_complex_outputs_are_compared_as_complex() -> None:
    want = torch.tensor([3.0 + 4.0j])
    assert not check(want.conj().resolve_conj(), want, want.to(torch.complex128)).passed


def test_reference_that_is_not_finite_excuses_nothing() -> None:
    nan = torch.tensor([math.nan], dtype=torch.float64)
    assert check(torch.tensor([2.0]), torch.tensor([1.0]), nan).passed is False


def test_worst_prefers_failures_then_errors() -> None:
    small, large = Check(True, 1e-6, "scale"), Check(True, 1e-5, "scale")
    failed = Check(False, 1e-7, "", "why")
    assert accuracy.worst([small, large]) is large
    assert accuracy.worst([large, failed, small]) is failed


def test_in_float64_leaves_the_model_alone() -> None:
    model = torch.nn.Embedding(4, 3)
    with torch.no_grad():
        wide = accuracy.in_float64(model, (torch.tensor([1, 2]),))
    assert wide.dtype == torch.float64
    assert model.weight.dtype == torch.float32
    linear = torch.nn.Linear(2, 2)
    assert accuracy.in_float64(linear, (torch.ones(1, 2),)).dtype == torch.float64
