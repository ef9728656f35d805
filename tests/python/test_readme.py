"""The examples in README.md run as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def test_the_example() -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert examples
    for example in examples:
        assert 'backend="pjrt"' in example
        exec(compile(example, str(README), "exec"), {})


def test_no_link_is_broken() -> None:
    for page in (README, *README.parent.glob("docs/*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
