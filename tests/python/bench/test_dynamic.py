"""`bench --dynamic-shapes`."""

from __future__ import annotations

from typing import Any

import pytest

from torch_pjrt.bench import cli, dynamic
from torch_pjrt.bench.models.registry import MODELS

pytestmark = pytest.mark.plugin


def records(**changes: Any) -> dict[str, Any]:
    counts = {"captures": 1, "compiles": 3, "dynamo_graphs": 1}
    cold = {"first_s": 6.0, "known_s": 0.002, "counts": counts, "wrong": []}
    again = {"disk_hits": 3, "compiles": 0, "lowerings": 0}
    restart = {**cold, "imports_s": 1.0, "first_s": 2.0, "loads_s": 0.5, "counts": again, **changes}
    peer = {"imports_s": 1.0, "capture_s": 1.0}
    return {
        "cold": cold,
        "restart": restart,
        "peer": peer,
        "load": {"imports_s": 1.0, "first_s": 0.5, "one_s": 0.25, "wrong": []},
        "host": {"static_s": 1e-5, "dynamic_s": 1.1e-5},
    }


def cells(found: dict[str, Any], backend: str = "pjrt") -> dict[str, str]:
    row = dynamic.row(MODELS["mlp_3_layers"], backend, 3, found)
    return dict(zip(dynamic.COLUMNS, row, strict=True))


def test_row() -> None:
    row = cells(records())
    assert row["cold s"] == "6.00"
    assert row["restart s"] == "3.00"
    assert row["restart / peer"] == "1.20"
    assert (row["load() s"], row["load() / peer"]) == ("1.50", "1.20")
    assert row["known ms"] == "2.00"
    assert row["lookup"] == "1.10"
    assert (row["captures"], row["programs"], row["disk hits"]) == ("1", "3", "3")
    assert row["result"] == "passed"


def test_row_of_another_backend_and_of_faults() -> None:
    assert cells({"cold": records()["cold"]}, "inductor")["restart s"] == "-"
    assert cells(records(wrong=[1]))["result"] == "WRONG at sizes [1]"
    counts = {"disk_hits": 2, "compiles": 1, "lowerings": 1}
    assert cells(records(counts=counts))["disk hits"] == "2, 1 compiles, 1 lowerings"


def test_usage() -> None:
    for words in ("--performance --shapes 3", "--dynamic-shapes --only BERT_pytorch --shapes 33"):
        with pytest.raises(SystemExit):
            cli.main(words.split())


@pytest.mark.full
def test_a_small_model(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main("--dynamic-shapes --only mlp_3_layers --shapes 4".split()) == 0
    (row,) = [line for line in capfd.readouterr().out.splitlines() if "| mlp_3_layers" in line]
    cells = [cell.strip() for cell in row.strip("| ").split("|")]
    named = dict(zip(dynamic.COLUMNS, cells, strict=True))
    assert (named["captures"], named["programs"], named["disk hits"]) == ("1", "4", "4")
    assert named["result"] == "passed"
