"""A process of its own, for what is to be measured cold."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


def printed(command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """The JSON in the last line that the command prints; raises RuntimeError with the last line of
    its errors."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise RuntimeError(lines[-1])
    record: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return record
