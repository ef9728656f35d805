"""torch_pjrt.freeze: calls without Dynamo and its guards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def net() -> nn.Sequential:
    layers = (nn.Conv2d(16, 64, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(64, 128)).eval()


def close(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_a_call_is_one_execution_and_the_compiled_function_stays() -> None:
    model, x = net(), torch.randn(2, 16, 9, 8)
    fast = torch.compile(model, backend="pjrt")
    handle = torch_pjrt.freeze(fast, x)
    captures = torch_pjrt.stats()["captures"]
    for _ in range(3):
        close(handle(x), model(x))
        x = torch.randn(2, 16, 9, 8)
    counts = torch_pjrt.stats()
    assert counts["executions"] == 3
    assert counts["captures"] == captures
    assert counts["copied_inputs"] == 0
    assert counts["relaid_inputs"] == 2, "the two large weights, once"
    model[3].weight.mul_(2)
    close(fast(x), model(x))


def test_later_writes_are_not_seen_where_copies_are_kept() -> None:
    model, x = net(), torch.randn(2, 16, 9, 8)
    handle = torch_pjrt.freeze(torch.compile(model, backend="pjrt"), x)
    before = handle(x)
    model[0].weight.mul_(2)
    model[3].weight = nn.Parameter(torch.zeros(128, 64))
    close(handle(x), before)


def test_gradients_are_not_recorded() -> None:
    model, x = net(), torch.randn(2, 16, 9, 8, requires_grad=True)
    handle = torch_pjrt.freeze(torch.compile(model, backend="pjrt"), x)
    with torch.enable_grad():
        assert not handle(x).requires_grad


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, by: float, mode: str = "a") -> torch.Tensor:
        return x * by if mode == "a" else x + by


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ((), "the call has 0 arguments"),
        ((torch.ones(3, 4), 2.0, "a", 1), "the call has 4 arguments"),
        ((3, 2.0, "a"), "argument 0 is a int, and was a tensor"),
        ((torch.ones(3, 4, dtype=torch.float64), 2.0, "a"), "expected f32"),
        ((torch.ones(3), 2.0, "a"), "argument 0 has 1 dims, and had 2"),
        ((torch.ones(3, 5), 2.0, "a"), r"argument 0 has shape \[3,5\], and it is for \[3,4\]"),
        ((torch.ones(4, 3).t(), 2.0, "a"), "argument 0 has strides"),
        ((torch.ones(3, 4).to_sparse(), 2.0, "a"), "to_dense"),
        ((torch.ones(3, 4), 2, "a"), "argument 1 is 2, and was"),
        ((torch.ones(3, 4), 2.0, "b"), "argument 2 is 'b', and was 'a'"),
    ],
)
def test_another_call_is_refused(call: tuple[Any, ...], message: str) -> None:
    x = torch.ones(3, 4)
    handle = torch_pjrt.freeze(torch.compile(Scaled(), backend="pjrt"), x, 2.0, "a")
    with pytest.raises(torch_pjrt.Error, match=message) as found:
        handle(*call)
    assert found.value.code == "invalid"
    close(handle(x, 2.0, "a"), x * 2)


def test_floats_that_change() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, by: float) -> torch.Tensor:
            return x * by

    x = torch.ones(3, 4)
    handle = torch_pjrt.freeze(torch.compile(Net(), backend="pjrt", dynamic=True), x, 2.5)
    close(handle(x, 0.5), x * 0.5)
    close(handle(x, -3.0), x * -3)


def test_any_size_that_the_graph_is_for() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 128)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            return y * 2 if x.shape[0] > 4 else y

    model = Net().eval()
    fast = torch.compile(model, backend="pjrt", dynamic=True)
    handle = torch_pjrt.freeze(fast, torch.randn(8, 64))
    captures = torch_pjrt.stats()["captures"]
    for rows in (8, 5, 17, 8):
        x = torch.randn(rows, 64)
        close(handle(x), model(x))
    assert torch_pjrt.stats()["compiles"] == 3
    assert torch_pjrt.stats()["captures"] == captures
    with pytest.raises(torch_pjrt.Error, match=r"argument 0.size\(0\).*doesn't hold"):
        handle(torch.randn(3, 64))


def test_structures_and_keywords() -> None:
    class Net(nn.Module):
        def forward(self, pair: list[torch.Tensor], *, scale: torch.Tensor) -> dict[str, Any]:
            return {"sum": pair[0] + pair[1], "more": (pair[0] * scale, 3), "same": scale}

    a, b, s = torch.randn(4), torch.randn(4), torch.tensor(2.0)
    handle = torch_pjrt.freeze(torch.compile(Net(), backend="pjrt"), [a, b], scale=s)
    found = handle([b, a], scale=s)
    close(found["sum"], a + b)
    close(found["more"], (b * 2, 3))
    assert found["same"] is s
    with pytest.raises(torch_pjrt.Error, match="structure"):
        handle([a, b], s)
    with pytest.raises(torch_pjrt.Error, match="is the same tensor as"):
        handle([a, a], scale=s)


@pytest.mark.parametrize("kind", [tuple, list])
def test_several_results(kind: type) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return kind([x + 1, None, x])

    x = torch.randn(4)
    found = torch_pjrt.freeze(torch.compile(Net(), backend="pjrt"), x)(x)
    assert type(found) is kind
    close(found[0], x + 1)
    assert found[1] is None
    assert found[2] is x


def test_a_cache_is_written_in_place() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x)
            return self.seen * 2

    model, x = Net(), torch.ones(4)
    handle = torch_pjrt.freeze(torch.compile(model, backend="pjrt"), x)
    assert model.seen.sum() == 0, "nothing is run"
    handle(x)
    close(handle(x), torch.full((4,), 4.0))
    close(model.seen, torch.full((4,), 2.0))


def test_what_is_not_a_compiled_module() -> None:
    for fast in (net(), torch.compile(lambda x: x, backend="pjrt")):
        with pytest.raises(torch_pjrt.Error, match=r"torch.nn.Module"):
            torch_pjrt.freeze(fast, torch.ones(3))


def test_code_that_breaks_the_graph() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("now")
            return x + 1

    with pytest.raises(Exception, match="print"):
        torch_pjrt.freeze(torch.compile(Net(), backend="pjrt"), torch.ones(3))
