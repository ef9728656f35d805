"""The user's lines from which a captured graph and its nodes came."""

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
    frames = _frames(node)
    if not frames:
        return ""
    return _line((_own(frames) or frames)[-1])


def function_of(gm: torch.fx.GraphModule) -> str:
    """Where the compiled function starts, e.g. "model.py:12 in forward: x = self.fc(x)".

    The outermost frame outside of torch of the first node that has one; "" if none is known.
    """
    traced = [frames for node in gm.graph.nodes if (frames := _frames(node))]
    own = [frames for all_frames in traced if (frames := _own(all_frames))]
    return next((_line(frames[0]) for frames in own or traced), "")


def _frames(node: torch.fx.Node) -> list[re.Match[str]]:
    return list(_FRAME.finditer(node.meta.get("stack_trace") or ""))


def _own(frames: list[re.Match[str]]) -> list[re.Match[str]]:
    return [frame for frame in frames if not frame["file"].startswith(_TORCH)]


def _line(frame: re.Match[str]) -> str:
    return f"{frame['file']}:{frame['line']} in {frame['name'].strip()}: {frame['code'].strip()}"
