"""torch_pjrt.warmup(): captures and compiles, and runs nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

Args = list[tuple[torch.Tensor]]


def count(name: str) -> int:
    return torch_pjrt.stats()[name]


def metas(sizes: range, width: int = 8) -> Args:
    return [(torch.empty(n, width, device="meta"),) for n in sizes]


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(
        function, backend="pjrt", dynamic=True, options={"disk_cache": False, **options}
    )


@torch.no_grad()
def test_thirty_shapes() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    fast = compiled(model)
    torch_pjrt.warmup(fast, metas(range(2, 32)))
    assert count("captures") == 1
    assert count("compiles") == count("warmups") == count("lowerings") == 30
    assert count("executions") == 0
    with torch_pjrt.no_compile():
        for n in range(2, 32):
            x = torch.randn(n, 8)
            torch.testing.assert_close(fast(x), model(x))
    assert count("captures") == 1
    assert count("compiles") == 30
    assert count("executions") == count("memory_hits") == 30


def test_nothing_changes() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(8))
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(1)
            x.mul_(2)
            self.calls += 1
            return torch.nn.functional.dropout(x, 0.5)

    for random in ("default", "eager"):
        torch._dynamo.reset()
        model = Model()
        x = torch.ones(5, 8)
        state = torch.get_rng_state()
        torch_pjrt.warmup(compiled(model, random=random), [(x,), *metas(range(6, 8))])
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(x, torch.ones(5, 8))
        assert torch.equal(model.total, torch.zeros(8))
        assert model.calls == 0


def test_training_and_keywords() -> None:
    model = torch.nn.Linear(8, 4)
    fast = compiled(model)
    torch_pjrt.warmup(fast, [((), {"input": torch.empty(n, 8, device="meta")}) for n in (3, 4)])
    captures = count("captures")
    x = torch.randn(3, 8)
    with torch_pjrt.no_compile():
        y = fast(input=x)
    torch.testing.assert_close(y, model(x))
    assert count("captures") == captures
    y.sum().backward()
    assert model.weight.grad is not None


def test_several_graphs_are_an_error() -> None:
    ran = []

    def breaks(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        ran.append(1)
        return y.cos()

    fast = compiled(breaks)
    for _ in range(2):
        with pytest.raises(torch_pjrt.Error, match="call the function once with real inputs"):
            torch_pjrt.warmup(fast, metas(range(3, 4)))
        assert not ran
        fast(torch.ones(3, 8))
        ran.clear()


@torch.library.custom_op("warmup_test::noted", mutates_args=())
def noted(x: torch.Tensor) -> torch.Tensor:
    RAN.append(x)
    return x.clone()


noted.register_fake(torch.empty_like)
RAN: list[torch.Tensor] = []


@pytest.mark.parametrize("fallback", ["partition", "eager"])
@pytest.mark.parametrize("starts_in_eager", [True, False])
def test_ops_in_eager_are_an_error(starts_in_eager: bool, fallback: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if starts_in_eager:
            x = noted(x)
        y = torch.softmax(x @ x.T, 0) + x.sum(1)
        return torch.softmax(noted(y) @ x, 0) + x

    fast = compiled(function, fallback=fallback)
    RAN.clear()
    for _ in range(2):
        with pytest.raises(torch_pjrt.Error, match=r"in eager: .*noted") as raised:
            torch_pjrt.warmup(fast, metas(range(3, 5)))
        assert "call the function once with real inputs" in str(raised.value)
    assert not RAN
    assert count("compiles") == count("warmups") == 0
    x = torch.ones(3, 8)
    torch.testing.assert_close(fast(x), function(x))
    assert count("executions") == (2 if fallback == "partition" else 0)
    with torch_pjrt.no_compile():
        fast(x)


def test_what_is_no_compiled_function() -> None:
    with pytest.raises(torch_pjrt.Error, match=r"takes what torch\.compile returned"):
        torch_pjrt.warmup(lambda x: x, metas(range(3, 4)))
    with pytest.raises(torch_pjrt.Error, match="runs no program"):
        torch_pjrt.warmup(torch.compile(lambda x: x + 1, backend="eager"), metas(range(3, 4)))
    with pytest.raises(torch_pjrt.Error, match="a tuple of arguments"):
        torch_pjrt.warmup(compiled(lambda x: x + 1), [torch.ones(3)])  # type: ignore[list-item]


def test_the_limit_of_recompiles_runs_nothing_in_eager() -> None:
    ran = []

    def function(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            ran.append(1)
        return x + 1

    fast = torch.compile(function, backend="pjrt", dynamic=False, options={"disk_cache": False})
    with pytest.raises(torch_pjrt.Error, match="limit"):
        torch_pjrt.warmup(fast, metas(range(2, 14)))
    assert not ran


def test_an_error_of_a_compile_is_raised_after_all() -> None:
    fast = compiled(lambda x: x * 2, compile_overrides={"no_such_flag": True})
    with pytest.raises(torch_pjrt.Error, match="no_such_flag"):
        torch_pjrt.warmup(fast, metas(range(2, 5)))
    with pytest.raises(torch_pjrt.Error, match="no_such_flag"):
        fast(torch.ones(2, 8))


def test_loads_from_disk() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 3 - 1

    for compiles, loads in ((4, 0), (0, 4)):
        torch._dynamo.reset()
        torch_pjrt.set_max_program_bytes(0)
        torch_pjrt.set_max_program_bytes(1 << 40)
        torch_pjrt.reset_stats()
        fast = torch.compile(function, backend="pjrt", dynamic=True)
        # One more, since the program used last stays in memory.
        torch_pjrt.warmup(fast, metas(range(40, 44)))
        torch_pjrt.warmup(compiled(lambda x: x + 7), metas(range(50, 51)))
        assert count("compiles") in (compiles, compiles + 1)
        assert count("disk_hits") == loads
        with torch_pjrt.no_compile():
            assert torch.equal(fast(torch.ones(41, 8)), torch.full((41, 8), 2.0))
