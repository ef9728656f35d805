"""torch's own cache of AOTAutograd's results, with another store than torch's folder."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache, BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor import config as inductor_config
from torch._inductor.output_code import OutputCode

__all__ = [
    "CaptureStore",
    "NotKept",
    "OutputCode",
    "autograd_cache",
    "inputs_in_memory",
    "is_to_be_saved",
    "keepable",
    "stored_nowhere",
]

NotKept = BypassAOTAutogradCache  # why torch's cache leaves a graph out


class CaptureStore(Protocol):
    """`read` gives what was written for a key: of each result, which torch distinguishes by its
    guards, the bytes, which are unpickled. `write`, which comes after it, adds one."""

    def read(self, key: str) -> list[bytes]: ...
    def write(self, key: str, result: bytes) -> None: ...


def keepable(compiler: Callable[..., Any]) -> Any:
    """AOTAutograd's compiler, which returns an OutputCode, as one whose result may be kept."""
    return SerializableAOTDispatchCompiler(OutputCode, compiler)


@contextmanager
def autograd_cache(store: CaptureStore, tag: str) -> Iterator[None]:
    """Turns torch's cache on for a compile by this thread. `tag`: a part of the key."""
    on = {
        "enable_autograd_cache": True,
        "enable_remote_autograd_cache": False,
        "bundled_autograd_cache": True,
        "strict_autograd_cache": False,
    }
    config: Any = torch.compiler.config
    with (
        _storing_in(store),
        functorch_config.patch(on),
        inductor_config.patch(fx_graph_cache=True),
        config.patch(cache_key_tag=tag),
    ):
        yield


def is_to_be_saved() -> bool:
    """Whether this compile is of torch.compile(...).aot_compile, whose result can be saved."""
    config: Any = functorch_config
    return bool(config.force_autograd_cache and config.bypass_autograd_cache_key)


@contextmanager
def stored_nowhere() -> Iterator[None]:
    """Keeps such a compile by this thread out of torch's cache, where nothing would find it."""
    with _storing_in(_Nowhere()):
        yield


class _Nowhere:
    def read(self, key: str) -> list[bytes]:
        return []

    def write(self, key: str, result: bytes) -> None:
        pass


@contextmanager
def _storing_in(store: CaptureStore) -> Iterator[None]:
    """Other threads, such as one that compiles another backend's backward, have torch's folder."""
    owner = threading.get_ident()
    cache: Any = AOTAutogradCache
    candidates, write = cache.iterate_over_candidates, cache._write_to_local_cache

    def our_candidates(local: bool, remote: Any, key: str) -> Iterator[tuple[Any, bytes, bool]]:
        if threading.get_ident() != owner:
            yield from candidates(local, remote, key)
            return
        for content in store.read(key):
            yield pickle.loads(content), content, True

    def our_write(key: str, content: bytes) -> None:
        (store.write if threading.get_ident() == owner else write)(key, content)

    with (
        _replaced(cache, "iterate_over_candidates", our_candidates),
        _replaced(cache, "_write_to_local_cache", our_write),
    ):
        yield


@contextmanager
def _replaced(cache: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Puts a function in the place of a method that takes no instance."""
    own = cache.__dict__.get(name)
    setattr(cache, name, staticmethod(function))
    try:
        yield
    finally:
        if own is None:
            delattr(cache, name)
        else:
            setattr(cache, name, own)


def inputs_in_memory(inputs: Sequence[Any]) -> list[tuple[int, str] | None]:
    """What torch's key lacks of the inputs of a graph, None for numbers: the first one that has the
    same storage, and where in it they begin."""
    first: dict[int, int] = {}
    return [
        (
            first.setdefault(int(value.untyped_storage()._cdata), index),
            str(value.storage_offset()),
        )
        if isinstance(value, torch.Tensor) and value.layout is torch.strided
        else None
        for index, value in enumerate(inputs)
    ]
