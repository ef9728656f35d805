"""Random programs on device="pjrt" do what they do on the CPU."""

from __future__ import annotations

import warnings

import pytest
import torch
from device.programs import Programs, state


def check(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted, got = Programs(seed, "cpu"), Programs(seed, "pjrt")
        wanted.run(12)
        got.run(12)
    assert got.log == wanted.log, f"seed {seed}"
    assert state(got) == state(wanted), f"seed {seed}: {wanted.log}"
    for k, (a, b) in enumerate(zip(got.tensors, wanted.tensors, strict=True)):
        # Denormal numbers, which a view with another dtype makes, may become 0.
        same = torch.isclose(a.cpu().double(), b.double(), rtol=0, atol=1e-37, equal_nan=True)
        assert bool(same.all()), f"seed {seed}, tensor {k}: {wanted.log}\n{a.cpu()}\n{b}"


@pytest.mark.parametrize("block", range(6))
def test_views_and_mutations(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        check(seed)


@pytest.mark.full
@pytest.mark.parametrize("block", range(100))
def test_many_views_and_mutations(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check(seed)
