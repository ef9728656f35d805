"""Settings for all Python tests: the slow ones run only with --full."""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_CACHES = tempfile.TemporaryDirectory(prefix="torch_pjrt-caches-")
_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked `full` too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    slow = [item for item in items if item.get_closest_marker("full")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def pytest_configure() -> None:
    # A shell that starts this in the background has it ignore Ctrl-C, which tests send.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # For this process, before anything of ours runs. Never the user's own folder.
    os.environ["TORCH_PJRT_CACHE_DIR"] = _CACHES.name


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, not made yet, for the processes that a test starts."""
    folder = Path(_CACHES.name) / str(next(_numbers))
    monkeypatch.setenv("TORCH_PJRT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def fresh() -> Iterator[None]:
    """Dynamo without compiled code, and our counts at 0."""
    import torch._dynamo

    import torch_pjrt

    torch._dynamo.reset()
    torch_pjrt.reset_stats()
    yield
    torch._dynamo.reset()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test with a time of its own isn't ended by faulthandler's, which is for all others."""
    if item.get_closest_marker("timeout"):
        faulthandler.cancel_dump_traceback_later()
