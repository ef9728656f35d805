"""What sweeps found, as a record that later sweeps are compared with, and as docs/ops.md.

    ./dev python tests/python/opinfo/table.py --road graph build/opinfo/graph.jsonl

takes the results of a sweep into the record of its road and writes docs/ops.md anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[2] / "docs" / "ops.md"
ROADS = {
    "graph": "forward, from what AOTAutograd makes of the op",
    "backward": "forward and backward, likewise",
    "compile": "the first float32 sample, by torch.compile",
    "device": 'on `device="pjrt"`, where a fallback is an op that ran on the CPU',
    "device_backward": "forward and backward there",
}


NO_PROGRAM = "no_program"


@dataclass(frozen=True)
class Cell:
    """Samples of one dtype. `passed`: right, and nothing ran in eager; `fallback`: right, with ops
    in eager; `wrong`: not what eager gives. The others raise."""

    tried: int
    passed: int
    fallback: int
    wrong: int = 0

    @property
    def bad(self) -> int:
        return self.tried - self.passed - self.fallback

    def __str__(self) -> str:
        """E.g. "3/4", "3+1/4" where one of the four has fallbacks, "3/4!1" where one is wrong."""
        fallback = f"+{self.fallback}" if self.fallback else ""
        return f"{self.passed}{fallback}/{self.tried}{f'!{self.wrong}' if self.wrong else ''}"

    @staticmethod
    def parse(text: str) -> Cell:
        right, _, rest = text.partition("/")
        passed, _, fallback = right.partition("+")
        tried, _, wrong = rest.partition("!")
        return Cell(int(tried), int(passed), int(fallback or 0), int(wrong or 0))

    def is_worse_than(self, old: Cell) -> bool:
        if self.bad > old.bad or self.wrong > old.wrong:
            return True
        return self.passed * old.tried < old.passed * self.tried


@dataclass(frozen=True)
class Row:
    """An entry. `ops`: what ran in eager; NO_PROGRAM where nothing was executed for the float32
    samples that passed. `error`: what kept it from being tried, or ""."""

    cells: dict[str, Cell]
    ops: tuple[str, ...]
    error: str = ""

    def line(self, key: str) -> str:
        cells = " ".join(f"{dtype}={cell}" for dtype, cell in self.cells.items())
        return "\t".join((key, cells, " ".join(self.ops), self.error)).rstrip("\t")

    def is_whole(self, dtype: str) -> bool:
        """Whether all of its samples passed, in programs."""
        cell = self.cells.get(dtype)
        return cell is not None and cell.passed == cell.tried and NO_PROGRAM not in self.ops


@dataclass
class Record:
    """The entries of one road. `limit`: how many samples of a dtype were tried; None for all."""

    limit: int | None
    rows: dict[str, Row]

    def text(self) -> str:
        lines = [f"# limit {self.limit or 'none'}"]
        lines += [row.line(key) for key, row in self.rows.items()]
        return "\n".join(lines) + "\n"

    @staticmethod
    def parse(text: str) -> Record:
        head, *lines = text.splitlines()
        word = head.rsplit(" ", 1)[1]
        rows = {}
        for line in lines:
            key, cells, ops, error = (line.split("\t") + [""] * 3)[:4]
            parts = (cell.rpartition("=") for cell in cells.split())
            parsed = {dtype: Cell.parse(cell) for dtype, _, cell in parts}
            rows[key] = Row(parsed, tuple(ops.split()), error)
        return Record(None if word == "none" else int(word), rows)


def path(road: str) -> Path:
    return HERE / f"record_{road}.tsv"


def load(road: str) -> Record:
    return Record.parse(path(road).read_text())


def row_of(answer: dict[str, Any]) -> Row:
    """Of a sweep's answer for one entry."""
    if "error" in answer:
        return Row({}, (), " ".join(answer["error"].split())[:80])
    cells, ops = {}, Counter[str]()
    for dtype, tally in answer["found"].items():
        if tally["tried"]:
            counts = (tally[what] for what in ("tried", "passed", "fallback", "wrong"))
            cells[dtype] = Cell(*counts)
        ops.update(tally["fallbacks"])
    names = [op.replace(" ", "_") for op, _ in ops.most_common()]
    first = answer["found"].get("float32")
    if first is not None and first["passed"] and not first["executions"]:
        names.append(NO_PROGRAM)
    return Row(cells, tuple(names))


