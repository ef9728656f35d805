"""Importing the package: it starts nothing, and only beside the right torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torch_pjrt

ROOT = str(Path(torch_pjrt.__file__).parent.parent)


def python(code: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {ROOT!r})\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_backend_starts_no_thread() -> None:
    code = (
        "import os, torch\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "import torch_pjrt.backend, torch_pjrt\n"
        "torch_pjrt.stats()\n"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    done = python(code)
    assert done.stdout.strip() == "0", done.stderr


@pytest.mark.parametrize(
    ("version", "good"),
    [("2.13.0", True), ("2.13.1+cpu", True), ("2.12.1", False), ("2.14.0", False), ("3.0", False)],
)
@pytest.mark.parametrize("loaded", [True, False])
def test_torchs_version(version: str, good: bool, loaded: bool) -> None:
    fake = (
        f"import types; t = sys.modules['torch'] = types.ModuleType('torch')\n"
        f"t.__version__ = {version!r}\n"
        if loaded
        else f"import importlib.metadata as m; m.version = lambda name: {version!r}\n"
    )
    # With a module that has only a version the import can't go on to the end.
    done = python(fake + "import torch_pjrt; print('imported')")
    if good:
        assert "needs torch" not in done.stderr
    else:
        assert done.returncode != 0
        assert f"torch is {version} here" in done.stderr
        assert "-m pip install 'torch==2.13.*'" in done.stderr
