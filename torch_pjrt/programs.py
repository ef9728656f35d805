"""How a Graph becomes a program: by the options of the function that it is captured from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import plugins
from .errors import failure
from .options import Options

from . import _C  # isort: skip

__all__ = ["Origin", "ProgramMaker"]


@dataclass(frozen=True)
class Origin:
    """Where a graph comes from. function: where it starts. guard: whose failure made Dynamo capture
    it, "" at the first. graph_break: why the function goes on after it, "" if it doesn't."""

    function: str = ""
    guard: str = ""
    graph_break: str = ""


@dataclass(frozen=True)
class ProgramMaker:
    """Makes programs for the plugin that `given` names, or for this process's."""

    given: Options
    origin: Origin = Origin()

    def __call__(self, graph: _C.Graph, on_device: bool = False) -> Any:
        """on_device: whether the graph's tensors are on device="pjrt". Raises Error (invalid) where
        that is another plugin's device."""
        plugin = plugins.choose(self.given.plugin)
        if on_device and plugin != plugins.choose(None):
            raise failure(
                "invalid",
                what="tensors on device pjrt are of the plugin "
                f"{plugins.choose(None)}, and the option 'plugin' names {plugin}",
                remedy=f"set {plugins.ENVIRONMENT}, which both use, instead of the option",
            )
        program: Any = _C.Program(
            graph,
            plugin,
            dict(self.given.compile_overrides),
            self.given.disk_cache,
            self.given.freeze,
            source=self.origin.function,
            guard=self.origin.guard,
            on_device=on_device,
        )
        program.graph_break = self.origin.graph_break
        program.on_device = on_device
        return program