def worse(key: str, new: Row, old: Row) -> list[str]:
    """What is worse than it was, a line each."""
    if new.error and not old.error:
        return [f"{key}: {new.error}"]
    found = []
    for dtype, before in old.cells.items():
        cell = new.cells.get(dtype)
        if cell is None or cell.is_worse_than(before):
            found.append(f"{key}, {dtype}: {cell or 'nothing'}, and the record says {before}")
    return found


# --- docs/ops.md

SHORT = {
    "float32": "f32",
    "int64": "i64",
    "bool": "bool",
    "bfloat16": "bf16",
    "float16": "f16",
    "float64": "f64",
    "complex64": "c64",
}


def other_dtypes(record: Record) -> str:
    """Of all samples that aren't of float32; "" if there are none."""
    cells = [
        cell
        for row in record.rows.values()
        for dtype, cell in row.cells.items()
        if dtype != "float32"
    ]
    if not cells:
        return ""
    tried, passed, fallback, wrong = (
        sum(getattr(cell, what) for cell in cells)
        for what in ("tried", "passed", "fallback", "wrong")
    )
    return (
        f" Of {tried} samples in other dtypes {passed} run with no fallback, {fallback} more are "
        f"right with one, {tried - passed - fallback - wrong} raise, {wrong} are wrong."
    )


# Roads that have a column, of float32.
FURTHER = {"backward": "backward", "device": "device", "device_backward": "its backward"}


def how(row: Row, has_rule: bool) -> str:
    passed = sum(cell.passed for cell in row.cells.values())
    fallback = sum(cell.fallback for cell in row.cells.values())
    if row.error or not (passed or fallback):
        return "fails"
    if not passed:
        return "graph break" if row.ops == ("graph_break",) else "fallback"
    if NO_PROGRAM in row.ops:
        return "no program"
    name = "rule" if has_rule else "decomposed"
    return f"{name}, fallback" if fallback else name


def summary(record: Record, dtype: str) -> str:
    rows = [row for row in record.rows.values() if dtype in row.cells]
    broken = sum(1 for row in record.rows.values() if row.error)
    whole = sum(row.is_whole(dtype) for row in rows)
    right = sum(row.cells[dtype].bad == 0 for row in rows)
    idle = sum(row.cells[dtype].bad == 0 and NO_PROGRAM in row.ops for row in rows)
    wrong = sum(row.cells[dtype].wrong > 0 for row in rows)
    text = (
        f"{whole} of {len(rows) + broken} entries run every sample with no fallback and no graph "
        f"break; {right - whole - idle} more are right with one; "
        f"{len(rows) - right - wrong + broken} have a sample that raises, {wrong} one that is wrong"
    )
    return f"{text}; {idle} more execute nothing" if idle else text


# Why an entry isn't compiled, or not with each of its samples: by what it is or what runs in eager.
_FACTORS = ("linalg", "_linalg", "geqrf", "ormqr", "cholesky")
_BY_VALUES = ("_local_scalar_dense", "masked_select", "nonzero", "_unique", "unique", "graph_break")
_BY_VALUES += ("repeat_interleave", "searchsorted", "index_put", "index.Tensor", "resize")


def reason(key: str, row: Row) -> str:
    ops = tuple(op.replace("aten::", "") for op in row.ops)
    if "sparse" in key:
        return "sparse tensors"
    if key.startswith("linalg.") or any(op.startswith(_FACTORS) for op in ops):
        return "factorisations, and what is made of them"
    if any(op.startswith(_BY_VALUES) for op in ops):
        return "sizes, or a branch, by the values of a tensor"
    return "special functions, custom ops, and dtypes that programs don't have"


