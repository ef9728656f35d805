"""CSV, JSON, atomic writing, and the report's text."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest

from torch_pjrt.bench import report, results
from torch_pjrt.bench.results import BackendResult, ModelResult, Run


def model(
    name: str, baseline: list[float], published: float | None, *entries: BackendResult
) -> ModelResult:
    return ModelResult(name, "tiny", 4, 20, published, list(entries), baseline)


@pytest.fixture
def run() -> Run:
    fast = BackendResult(
        "one", "passed", 2e-7, "scale", first_call_s=3.5, samples_s=[0.5, 0.25, 0.5]
    )
    wrong = BackendResult("two", "wrong", math.inf, message="not finite at other places")
    slow = BackendResult("one", "passed", 0.0, "scale", first_call_s=9.0, samples_s=[8.0])
    lost = BackendResult("two", "failed", message="the process was killed by SIGSEGV")
    return Run(
        mode="performance",
        backends=["one", "two"],
        options={"repeat": 3},
        environment={
            "versions": {"torch": "2.13.0"},
            "date": "2026-01-02T03:04:05+00:00",
            "processor": "A processor",
            "cores": 2,
            "threads": 1,
            "system": "Linux",
        },
        models=[
            model("quick", [1.0, 1.0, 2.0], 1.5, fast, wrong),
            model("plain", [1.0], 6.0, slow, lost),
        ],
    )


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_columns_and_units(run: Run) -> None:
    text = results.csv_text(run)
    assert text.splitlines()[0] == (
        "dev,name,batch_size,speedup,abs_latency,compilation_latency,backend"
    )
    assert list(rows(text)[0].values()) == ["cpu", "quick", "4", "2", "500", "3", "one"]
    assert list(rows(text)[1].values()) == ["cpu", "quick", "4", "", "", "", "two"]
    assert len(rows(text)) == 4


def test_csv_of_accuracy(run: Run) -> None:
    run.mode = "accuracy"
    first, second, *_ = rows(results.csv_text(run))
    assert first == {
        "dev": "cpu",
        "name": "quick",
        "batch_size": "4",
        "accuracy": "passed",
        "error": "2e-07",
        "backend": "one",
    }
    assert (second["accuracy"], second["error"]) == ("wrong", "inf")


def test_json_has_samples_and_no_nan(run: Run) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    record = json.loads(results.json_text(run), parse_constant=refuse)
    assert record["geomean"] == {"one": pytest.approx(math.sqrt(2.0 / 8.0)), "two": None}
    assert record["environment"]["versions"] == {"torch": "2.13.0"}
    first = record["models"][0]
    assert first["baseline_samples_s"] == [1.0, 1.0, 2.0]
    assert first["backends"][0]["samples_s"] == [0.5, 0.25, 0.5]
    assert first["backends"][0]["speedup"] == 2.0
    assert first["backends"][0]["compilation_s"] == 3.0
    assert first["backends"][1]["error"] is None
    assert first["backends"][1]["status"] == "wrong"


def test_failed_run(run: Run) -> None:
    assert run.failed
    for entry in run.models:
        entry.backends.pop()
    assert not run.failed


def test_fail_keeps_earlier_verdicts(run: Run) -> None:
    quick = run.models[0]
    quick.fail("gone")
    assert [entry.message for entry in quick.backends] == ["gone", "not finite at other places"]


def test_write_replaces_the_file(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("old, and longer than the new")
    results.write_atomically(file, "new")
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(source: str, target: Path) -> None:
        raise OSError("disk full")

    file = tmp_path / "out.csv"
    file.write_text("old")
    monkeypatch.setattr(results.os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        results.write_atomically(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_report_off_a_terminal_is_plain_markdown(run: Run) -> None:
    text = io.StringIO()
    run.models[0].backends[0].warnings.append("1 compiles while timed")
    report.print_report(run, text)
    lines = text.getvalue().splitlines()
    assert "\x1b" not in text.getvalue()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    assert cells[0][:4] == ["model", "batch", "eager ms", "one speed-up"]
    assert cells[0][-1] == "R1 once (GPU, published)"
    timed = ["2.000", "500", "3.00", "2.0e-07", "1 compiles while timed"]
    assert cells[2] == ["quick", "4", "1000", *timed, "WRONG", "-", "-", "inf", "-", "1.500"]
    assert cells[3][:4] == ["plain", "4", "1000", "0.125"]
    assert "quick, two: WRONG: not finite at other places" in lines
    assert "plain, two: FAILED: the process was killed by SIGSEGV" in lines
    assert lines[-2] == (
        "geomean one: 0.500 over 2 of 2 models (R1 once, published, over the same: 3.000)"
    )
    assert lines[-1] == "geomean two: nothing was timed"


def test_report_of_accuracy_has_no_times(run: Run) -> None:
    run.mode = "accuracy"
    run.interrupted = True
    text = io.StringIO()
    report.print_report(run, text)
    assert "geomean" not in text.getvalue()
    assert "eager ms" not in text.getvalue()
    assert "Interrupted" in text.getvalue()
    assert "| one result |" in text.getvalue()


def test_header_names_the_machine(run: Run) -> None:
    text = "\n".join(report.header(run))
    for part in ("torch 2.13.0", "A processor", "2 cores", "1 threads", "2026-01-02", "repeat 3"):
        assert part in text


def test_progress_off_a_terminal_is_a_line_per_stage() -> None:
    text = io.StringIO()
    with report.ProgressDisplay(["quick", "plain"], text) as display:
        display.show("plain", "timing", 1, 2)
        display.show("plain", "timing", 2, 2)
        display.show("plain", "done", 0, 0)
    assert text.getvalue() == "[2/2] plain: timing\n[2/2] plain: done\n"


def test_progress_on_a_terminal_is_a_bar() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    text = Terminal()
    with report.ProgressDisplay(["quick", "plain"], text) as display:
        display.show("plain", "timing", 1, 2)
        assert "plain: timing" in text.getvalue()
        assert "1/2" in text.getvalue()
