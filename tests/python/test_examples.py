"""The scripts in examples/ run, and show what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.plugin
@pytest.mark.parametrize("steps", [["16"], pytest.param([], marks=pytest.mark.full, id="as it is")])
def test_training_falls_by_both_ways(steps: list[str]) -> None:
    command = [sys.executable, str(EXAMPLES / "train.py"), *steps]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert run.returncode == 0, run.stderr
    rows = [line.split() for line in run.stdout.splitlines() if line[:5].strip().isdigit()]
    assert len(rows) == 16
    for losses in (rows[:8], rows[8:]):
        first, last = losses[0], losses[-1]
        for column in (1, 2):
            assert float(last[column]) < 0.8 * float(first[column])
        for row in losses:
            assert abs(float(row[1]) - float(row[2])) < 0.01
