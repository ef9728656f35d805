"""The user's lines from which a captured graph and its nodes came."""

from __future__ import annotations

import re
from pathlib import Path

import torch

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)\n(?P<code>.*)')
# What Dynamo calls the rest of a function after a break.
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
_TORCH = str(Path(torch.__file__).parent)


def source_of(node: torch.fx.Node) -> str:
    """E.g. "model.py:12 in forward: return self.fc(x)": the innermost frame outside of torch, or of
    all. Where there is none, since only torch's modules were run, the module; "" if there is none.
    """
    frames = _frames(node)
    if not frames:
        return _module(node)
    return _line((_own(frames) or frames)[-1])


def function_of(gm: torch.fx.GraphModule) -> str:
    """Where the compiled function starts, e.g. "model.py:12 in forward: x = self.fc(x)".

    The outermost frame outside of torch of the first node that has one, else a module.
    """
    traced = [frames for node in gm.graph.nodes if (frames := _frames(node))]
    own = [frames for all_frames in traced if (frames := _own(all_frames))]
    if traced:
        return _line((own or traced)[0][0])
    return next((module for node in gm.graph.nodes if (module := _module(node))), "")


def _module(node: torch.fx.Node) -> str:
    """The innermost module, e.g. "module layers.0 (Linear) of Sequential"; "" if none is known."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return ""
    (root, of), (path, kind) = stack[0], stack[-1]
    if path == root:
        return f"module {kind.__name__}"
    return f"module {path.removeprefix(root).lstrip('.')} ({kind.__name__}) of {of.__name__}"


def _frames(node: torch.fx.Node) -> list[re.Match[str]]:
    return list(_FRAME.finditer(node.meta.get("stack_trace") or ""))


def _own(frames: list[re.Match[str]]) -> list[re.Match[str]]:
    return [frame for frame in frames if not frame["file"].startswith(_TORCH)]


def _line(frame: re.Match[str]) -> str:
    name = _RESUMED.sub(r"\1", frame["name"].strip())
    place = f"{frame['file']}:{frame['line']} in {name}"
    code = frame["code"].strip()  # none in an interactive session
    return f"{place}: {code}" if code else place
