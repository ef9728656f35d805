"""torch.cond, while_loop and scan: regions of the program, with values and errors as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def _scan(*args: Any, **kwargs: Any) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(*args, **kwargs)


def _loop(condition: Callable[..., Any], body: Callable[..., Any], carried: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(condition, body, carried)


def compiled(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(f, backend="pjrt", fullgraph=True, **options)  # type: ignore[no-any-return]


def test_a_choice_by_a_tensor() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return torch.cond(  # type: ignore[no-any-return]
            x.sum() > 0, lambda x: (x @ w).relu(), lambda x: (x - 1) @ w, (x,)
        )

    fast, w = compiled(f), torch.randn(4, 3)
    for x in (torch.ones(2, 4), -torch.ones(2, 4)):
        assert_close(fast(x, w), f(x, w))
    counts = torch_pjrt.stats()
    assert (counts["captures"], counts["executions"]) == (1, 2)


def test_a_choice_of_several_results_within_a_choice() -> None:
    def inner(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cond(  # type: ignore[no-any-return]
            x[0] > 2, lambda x: (x * 2, x.sum()), lambda x: (x + 1, x.prod()), (x,)
        )

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cond(x[1] > 0, inner, lambda x: (-x, x.max()), (x,))  # type: ignore[no-any-return]

    fast = compiled(f)
    for values in ([3.0, 1.0], [1.0, 1.0], [3.0, -1.0]):
        x = torch.tensor(values)
        for got, want in zip(fast(x), f(x), strict=True):
            assert_close(got, want)


def test_transposed_results_of_a_choice() -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda x: x.t() + 1, lambda x: (x * 2).t(), (x,))
        return y @ x  # type: ignore[no-any-return]

    x = torch.randn(3, 4)
    for t in (x.abs(), -x.abs()):
        assert_close(compiled(f)(t), f(t))


def test_only_the_branch_that_is_taken_raises() -> None:
    table = torch.arange(5.0)

    def f(i: Tensor, flag: Tensor) -> Tensor:
        return torch.cond(flag, lambda i: table[i], lambda i: i * 2.0, (i,))  # type: ignore[no-any-return]

    fast = compiled(f)
    good, bad = torch.tensor([1, 2]), torch.tensor([1, 9])
    yes, no = torch.tensor(True), torch.tensor(False)
    assert_close(fast(good, yes), table[good])
    assert_close(fast(bad, no), bad * 2.0)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        fast(bad, yes)


def test_a_loop_runs_as_often_as_its_condition_says() -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        def body(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return n + 1, x * 2

        return _loop(lambda n, x: x.sum() < 100, body, (torch.tensor(0), x))  # type: ignore[no-any-return]

    fast = compiled(f)
    for start in (1.0, 3.0, 200.0):
        x = torch.full((3,), start)
        for got, want in zip(fast(x), f(x), strict=True):
            assert_close(got, want)
    assert torch_pjrt.stats()["compiles"] == 1


def test_an_error_in_an_iteration_ends_the_loop() -> None:
    def f(x: Tensor, buffer: Tensor) -> Tensor:
        def body(n: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            return n + 1, total + x[n.view(1)].sum()

        buffer.add_(1)
        start = (torch.tensor(0), torch.zeros(()))
        return _loop(lambda n, total: n < 6, body, start)[1]  # type: ignore[no-any-return]

    fast = compiled(f)
    buffer = torch.zeros(2)
    assert_close(fast(torch.arange(6.0), buffer), torch.tensor(15.0))
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4"):
        fast(torch.arange(4.0), buffer)
    assert_close(buffer, torch.ones(2))


def test_random_numbers_of_an_iteration_are_its_own() -> None:
    def f() -> Tensor:
        def body(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            row = torch.rand(1, 64)
            return n + 1, torch.cat([x[1:], row])

        start = (torch.tensor(0), torch.zeros(4, 64))
        return _loop(lambda n, x: n < 4, body, start)[1]  # type: ignore[no-any-return]

    fast = compiled(f)
    torch.manual_seed(0)
    first, second = fast(), fast()
    rows = torch.cat([first, second])
    assert len({tuple(row.tolist()) for row in rows}) == 8
    assert 0.4 < rows.mean() < 0.6
    assert abs(torch.corrcoef(rows) - torch.eye(8)).max() < 0.5
    torch.manual_seed(0)
    assert torch.equal(fast(), first)


def test_a_scan_carries_and_stacks() -> None:
    def f(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        def combine(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(h @ w + x)
            return h, h.sum(-1)

        return _scan(combine, torch.zeros(2, 3), x)  # type: ignore[no-any-return]

    x, w = torch.randn(5, 2, 3), torch.randn(3, 3)
    h, sums = torch.zeros(2, 3), []
    for row in x:
        h = torch.tanh(h @ w + row)
        sums.append(h.sum(-1))
    got = compiled(f)(x, w)
    assert_close(got[0], h)
    assert_close(got[1], torch.stack(sums))


def test_gradients_of_a_choice() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x, w: x @ w, lambda x, w: (x * x) @ w, (x, w))  # type: ignore[no-any-return]

    for sign in (1.0, -1.0):
        x = torch.full((2, 3), sign)
        w, v = (torch.arange(6.0).view(3, 2).requires_grad_() for _ in range(2))
        compiled(f)(x, w).sum().backward()
        f(x, v).sum().backward()
        assert_close(w.grad, v.grad)
