"""Small models of the transformers library, with random weights, against eager."""

from __future__ import annotations

import pytest
from architectures import runs, table
from architectures.models import ARCHITECTURES, FURTHER

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

OFTEN = ("GPT-2", "ViT")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in OFTEN else pytest.mark.full) for name in ARCHITECTURES],
)
def test_an_architecture_does_as_the_readme_says(name: str) -> None:
    """Inference, training and generation equal eager's, with as many breaks and fallbacks."""
    assert table.row(name) == table.recorded()[name]


def test_the_readme_has_all_of_them() -> None:
    assert list(table.recorded())[2:] == list(ARCHITECTURES)


@pytest.mark.full
@pytest.mark.parametrize("name", FURTHER)
def test_inference_of_others_equals_eagers(name: str) -> None:
    assert runs.inference(name).error < 1e-4
