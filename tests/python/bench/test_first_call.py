"""`bench --first-call`."""

from __future__ import annotations

import pytest

from torch_pjrt.bench import cli, first_call
from torch_pjrt.bench.models.registry import MODELS

pytestmark = pytest.mark.plugin

RECORDS = {
    "do_nothing": {"first_s": 2.0, "right": True},
    "pjrt": {"first_s": 3.0, "right": True},
    "inductor": {"first_s": 12.0, "right": True},
}


def test_row() -> None:
    row = first_call.row(MODELS["mlp_3_layers"], 4, RECORDS)
    assert row == ["mlp_3_layers", "4", "2.00", "3.00", "12.00", "0.100", "passed"]
    wrong = {**RECORDS, "pjrt": {"first_s": 3.0, "right": False}}
    assert first_call.row(MODELS["mlp_3_layers"], 4, wrong)[-1] == "WRONG: pjrt"


def test_it_has_backends_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--first-call", "--backend", "pjrt"])
    assert "has backends of its own" in capsys.readouterr().err


@pytest.mark.full
def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--first-call", "--only", "mlp_3_layers"]) == 0
    assert "geomean ratio" in capsys.readouterr().out
