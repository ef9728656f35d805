"""The table of architectures in README.md.

    ./dev python tests/python/architectures/table.py

runs all of them and writes it anew.
"""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
BEGIN, END = "<!-- architectures: begin -->", "<!-- architectures: end -->"
TITLES = ("architecture", "inference", "training", "greedy generation, static cache")


def row(name: str) -> str:
    """Of the table, without the error: what doesn't change from run to run."""
    import transformers
    from architectures import runs

    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forward, steps, tokens = runs.inference(name), runs.training(name), runs.generation(name)
    checks = [found.error < 1e-4 for found in (forward, steps) if found is not None]
    if not all(checks) or tokens is False:
        raise ValueError(f"{name} differs from eager: {forward}, {steps}, {tokens}")
    same = {True: "equal", None: ""}[tokens]
    return f"| {name} | {forward} | {'' if steps is None else steps} | {same} |"


def recorded() -> dict[str, str]:
    """The rows of the README, by architecture."""
    text = README.read_text()
    lines = text[text.index(BEGIN) : text.index(END)].splitlines()
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    from architectures.models import ARCHITECTURES

    lines = [BEGIN, f"| {' | '.join(TITLES)} |", f"|{' --- |' * len(TITLES)}"]
    for name in ARCHITECTURES:
        lines.append(row(name))
        print(lines[-1], flush=True)
    table = "\n".join([*lines, END])
    pattern = f"{re.escape(BEGIN)}.*{re.escape(END)}"
    README.write_text(re.sub(pattern, lambda _: table, README.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main()
