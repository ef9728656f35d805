"""What Dynamo and our core count, and what the counts must be in a warmed-up timed region."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

# Ops on device="pjrt" that ran on the CPU.
HOST_OPS = "host_ops"
# Our counters that must not move once a model is warm.
STILL_WHEN_WARM = ("captures", "compiles", "copied_inputs", HOST_OPS)
# Dynamo's count of captured graphs, under a name of its own: there for every backend.
GRAPHS = "dynamo_graphs"
GRAPH_BREAKS = "dynamo_graph_breaks"


def is_ours(backend: str) -> bool:
    """Whether torch_pjrt registered this backend of torch.compile, or it is one of our peers."""
    from torch._dynamo.backends.registry import lookup_backend

    from . import peers

    if backend in peers.NAMES:
        return backend in peers.OURS
    return (getattr(lookup_backend(backend), "__module__", None) or "").split(".")[
        0
    ] == "torch_pjrt"


def read(ours: bool) -> dict[str, int]:
    """The counts now: Dynamo's, and with `ours` those of torch_pjrt.stats()."""
    from torch._dynamo.utils import counters as dynamo

    counts = {
        GRAPHS: int(dynamo["stats"]["unique_graphs"]),
        GRAPH_BREAKS: sum(dynamo["graph_break"].values()),
    }
    if ours:
        import torch_pjrt

        from .. import _C

        counts |= {name: int(value) for name, value in torch_pjrt.stats().items()}
        counts[HOST_OPS] = sum(_C.host_ops().values())
    return counts


@dataclass
class Watch:
    """Adds up how far the counts move while watching."""

    ours: bool
    moved: Counter[str] = field(default_factory=Counter)
    entered: int = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = read(self.ours)
        self.entered += 1
        try:
            yield
        finally:
            for name, value in read(self.ours).items():
                self.moved[name] += value - before.get(name, 0)


def cold_warnings(cold: Mapping[str, int], ours: bool) -> list[str]:
    """What the counts of a cold first call say against it; empty is good."""
    warnings = []
    if cold.get(GRAPHS, 0) == 0:
        warnings.append("Dynamo captured nothing")
    if cold.get(GRAPH_BREAKS, 0):
        warnings.append(f"{cold[GRAPH_BREAKS]} graph breaks")
    if cold.get(HOST_OPS):
        warnings.append(f"{cold[HOST_OPS]} {HOST_OPS}")
    if ours and cold.get("compiles", 0) == 0:
        warnings.append("first call compiled nothing: its time isn't cold")
    return warnings


def warm_warnings(
    warm: Mapping[str, int], calls: int, ours: bool, when: str = "while timed"
) -> list[str]:
    """What the counts of `calls` warm calls say against them; empty is good."""
    if not ours:
        graphs = warm.get(GRAPHS, 0)
        return [f"{graphs} {GRAPHS} {when}"] if graphs else []
    warnings = [f"{warm[name]} {name} {when}" for name in STILL_WHEN_WARM if warm.get(name)]
    if warm.get("executions", 0) < calls:
        warnings.append(f"{warm.get('executions', 0)} executions in {calls} calls")
    return warnings
