"""no_compile(), set_compile_policy(), explain_compiles(), and the counts of Dynamo's limits."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import torch_pjrt
from torch_pjrt.backend import pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


@pytest.fixture(autouse=True)
def allowing() -> Iterator[None]:
    yield
    torch_pjrt.set_compile_policy("allow")


def compiled(function: Any, dynamic: bool | None = True) -> Any:
    options = {"disk_cache": False}
    return torch.compile(function, backend="pjrt", dynamic=dynamic, options=options)


def refuses(function: Any, *args: Any) -> str:
    with pytest.raises(torch_pjrt.Error) as caught:
        function(*args)
    assert caught.value.code == "not_compiled"
    assert "warmup" in str(caught.value)
    return str(caught.value)


def scale(x: torch.Tensor, power: int = 1) -> torch.Tensor:
    return x * 5**power


def test_no_compile_names_what_is_missing() -> None:
    fast = compiled(scale)
    x, y = torch.ones(3, 4), torch.ones(6, 4)
    fast(x)
    with torch_pjrt.no_compile():
        assert torch.equal(fast(x), x * 5)
        message = refuses(fast, y)
        assert "test_policy.py" in message and "f32[6,4]" in message
        assert "x.shape[0]): 3 -> 6" in message
        message = refuses(fast, y.double())
        assert "guard that failed" in message and "test_policy.py" in message
        assert torch.equal(fast(x), x * 5)
    assert torch.equal(fast(y), y * 5)
    assert torch.equal(fast(y.double()), y.double() * 5)
    assert torch_pjrt.stats()["compiles"] == 3


def test_a_first_capture_is_refused_too() -> None:
    ran = []

    def function(x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            ran.append(1)
        return x - 5

    fast = compiled(function)
    with torch_pjrt.no_compile(), torch._dynamo.config.patch(suppress_errors=True):
        refuses(fast, torch.ones(3, 4))
    assert not ran
    assert torch.equal(fast(torch.ones(3, 4)), torch.full((3, 4), -4.0))
    assert torch_pjrt.stats()["captures"] == 1


def test_dynamos_limit_does_not_run_eager() -> None:
    fast = compiled(scale, dynamic=False)
    for n in range(2, 10):
        fast(torch.ones(n, 4))
    with torch_pjrt.no_compile():
        assert "limit" in refuses(fast, torch.ones(20, 4))
        assert torch.equal(fast(torch.ones(3, 4)), torch.full((3, 4), 5.0))


def test_the_limit_is_said_once_with_the_guard(caplog: pytest.LogCaptureFixture) -> None:
    fast = compiled(scale, dynamic=False)
    with caplog.at_level(logging.WARNING, logger="torch_pjrt"):
        for n in range(2, 14):
            fast(torch.ones(n, 4))
    ours = [record.getMessage() for record in caplog.records if record.name == "torch_pjrt"]
    assert len(ours) == 1
    assert "size mismatch at index 0" in ours[0] and "test_policy.py" in ours[0]
    assert torch_pjrt.stats()["recompile_limits"] == 1


def test_policy_is_the_processs_and_no_compile_the_threads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fast = compiled(scale)
    fast(torch.ones(3, 4))
    torch_pjrt.set_compile_policy("error")
    messages: list[str] = []
    thread = threading.Thread(target=lambda: messages.append(refuses(fast, torch.ones(7, 4))))
    thread.start()
    thread.join()
    assert len(messages) == 1
    torch_pjrt.set_compile_policy("warn")
    with caplog.at_level(logging.WARNING, logger="torch_pjrt"):
        fast(torch.ones(8, 4))
        fast(torch.ones(8, 4, dtype=torch.float64))
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "f32[8,4]" in text and "capturing" in text
    with torch_pjrt.no_compile():
        refuses(fast, torch.ones(9, 4))
        thread = threading.Thread(target=lambda: messages.append(str(fast(torch.ones(9, 4)).shape)))
        thread.start()
        thread.join()
    assert len(messages) == 2
    with pytest.raises(torch_pjrt.Error, match="no compile policy"):
        torch_pjrt.set_compile_policy("never")  # type: ignore[arg-type]


def test_a_wrapped_backend_is_ours_too() -> None:
    fast = torch.compile(lambda x: x * 17, backend=functools.partial(pjrt))
    with torch_pjrt.no_compile():
        refuses(fast, torch.ones(2, 4))
    assert fast(torch.ones(2, 4))[0, 0] == 17


def test_other_backends_are_left_alone() -> None:
    with torch_pjrt.no_compile():
        assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))[0] == 2


def test_explain_compiles() -> None:
    before = len(torch_pjrt.explain_compiles())
    fast = compiled(lambda x: x.sin() * 11 if x.shape[0] > 8 else x.cos() * 11)
    for n in (5, 6, 9, 10):
        fast(torch.ones(n, 4))
    explained = torch_pjrt.explain_compiles()[before:]
    assert all("test_policy.py" in one.function for one in explained)
    first, second, third, fourth = explained
    assert first.guard == "" and first.changes == ()
    assert len(second.changes) == 1 and second.changes[0].endswith("(x.shape[0]): 5 -> 6")
    assert third.changes == () and "8" in third.guard
    assert fourth.changes[0].endswith("(x.shape[0]): 9 -> 10")
    text = str(torch_pjrt.explain_compiles())
    assert "5 -> 6" in text and third.guard in text


def test_counts_of_dynamo() -> None:
    def breaks(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    compiled(breaks)(torch.ones(3))
    assert torch_pjrt.stats()["graph_breaks"] == 1


def test_eviction_loads_from_disk_and_is_right() -> None:
    fast = torch.compile(lambda x: x * 13 - 2, backend="pjrt", dynamic=True)
    torch_pjrt.set_max_program_bytes(0)
    try:
        for n in (3, 4, 3, 4):
            assert torch.equal(fast(torch.ones(n, 4)), torch.full((n, 4), 11.0))
    finally:
        torch_pjrt.set_max_program_bytes(4 << 30)
    stats = torch_pjrt.stats()
    assert stats["compiles"] == 2 and stats["disk_hits"] == 2 and stats["evictions"] >= 3
    assert stats["programs"] >= 1 and stats["program_bytes"] > 0
