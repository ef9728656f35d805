"""Counts the instructions of a call in C++, and fails above a bound: `call_cost.py PROGRAM`.

A call is aten::call and all below it, the plugin left out: collection starts and stops at each
entry and return of either. The first calls, which compile, don't count.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Inputs of the program -> instructions that a warm call may take.
BOUNDS = {1: 7_100, 7: 8_300, 201: 61_000}
# A call with a symbolic size takes at most this much of a call without, however many sizes are
# known; and the numbers of sizes to try.
DYNAMIC_BOUND = 1.2
KNOWN_SHAPES = (1, 1000)
CALLS = 100
BEGIN = "*::begin_to_count()"
TOGGLES = ("torch_pjrt::aten::call(*", "*torch_pjrt::fake::Table::*entry<*")


def command(program: str, inputs: int, shapes: int, out: Path) -> list[str]:
    toggles = [f"--toggle-collect={pattern}" for pattern in TOGGLES]
    options = ["--tool=callgrind", "--collect-atstart=no", f"--zero-before={BEGIN}"]
    options += ["--separate-threads=yes", f"--callgrind-out-file={out}", *toggles]
    return ["valgrind", *options, program, *map(str, (inputs, CALLS, shapes))]


def per_call(program: str, inputs: int, shapes: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        done = subprocess.run(
            command(program, inputs, shapes, out), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"{program} ended with {done.returncode}:\n{done.stderr}")
        of_main_thread = out.with_name(out.name + "-01").read_text()  # others may still compile
        found = re.search(r"^(?:summary|totals): (\d+)$", of_main_thread, re.MULTILINE)
    if not found:
        raise SystemExit("callgrind wrote no sum")
    return int(found[1]) / CALLS


def main() -> int:
    program = sys.argv[1]
    if not shutil.which("valgrind"):
        example = shlex.join(command(program, 7, 0, Path("callgrind.out")))
        print(f"this test needs valgrind (Debian: apt-get install valgrind); it runs\n{example}")
        return 1
    failed = 0
    for inputs, bound in BOUNDS.items():
        static = per_call(program, inputs, 0)
        print(f"{inputs} inputs: {static:.0f} instructions per call, at most {bound}")
        # Far too few would mean that the functions have other names now.
        failed |= not 500 < static <= bound
        for shapes in KNOWN_SHAPES:
            ratio = per_call(program, inputs, shapes) / static
            print(f"  {shapes} known shapes: {ratio:.3f} of that, at most {DYNAMIC_BOUND}")
            failed |= not 0.5 < ratio <= DYNAMIC_BOUND
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
