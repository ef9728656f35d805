"""What can't be run raises an Error that says where, what and what to do; the next call works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


@pytest.fixture(autouse=True)
def the_next_call_is_right() -> Iterator[None]:
    yield
    x = torch.randn(4)
    assert_close(torch.compile(lambda x: x * 2 + 1, backend="pjrt")(x), x * 2 + 1)


def error_of(function: Callable[..., Any], *arguments: Any, **kwargs: Any) -> torch_pjrt.Error:
    options = {"fallback": "error", **kwargs.pop("options", {})}
    with pytest.raises(torch_pjrt.Error) as caught:
        torch.compile(function, backend="pjrt", options=options, **kwargs)(*arguments)
    return caught.value


def check(error: torch_pjrt.Error, code: str, *texts: str) -> None:
    assert error.code == code
    for text in texts:
        assert text in str(error)
    assert "remedy: " in str(error)


def test_an_op_without_a_rule() -> None:
    def f(x: torch.Tensor) -> Any:
        x = x + 1
        return torch.linalg.qr(x)  # the user's line

    error = error_of(f, torch.randn(3, 3))
    line = f.__code__.co_firstlineno + 2
    check(
        error,
        "unsupported",
        "aten::linalg_qr",
        'linalg_qr(Tensor A, str mode="reduced")',
        f"{__file__}:{line} in f: return torch.linalg.qr(x)  # the user's line",
        "torch.compiler.disable",
    )


def test_an_op_of_an_interactive_session() -> None:
    session: dict[str, Any] = {"torch": torch}
    exec(compile("def f(x):\n  return torch.linalg.qr(x)", "<stdin>", "single"), session)
    check(error_of(session["f"], torch.eye(3)), "unsupported", "at: <stdin>:2 in f\n")


def test_an_op_in_a_module_of_torch() -> None:
    """None of the user's lines leads to it."""
    pool = torch.nn.AvgPool2d(2)
    nested = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(pool))
    x = torch.randn(1, 3, 4, 4)
    options = {"eager_ops": ["aten::avg_pool2d"]}
    place = "at: module 1.0 (AvgPool2d) of Sequential\n"
    check(error_of(nested, x, options=options), "unsupported", place)
    check(error_of(pool, x, options=options), "unsupported", "at: module AvgPool2d\n")


def test_a_use_of_an_op_that_its_rule_refuses() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky_ex(x, check_errors=True)[0]  # the user's line

    line = f.__code__.co_firstlineno + 1
    error = error_of(f, torch.eye(4))
    check(error, "unsupported", "aten::linalg_cholesky_ex", f"at: {__file__}:{line} in f: ")


def test_the_rest_of_a_model_runs_around_a_disabled_function() -> None:
    qr = torch.compiler.disable(torch.linalg.qr)

    def f(x: torch.Tensor) -> torch.Tensor:
        return qr(x + 1)[1] * 2

    x = torch.randn(3, 3)
    assert_close(torch.compile(f, backend="pjrt")(x), f(x))


def test_a_random_op_without_a_rule() -> None:
    error = error_of(lambda x: x + torch._standard_gamma(x), torch.ones(3))
    check(error, "unsupported", "aten::_standard_gamma", "docs/using.md")


def test_an_unsupported_dtype() -> None:
    z = torch.ones(3, dtype=torch.uint16)
    check(error_of(lambda z: z == 1, z), "unsupported", "input z", "uint16", ".to(torch.int32)")
    error = error_of(lambda x: x.to(torch.uint16).long() * 2, torch.ones(3))
    check(error, "unsupported", "uint16", __file__)


def test_a_higher_order_op() -> None:
    from torch._higher_order_ops.map import map as each_row

    def f(x: torch.Tensor) -> Any:
        return each_row(lambda row: row + 1, x)

    check(error_of(f, torch.ones(3, 2)), "unsupported", "higher-order op map", __file__)


def test_an_error_within_a_call_leaves_nothing_compiled() -> None:
    fast = torch.compile(torch.linalg.qr, backend="pjrt", options={"fallback": "error"})
    for _ in range(2):
        with pytest.raises(torch_pjrt.Error):
            fast(torch.randn(3, 3))
    assert torch_pjrt.stats()["compiles"] == 0


def test_error_is_a_runtime_error() -> None:
    assert issubclass(torch_pjrt.Error, RuntimeError)


def test_no_memory_for_an_output() -> None:
    """As in eager; the message is of some lines, without C++ frames."""
    huge = 1 << 45
    with pytest.raises(RuntimeError, match="can't allocate memory") as caught:
        torch.compile(lambda x: x.expand(huge, 4) + 1, backend="pjrt")(torch.ones(4))
    assert "frame #" not in str(caught.value)


def test_the_traceback_leaves_dynamo_out() -> None:
    """Between the user's line and ours; those of Dynamo and AOTAutograd are dozens."""
    for options in ({"fallback": "error"}, {"plugin": "/no/such.so"}):
        fast = torch.compile(torch.linalg.qr, backend="pjrt", options=options)
        with pytest.raises(torch_pjrt.Error) as caught:
            fast(torch.randn(3, 3))
        assert len(caught.traceback) <= 5
