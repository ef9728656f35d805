"""What the text of models' programs may hold: no more transposes than it does now."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from torch_pjrt.bench.models.registry import MODELS

pytestmark = [pytest.mark.plugin, pytest.mark.usefixtures("fresh")]


class _Texts(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        _, found, text = record.getMessage().partition("stablehlo:\n")
        if found:
            self.texts.append(text)


@contextmanager
def lowered_texts() -> Iterator[list[str]]:
    logger, handler = logging.getLogger("torch_pjrt"), _Texts()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield handler.texts
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


# Of images, and of weights and biases, which XLA computes as they are read. Frozen, batch 1.
TRANSPOSES = {
    "resnet18": 61,
    "resnet50": 160,
    "resnext50_32x4d": 160,
    "alexnet": 8,
    "mobilenet_v2": 227,
    "mnasnet1_0": 157,
    "squeezenet1_1": 27,
    "vgg16": 16,
    "BERT_pytorch": 12,
    "timm_vision_transformer": 14,
}
NORMAL = ("squeezenet1_1", "mnasnet1_0")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in NORMAL else [pytest.mark.full]) for n in TRANSPOSES],
)
def test_transposes(name: str) -> None:
    spec = MODELS[name]
    model = spec.build(0)
    inputs = spec.inputs(1, torch.Generator().manual_seed(0))
    options = {"freeze": True, "disk_cache": False}
    with lowered_texts() as texts, torch.no_grad():
        torch.compile(model, backend="pjrt", options=options)(*inputs)
    (text,) = texts
    assert text.count("stablehlo.transpose") <= TRANSPOSES[name]


def test_images_stay_channels_last_from_end_to_end() -> None:
    """Between convolutions nothing is turned but what comes in and goes out."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(4, 8, 3, bias=False)
            self.left = torch.nn.Conv2d(8, 8, 1, bias=False)
            self.right = torch.nn.Conv2d(8, 8, 3, padding=1, bias=False)
            self.last = torch.nn.Conv2d(16, 6, 3, bias=False)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = torch.nn.functional.max_pool2d(self.first(x).relu(), 2)
            y = torch.cat([self.left(y), self.right(y)], dim=1)
            return torch.split(self.last(y).sigmoid() * 2, [2, 4], dim=-3)

    model, x = Model(), torch.randn(2, 4, 20, 18)
    with lowered_texts() as texts, torch.no_grad():
        fast = torch.compile(model, backend="pjrt", options={"freeze": True, "disk_cache": False})
        torch.testing.assert_close(fast(x), model(x))
    (text,) = texts
    assert text.count("stablehlo.transpose") == 3  # x, and the two results


DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool]


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cat_of_other_memory_orders(dtype: torch.dtype, dim: int) -> None:
    """The tensors' orders in memory differ, and so may their types."""

    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        joined = torch.cat([a.permute(2, 0, 1) * 2, b, c.transpose(0, 2)], dim)
        return (joined, *joined.transpose(0, 1).split(3, dim))

    n = [3, 3, 3]
    n[dim] = 5
    a = torch.randint(0, 2, (3, 3, 3)).to(dtype)
    b = torch.randint(0, 2, n).to(torch.float32)
    c = torch.zeros(n[2], n[1], n[0])
    c = c.narrow(2 - dim % 3, 0, 0).to(dtype)
    expected = function(a, b, c)
    got = torch.compile(function, backend="pjrt", fullgraph=True)(a, b, c)
    for x, y in zip(got, expected, strict=True):
        torch.testing.assert_close(x, y)
        assert x.stride() == y.stride()
