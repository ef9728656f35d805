"""PyTorch's OpInfo database: no entry does worse than the record says."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from opinfo import table
from opinfo.entries import Entry, entries
from opinfo.sweep import What, Worker, resumed, state
from opinfo.trial import prepare, try_entry

pytestmark = pytest.mark.plugin

# A fixed sample for the normal run.
EVERY = 29
SHARDS = 16
WORKERS = max(1, min(4, len(os.sched_getaffinity(0))))
RESULTS = Path(__file__).parents[2] / "build" / "opinfo"


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, Entry]]:
    with warnings.catch_warnings():
        yield entries()


@pytest.mark.parametrize("key", list(entries())[::EVERY])
def test_a_sample_of_the_entries(key: str, known: dict[str, Entry]) -> None:
    with prepare():
        found = try_entry(known[key], "graph", ["float32", "bfloat16"], 2)
    row = table.row_of({"key": key, "found": found})
    assert all(cell.bad == 0 for cell in row.cells.values()), found
    record = table.load("graph").rows[key].cells.get("float32")
    if record is not None and record.passed == record.tried:
        assert row.cells["float32"].passed == row.cells["float32"].tried, found


def test_the_document_is_made_from_the_records() -> None:
    assert table.DOCS.read_text() == table.made_document(), "run tests/python/opinfo/table.py"


def test_the_records_say_of_no_entry_that_it_is_wrong() -> None:
    """Nor that it raises, but on the device, which has no sparse tensors and fewer dtypes."""
    for road in (road for road in table.ROADS if table.path(road).exists()):
        bad = {
            key: {
                dtype: str(cell)
                for dtype, cell in row.cells.items()
                if cell.wrong or (cell.bad and road != "device")
            }
            for key, row in table.load(road).rows.items()
        }
        assert not {key: cells for key, cells in bad.items() if cells}


@pytest.mark.full
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("shard", range(SHARDS), ids=lambda k: f"{k + 1}of{SHARDS}")
@pytest.mark.parametrize("road", [road for road in table.ROADS if table.path(road).exists()])
def test_no_entry_is_worse_than_its_record(road: str, shard: int) -> None:
    """A run that was stopped goes on where it was, as long as the code is the same."""
    record = table.load(road)
    file = RESULTS / state() / f"{road}_{shard}.jsonl"
    keys = list(record.rows)[shard::SHARDS]
    worse = []
    for answer in resumed(
        file, keys, What(road, limit=record.limit), workers=WORKERS, timeout_s=900
    ):
        key = answer["key"]
        worse += table.worse(key, table.row_of(answer), record.rows[key])
    assert not worse, "\n".join(worse)


def test_a_sweep_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sub" / "found.jsonl"
    asked: list[str] = []

    def ask(_: Worker, key: str) -> dict[str, str]:
        asked.append(key)
        return {"key": key, "error": "none"}

    monkeypatch.setattr(Worker, "ask", ask)
    what = What("graph")
    first = resumed(file, ["add", "sub"], what, workers=1, timeout_s=1)
    assert [answer["key"] for answer in first] == ["add", "sub"]
    again = resumed(file, ["sub", "div", "add"], what, workers=1, timeout_s=1)
    assert sorted(answer["key"] for answer in again) == ["add", "div", "sub"]
    assert asked == ["add", "sub", "div"]


def test_a_process_that_ends_is_a_failure_of_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(What("graph"), timeout_s=60)
    dead = subprocess.Popen(
        [sys.executable, "-c", "input(); import os; os.abort()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    monkeypatch.setattr(worker, "_process", dead)
    assert "ended with status" in worker.ask("add")["error"]


@pytest.mark.parametrize(
    ("new", "old", "is_worse"),
    [
        ("4/4", "4/4", False),
        ("3+1/4", "4/4", True),
        ("3/4", "3+1/4", True),
        ("2/2", "4/4", False),
        ("4/4", "3+1/4", False),
        ("0+4/4", "0/4", False),
        ("3/4!1", "3/4", True),
        ("3/4", "3/4!1", False),
    ],
)
def test_what_is_worse(new: str, old: str, is_worse: bool) -> None:
    rows = [table.Row({"float32": table.Cell.parse(text)}, ()) for text in (new, old)]
    assert bool(table.worse("add", *rows)) == is_worse


def test_a_dtype_that_is_no_longer_tried_is_worse() -> None:
    old = table.Row({"float32": table.Cell(2, 2, 0), "bool": table.Cell(2, 2, 0)}, ())
    new = table.Row({"float32": table.Cell(2, 2, 0)}, ())
    assert table.worse("add", new, old) and not table.worse("add", old, new)


def test_a_record_is_read_as_it_was_written() -> None:
    rows = {
        "add": table.Row({"float32": table.Cell(4, 3, 1), "bool": table.Cell(2, 2, 0)}, ("a", "b")),
        "sub": table.Row({}, (), "no answer in time"),
        "mul": table.Row({"float32": table.Cell(4, 2, 1, 1)}, (table.NO_PROGRAM,)),
    }
    for limit in (None, 4):
        record = table.Record(limit, rows)
        assert table.Record.parse(record.text()) == record
