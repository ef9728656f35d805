"""Settings for all Python tests: the slow ones run only with --full."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the tests marked `full` too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    slow = [item for item in items if item.get_closest_marker("full")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture
def fresh() -> Iterator[None]:
    """Dynamo without compiled code, and our counts at 0."""
    import torch._dynamo

    import torch_pjrt

    torch._dynamo.reset()
    torch_pjrt.reset_stats()
    yield
    torch._dynamo.reset()
