"""torch_pjrt.explain: graphs, breaks, pieces, ops in eager, programs."""

from __future__ import annotations

import pytest
import torch

import torch_pjrt

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.plugin,
    pytest.mark.filterwarnings("ignore::torch_pjrt.FallbackWarning"),
]


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * 2 + 1
    torch._dynamo.graph_break()
    return torch.linalg.qr(y + y.cos())[1].exp() * 3


def test_a_model_with_a_break_and_a_fallback() -> None:
    found = torch_pjrt.explain(broken, torch.rand(4, 4))
    assert [graph.pieces for graph in found.graphs] == [[3], [2, 2]]
    line = broken.__code__.co_firstlineno
    assert f"{__file__}:{line + 1} in broken" in found.graphs[0].source
    (fallback,) = found.graphs[1].fallbacks
    assert fallback.op == "aten::linalg_qr"
    assert f"{__file__}:{line + 3} in broken" in fallback.source
    assert "no lowering for aten::linalg_qr" in str(fallback.why)
    (found_break,) = found.breaks
    assert f"{__file__}:{line + 2} in broken" in found_break.source
    assert len(found.programs) == 3
    for program in found.programs:
        assert program.compile_ms is None or (program.nodes > 0 and program.bytes > 100)
    text = str(found)
    for part in ("2 graphs, 1 break, 3 programs", "in eager: aten::linalg_qr", "graph_break()"):
        assert part in text


def test_a_model_that_is_one_program() -> None:
    model = torch.nn.Linear(3, 2)
    before = [p.clone() for p in model.parameters()]
    found = torch_pjrt.explain(model, torch.randn(5, 3))
    assert len(found.graphs) == 2  # forward and backward
    assert not found.breaks
    assert all(len(graph.pieces) == 1 and not graph.fallbacks for graph in found.graphs)
    assert all(p.grad is None for p in model.parameters())
    for p, q in zip(model.parameters(), before, strict=True):
        assert torch.equal(p, q)


def test_options_and_a_compiled_model() -> None:
    fast = torch.compile(lambda x: torch.tanh(x.sin() * 2).cos() + 1, backend="pjrt")
    x = torch.randn(3)
    fast(x)
    found = torch_pjrt.explain(fast, x, options={"eager_ops": ["aten::tanh"]})
    (graph,) = found.graphs
    assert graph.pieces == [2, 2]
    assert "aten::tanh is one of eager_ops" in str(found)


def test_it_leaves_no_trace() -> None:
    fast = torch.compile(broken, backend="pjrt")
    x = torch.rand(4, 4)
    fast(x)
    level = torch_pjrt.logs.logger.level
    for _ in range(10):
        torch_pjrt.explain(fast, x)
    assert torch_pjrt.logs.logger.level == level
    torch_pjrt.reset_stats()
    fast(x)
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["compiles"], counts["recompile_limits"]) == (0, 0, 0)
