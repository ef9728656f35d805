#!/usr/bin/env python3
"""Checks that includes point one way, and the few rules about where a thing may stand.

Run as ./dev lint does: tools/check_layers.py [ROOT]. Prints a line per fault; exits with 1 if any.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Layer of src/ -> the layers that it stands on. It may also include what those stand on.
LAYERS = {
    "base": [],
    "graph": ["base"],
    "hlo": ["graph"],
    "lower": ["hlo"],
    "cache": ["base"],
    "pjrt": ["base"],
    "fake_plugin": ["base"],
    "run": ["pjrt"],
    "compile": ["lower", "cache", "run"],
    "serve": ["compile"],
    "torch": ["compile"],
    "python": ["serve", "torch"],
}
# Others' headers -> the layers that may include them.
OUTSIDE = {
    r"(torch|ATen|c10|caffe2)/": {"torch"},
    r"(Python\.h$|nanobind/|pybind11/)": {"python"},
    r"(.*/)?pjrt_c_api": {"pjrt", "fake_plugin"},
}
# The one unit that may include both PyTorch's headers and Python's.
BOTH = "src/python/tensor_cast.cc"
CONFIG = "src/base/config.cc"
MAX_LINES = 600
VAGUE = re.compile(r"(^|_)(utils?|helpers?|common|misc|basic)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def below(layer: str) -> set[str]:
    """The layer itself and all that it stands on."""
    return {layer}.union(*(below(other) for other in LAYERS[layer]))


def source_faults(root: Path, path: Path) -> Iterator[str]:
    name = path.relative_to(root).as_posix()
    layer = path.relative_to(root / "src").parts[0]
    if layer not in LAYERS:
        yield f"{name}: src/{layer} is no layer; tools/check_layers.py lists them"
        return
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        ours, outside = match.groups()
        place = f"{name}:{text.count(chr(10), 0, match.start(match.lastindex or 0)) + 1}"
        if ours is not None and (root / "src" / ours).is_file():
            other = ours.split("/")[0]
            if other not in below(layer):
                allowed = ", ".join(sorted(below(layer)))
                yield f'{place}: includes "{ours}", but {layer} may use only {allowed}'
            continue
        header = ours or outside
        for pattern, layers in OUTSIDE.items():
            if re.match(pattern, header) and layer not in layers and name != BOTH:
                yield f"{place}: includes {header}, which only {', '.join(sorted(layers))} may"
    if name != CONFIG and GETENV.search(COMMENT.sub("", text)):
        yield f"{name}: reads the environment; only {CONFIG} may"


def any_file_faults(root: Path, path: Path) -> Iterator[str]:
    name = path.relative_to(root).as_posix()
    lines = path.read_text().count("\n")
    if lines > MAX_LINES:
        yield f"{name}: {lines} lines, more than {MAX_LINES}; split it by what it does"
    if VAGUE.search(path.stem):
        yield f"{name}: the name doesn't say what it holds"


def files(root: Path, *folders: str) -> Iterator[Path]:
    for folder in folders:
        found = (p for p in (root / folder).rglob("*") if "__pycache__" not in p.parts)
        yield from sorted(p for p in found if p.suffix in (".cc", ".h", ".c", ".py", ".pyi"))


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    faults = [fault for path in files(root, "src") for fault in source_faults(root, path)]
    folders = ("src", "include", "torch_pjrt", "tests", "tools", "benchmarks", "examples")
    faults += [fault for path in files(root, *folders) for fault in any_file_faults(root, path)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
