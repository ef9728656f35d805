"""device="pjrt": registered when torch_pjrt is imported; its module is torch.pjrt."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.backend_registration import rename_privateuse1_backend

from . import _C, copies, module_ties, plugins
from .errors import failure

__all__ = ["HostOpWarning", "register"]

_log = logging.getLogger("torch_pjrt")
_taken_by: str | None = None  # the device of another extension


class HostOpWarning(UserWarning):
    """An op on device="pjrt" runs on the CPU: its tensors are moved there and back."""


def register() -> None:
    """Makes the device known to torch, unless another extension holds its one place for such."""
    global _taken_by
    if not _C.register_device(plugin=_plugin, trace=_trace, warn=_warn, line=_line):
        from . import device_taken

        _taken_by = torch.device("privateuseone").type
        sys.modules["torch.pjrt"] = torch.pjrt = device_taken  # type: ignore[attr-defined]
        _log.info("device pjrt is not available: %s", unavailable())
        return
    rename_privateuse1_backend("pjrt")
    from . import device_module

    torch._register_device_module("pjrt", device_module)
    _identify_storages()
    _run_backwards_in_their_callers_thread()
    module_ties.keep()


def _run_backwards_in_their_callers_thread() -> None:
    """By default autograd has a thread for each device, and none for one that was registered after
    the first backward. What a backward records is its caller's."""
    run = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def may_be_ours(output: Any) -> bool:
        # One that starts on the CPU may lead to the device.
        return not isinstance(output, torch.Tensor) or output.device.type in ("pjrt", "cpu")

    def run_backward(outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if not any(map(may_be_ours, outputs)):
            return run(outputs, *args, **kwargs)
        with torch.autograd.set_multithreading_enabled(False):
            return run(outputs, *args, **kwargs)

    torch.autograd._engine_run_backward = run_backward  # type: ignore[assignment, attr-defined]


def _identify_storages() -> None:
    """torch and safetensors tell storages apart by data_ptr(). Where the plugin's memory isn't the
    host's, a storage's is 0, as torch has it for what has no memory, and a tensor's raises."""
    of_storage, of_tensor = torch.UntypedStorage.data_ptr, torch.Tensor.data_ptr

    def storage_data_ptr(self: torch.UntypedStorage) -> int:
        if self.device.type != "pjrt":
            return of_storage(self)
        try:
            return _C.address_of(torch.empty(0, dtype=torch.uint8, device="pjrt").set_(self))
        except _C.Error as error:
            if error.code != "unsupported":
                raise
            return 0

    def tensor_data_ptr(self: torch.Tensor) -> int:
        has_memory = type(self).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        if self.device.type != "pjrt" or not has_memory:
            return of_tensor(self)
        if self.numel() == 0:
            return 0
        return _C.address_of(self) + int(self.storage_offset()) * self.element_size()

    torch.UntypedStorage.data_ptr = storage_data_ptr  # type: ignore[assignment, method-assign]
    torch.Tensor.data_ptr = tensor_data_ptr  # type: ignore[assignment, method-assign]


def unavailable() -> Exception:
    """Error (invalid), where the device could not be registered."""
    return failure(
        "invalid",
        what="device pjrt is not available: torch takes one device from outside (PrivateUse1), and "
        f"here that is {_taken_by!r}, of another extension that was imported before torch_pjrt",
        remedy="use one of the two in a process; torch.compile(backend='pjrt') works on CPU "
        "tensors beside both",
    )


def _plugin() -> str:
    return plugins.choose(None)


def _trace(name: str, mutates: bool, given: list[Any]) -> Any:
    """trace.trace() in a thread of its own, where none of the caller's modes are on; a string says
    why the op has no graph."""
    outcome: list[Any] = []

    def run() -> None:
        from .trace import trace

        try:
            outcome.append(trace(name, mutates, given))
        except Exception as error:
            outcome.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, name="torch_pjrt trace")
    thread.start()
    thread.join()
    return outcome[0]


def _line() -> str:
    """The innermost line of the user's that is running."""
    frame = sys._getframe(copies.users_frame() - 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _warn(name: str, why: str) -> None:
    warnings.warn(
        f"{name} on device pjrt runs on the CPU: {why.splitlines()[0]}",
        HostOpWarning,
        stacklevel=2,
    )
