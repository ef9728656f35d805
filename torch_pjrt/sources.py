"""The user's line from which a node of a captured graph came."""

from __future__ import annotations

import re
from pathlib import Path

import torch

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)\n(?P<code>.*)')
_TORCH = str(Path(torch.__file__).parent)


def source_of(node: torch.fx.Node) -> str:
    """E.g. "model.py:12 in forward: return self.fc(x)"; empty if torch didn't note it.

    The innermost frame outside of torch, or of all.
    """
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return ""
    own = [frame for frame in frames if not frame["file"].startswith(_TORCH)]
    frame = (own or frames)[-1]
    return f"{frame['file']}:{frame['line']} in {frame['name'].strip()}: {frame['code'].strip()}"
