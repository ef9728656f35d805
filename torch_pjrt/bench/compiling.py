"""Compiled functions whose first call is cold, and what is told of one that fails."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config

from . import counters, peers


@contextlib.contextmanager
def cold_compiler(backends: Sequence[str]) -> Iterator[None]:
    """A compiler that has been imported and started, but has compiled nothing and reads no cache
    of torch's: first calls inside cost what compiling costs."""
    with torch._inductor.config.patch(force_disable_caches=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="dynamo_pgo force disabled")
        for backend in backends:
            # A backend that fails here fails on the model too, where it is reported.
            with contextlib.suppress(Exception):
                compiled(_tiny, backend)(torch.ones(2))
        torch._dynamo.reset()
        yield


def compiled(
    function: Callable[..., Any], backend: str, random: str | None = None
) -> Callable[..., Any]:
    """Without programs from disk where the backend is ours, so that a first call is cold. `random`
    is our option, for a backend of ours."""
    if backend in peers.NAMES:
        return peers.compiled(backend, function)
    options: dict[str, Any] | None = None
    if counters.is_ours(backend):
        options = {"disk_cache": False} | ({"random": random} if random else {})
    return torch.compile(function, backend=backend, options=options)


def _tiny(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def one_line(error: BaseException) -> str:
    """The error's type and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
