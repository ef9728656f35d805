"""Tries all entries of the OpInfo database in processes of their own, and keeps what was found.

    ./dev python tests/python/opinfo/sweep.py --road graph --out build/opinfo/graph.jsonl

A line of the file is an entry. Entries that it has are not tried again, so a sweep that was stopped
goes on; a process that ends or hangs counts as a failure of its entry.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

HERE = Path(__file__).resolve().parent


def worker(road: str, dtypes: Sequence[str], limit: int | None) -> None:
    """Reads keys, a line each, and answers with what was found, as JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what ops print
    import torch
    from opinfo.entries import entries
    from opinfo.trial import prepare, try_entry

    torch.set_num_threads(1)
    known = entries()
    with prepare():
        for line in sys.stdin:
            key = line.rstrip("\n")
            found: dict[str, Any] = {"key": key}
            try:
                found["found"] = try_entry(known[key], road, dtypes, limit)
            except Exception as error:
                found["error"] = f"{type(error).__name__}: {error}"[:400]
            print(json.dumps(found), file=answers, flush=True)


@dataclass(frozen=True)
class What:
    """Which samples are tried, as in try_entry."""

    road: str
    dtypes: Sequence[str] = ()
    limit: int | None = None


class Worker:
    """A process that is replaced when it ends."""

    def __init__(self, what: What, timeout_s: float) -> None:
        self._options = ["--road", what.road, *(f"--dtype={dtype}" for dtype in what.dtypes)]
        if what.limit is not None:
            self._options.append(f"--limit={what.limit}")
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[str] | None = None

    def ask(self, key: str) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(key + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], self._timeout_s)
            line = process.stdout.readline() if ready else ""
        except BrokenPipeError:
            ready, line = [process.stdout], ""
        if line:
            return json.loads(line)
        self.stop()
        status = process.returncode
        why = f"the process ended with status {status}" if ready else "no answer in time"
        return {"key": key, "error": why}

    def _start(self) -> subprocess.Popen[str]:
        path = os.pathsep.join((str(HERE.parent), os.environ.get("PYTHONPATH", "")))
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", *self._options],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self._process

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def sweep(
    keys: list[str], what: What, *, workers: int, timeout_s: float
) -> Iterator[dict[str, Any]]:
    """What was found of each key, as it comes."""
    todo: Queue[str] = Queue()
    for key in keys:
        todo.put(key)
    found: Queue[dict[str, Any] | None] = Queue()

    def run() -> None:
        worker = Worker(what, timeout_s)
        try:
            while True:
                found.put(worker.ask(todo.get_nowait()))
        except Empty:
            pass
        finally:
            worker.stop()
            found.put(None)

    with ThreadPoolExecutor(workers) as pool:
        for _ in range(workers):
            pool.submit(run)
        ended = 0
        while ended < workers:
            answer = found.get()
            if answer is None:
                ended += 1
            else:
                yield answer


def resumed(
    path: Path | None, keys: list[str], what: What, *, workers: int, timeout_s: float
) -> Iterator[dict[str, Any]]:
    """The same, of which those that the file has aren't tried again; it gets the others."""
    known = [] if path is None or not path.exists() else path.read_text().splitlines()
    answers = {answer["key"]: answer for answer in map(json.loads, known)}
    yield from (answers[key] for key in keys if key in answers)
    rest = [key for key in keys if key not in answers]
    with tempfile.TemporaryDirectory(prefix="opinfo-") as cache:
        os.environ["TORCH_PJRT_CACHE_DIR"] = cache
        for answer in sweep(rest, what, workers=workers, timeout_s=timeout_s):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as out:
                    out.write(json.dumps(answer) + "\n")
            yield answer


def state() -> str:
    """A name for all that decides what is found: our code and the tests'."""
    files = [*HERE.glob("*.py"), *(HERE.parents[2] / "torch_pjrt").rglob("*.py")]
    files += (HERE.parents[2] / "torch_pjrt").glob("_C*.so")
    content = hashlib.sha256()
    for file in sorted(files):
        content.update(file.read_bytes())
    return content.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--road", default="graph", help="of opinfo.roads.ROADS")
    parser.add_argument(
        "--dtype", action="append", default=[], help="e.g. float32; all if left out"
    )
    parser.add_argument("--limit", type=int, help="so many samples of each dtype; all if left out")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=900, help="seconds for an entry")
    parser.add_argument("--only", action="append", help="an entry's key; all if left out")
    parser.add_argument("--shard", default="0/1", help="k/n: every n-th entry from the k-th")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args.road, args.dtype, args.limit)
    sys.path.insert(0, str(HERE.parent))
    from opinfo.entries import entries

    what = What(args.road, args.dtype, args.limit)
    keys = args.only or list(entries())
    shard, of = (int(number) for number in args.shard.split("/"))
    begin = time.monotonic()
    found = resumed(args.out, keys[shard::of], what, workers=args.workers, timeout_s=args.timeout)
    for count, answer in enumerate(found, 1):
        if not args.out:
            print(json.dumps(answer))
        seconds = time.monotonic() - begin
        print(f"{count}/{len(keys[shard::of])} {seconds:.0f} s {answer['key']}", file=sys.stderr)
    return None


if __name__ == "__main__":
    main()
