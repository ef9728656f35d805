"""torch.pjrt: what torch's modules of devices have, and what a lazy device adds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from . import _C

__all__ = [
    "current_device",
    "default_generators",
    "device",
    "device_count",
    "fork_rng",
    "get_amp_supported_dtype",
    "get_rng_state",
    "host_ops",
    "init",
    "initial_seed",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "mark_step",
    "max_memory_allocated",
    "memory_allocated",
    "reset_host_ops",
    "reset_peak_memory_stats",
    "seed",
    "set_device",
    "set_rng_state",
    "synchronize",
]


def is_available() -> bool:
    """Whether device="pjrt" is registered. Starts nothing."""
    return True


def device_count() -> int:
    """1: programs run on the first device of the plugin. Starts nothing."""
    return 1


def current_device() -> int:
    return 0


def set_device(device: Any) -> None:
    """Raises RuntimeError for another device than the only one."""
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0, -1):
        raise RuntimeError(f"there is no device pjrt:{index}, only pjrt:0")


class device(contextlib.AbstractContextManager[None]):  # noqa: N801 (torch's name)
    """A context in which the device is the current one: there is only one."""

    def __init__(self, device: Any) -> None:
        set_device(device)

    def __exit__(self, *exception: object) -> None:
        return None


def init() -> None:
    """Nothing has to be: the plugin starts when the device is first used."""


def is_initialized() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return False


def mark_step() -> None:
    """Starts what was recorded and not yet run, as one program; doesn't wait for it."""
    _C.mark_step()


def synchronize(device: Any = None) -> None:
    """Starts what was recorded and waits until all that was started is complete. Raises the errors
    of what ran."""
    _C.synchronize()


def host_ops() -> dict[str, int]:
    """How often each op ran on the CPU, since the start or the last reset_host_ops()."""
    return _C.host_ops()


def reset_host_ops() -> None:
    _C.reset_host_ops()


def memory_allocated(device: Any = None) -> int:
    """Bytes of the values that tensors of the device hold, without what is pending."""
    return _C.device_memory()[0]


def max_memory_allocated(device: Any = None) -> int:
    """The most that memory_allocated() was, since the start or the last reset."""
    return _C.device_memory()[1]


def reset_peak_memory_stats(device: Any = None) -> None:
    _C.reset_peak_device_memory()


# --- random numbers


class _Generators:
    """Of each device, as torch.cuda.default_generators."""

    def __getitem__(self, index: int) -> torch.Generator:
        return _C.default_generator()

    def __len__(self) -> int:
        return 1


default_generators = _Generators()


def manual_seed(seed: int) -> None:
    _C.default_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def seed() -> int:
    return int(_C.default_generator().seed())


def initial_seed() -> int:
    return int(_C.default_generator().initial_seed())


def get_rng_state(device: Any = "pjrt") -> torch.Tensor:
    """The state of the device's generator, a tensor on the CPU."""
    state: torch.Tensor = _C.default_generator().get_state()
    return state


def set_rng_state(new_state: torch.Tensor, device: Any = "pjrt") -> None:
    _C.default_generator().set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Iterable[Any] | None = None) -> Iterator[None]:
    """Gives the generator its state back at the end."""
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def _lazy_init() -> None:
    init()
