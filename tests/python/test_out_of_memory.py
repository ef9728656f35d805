"""Want of memory is an exception that PyTorch's users know, and the next call works."""

from __future__ import annotations

import fake
import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.mark.parametrize(
    "function",
    [
        "PJRT_Client_Compile",
        "PJRT_Client_BufferFromHostBuffer",
        "PJRT_LoadedExecutable_Execute",
        "PJRT_Event_Await",
    ],
)
def test_the_plugins_error(function: str) -> None:
    fast = torch.compile(lambda x: x * 3 - 1, backend="pjrt", options=fake.OPTIONS)
    torch.compile(lambda x: x + 7, backend="pjrt", options=fake.OPTIONS)(torch.ones(3))
    x = torch.ones(len(function))  # a program of its own for each function
    with (
        fake.failing(function, fake.RESOURCE_EXHAUSTED),
        pytest.raises(torch.OutOfMemoryError) as caught,
    ):
        fast(x)
    error = caught.value
    assert isinstance(error, torch_pjrt.OutOfMemoryError)
    assert isinstance(error, torch_pjrt.Error)
    assert error.code == "out_of_memory"
    for text in (function, "RESOURCE_EXHAUSTED", "told to fail", "smaller batch"):
        assert text in str(error)
    buffers = fake.library().torch_pjrt_fake_live(b"buffer")
    for _ in range(3):
        fast(x)
    # Its constants and its input, which are kept, at the most.
    assert fake.library().torch_pjrt_fake_live(b"buffer") <= buffers + 3
    assert fake.library().torch_pjrt_fake_live(b"error") == 0
    assert torch_pjrt.stats()["captures"] == 2


def test_another_error_is_no_want_of_memory() -> None:
    fast = torch.compile(lambda x: x * 3 - 2, backend="pjrt", options=fake.OPTIONS)
    with (
        fake.failing("PJRT_LoadedExecutable_Execute", code=14),
        pytest.raises(torch_pjrt.Error, match="UNAVAILABLE") as caught,
    ):
        fast(torch.ones(3))
    assert caught.value.code == "plugin"
    assert not isinstance(caught.value, torch.OutOfMemoryError)


@pytest.mark.plugin
def test_a_program_whose_own_values_are_too_large() -> None:
    n = 2**23  # n * n floats are more than there are addresses for

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.unsqueeze(1).expand(n, n) @ x.unsqueeze(0).expand(n, n)).sum()

    fast = torch.compile(f, backend="pjrt")
    x = torch.ones(n)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError, match="smaller batch"):
            fast(x)
    assert_close(torch.compile(lambda x: x + 1, backend="pjrt")(x), x + 1)


@pytest.mark.plugin
def test_an_output_that_is_too_large_is_eagers_error() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.unsqueeze(1) + x.unsqueeze(0)

    x = torch.ones(2**23)
    for function in (f, torch.compile(f, backend="pjrt")):
        with pytest.raises(RuntimeError, match="DefaultCPUAllocator: can't allocate memory"):
            function(x)
    assert_close(torch.compile(f, backend="pjrt")(torch.ones(3)), f(torch.ones(3)))
