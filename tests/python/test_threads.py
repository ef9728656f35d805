"""The threads of XLA's CPU client."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import glob, torch
torch.compile(lambda x: x @ x, backend="pjrt")(torch.ones(64, 64))
for name in glob.glob("/proc/self/task/*/comm"):
    print(open(name).read().strip())
"""


@pytest.mark.plugin
def test_there_are_as_many_as_processors_and_none_is_heard_of() -> None:
    unset = ("NPROC", "PJRT_NPROC", "TF_CPP_MIN_LOG_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    names = done.stdout.splitlines()
    assert names.count("tf_XLAEigen") <= max(2, len(os.sched_getaffinity(0))), names
    assert done.stderr == ""