def left_over(record: Record, listed: set[str], dtype: str = "float32") -> list[str]:
    """The entries that aren't listed yet and have a sample with a fallback, by the reason."""
    groups: dict[str, list[str]] = {}
    for key, row in record.rows.items():
        cell = row.cells.get(dtype)
        if key not in listed and cell is not None and cell.passed < cell.tried:
            groups.setdefault(reason(key, row), []).append(f"`{key}`")
            listed.add(key)
    return [f"- {why} ({len(keys)}): {', '.join(keys)}" for why, keys in sorted(groups.items())]


def document(records: dict[str, Record], rules: Iterable[str], names: dict[str, str]) -> str:
    """docs/ops.md. `rules`: the overloads with a rule; `names`: the ATen name of each entry."""
    with_rule = {op.removeprefix("aten::").partition(".")[0] for op in rules}
    lines = [
        "# Operators",
        "",
        "Made by `tests/python/opinfo/table.py` from the records beside it: what the entries of",
        "PyTorch's OpInfo database do, compared with eager on the CPU in values, dtype, shape and",
        "strides. `./dev test --full` tries them again, and fails where one got worse.",
        "",
    ]
    for road, record in records.items():
        limit = "every sample" if record.limit is None else f"up to {record.limit} samples a dtype"
        lines += [f"- **{road}** ({ROADS[road]}; {limit}): {summary(record, 'float32')}."]
        lines[-1] += other_dtypes(record)
    listed: set[str] = set()
    for road in (road for road in ("graph", "backward", "device") if road in records):
        others = " beside these" if listed else ""
        lines += ["", f"What has a float32 sample of which eager runs a part, {road}{others}:", ""]
        lines += left_over(records[road], listed)
    lines += [
        "",
        "How: *rule*, the op itself is lowered; *decomposed*, into ops that are; *fallback*, eager",
        "runs it or a part of it between [compiled pieces](fallback.md); *graph break*, Dynamo",
        "leaves it to eager; *fails*, an error that eager doesn't raise. A number is the samples",
        "that passed with nothing in eager, `+` those that passed with a fallback, of those tried:",
        "of each dtype, then of float32 with its backward, on the device, and with its backward",
        "there. Of the dtypes other than float32 three samples an entry are tried.",
        "",
        "| entry | how | " + " | ".join([*SHORT.values(), *FURTHER.values()]) + " | in eager |",
        "| --- | --- | " + "--- | " * (len(SHORT) + len(FURTHER)) + "--- |",
    ]
    for key, row in records["graph"].rows.items():
        cells = [str(row.cells.get(dtype, "")) for dtype in SHORT]
        for road in FURTHER:
            other = records[road].rows.get(key) if road in records else None
            cells.append(str(other.cells.get("float32", "")) if other else "")
        ops = ", ".join(f"`{op.replace('aten::', '')}`" for op in row.ops[:3])
        kind = how(row, names.get(key, "") in with_rule)
        lines.append(f"| {' | '.join([f'`{key}`', kind, *cells, ops or row.error])} |")
    return "\n".join(lines) + "\n"


def write_document() -> None:
    DOCS.write_text(made_document())


def made_document() -> str:
    from opinfo.entries import entries

    from torch_pjrt import _C

    records = {road: load(road) for road in ROADS if path(road).exists()}
    names = {key: entry.aten_name for key, entry in entries().items()}
    return document(records, _C.ops(), names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--road", choices=list(ROADS), required=True)
    parser.add_argument("--limit", type=int, help="the sweep's")
    parser.add_argument("results", type=Path, nargs="+", help="a sweep's; later ones add dtypes")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    # Entries that weren't tried again stay as they were.
    rows = load(args.road).rows if path(args.road).exists() else {}
    for file in args.results:
        for line in file.read_text().splitlines():
            answer = json.loads(line)
            new, old = row_of(answer), rows.get(answer["key"], Row({}, ()))
            is_anew = old.cells.keys() <= new.cells.keys()
            ops = new.ops if is_anew else tuple(dict.fromkeys(old.ops + new.ops))
            rows[answer["key"]] = Row(old.cells | new.cells, ops, new.error)
    import torch  # noqa: F401
    from opinfo.entries import entries

    ordered = {key: rows[key] for key in entries() if key in rows}
    path(args.road).write_text(Record(args.limit, ordered).text())
    write_document()


if __name__ == "__main__":
    main()
