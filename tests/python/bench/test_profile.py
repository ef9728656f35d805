"""`bench --profile`."""

from __future__ import annotations

import pytest
import torch

from torch_pjrt.bench import cli, pieces
from torch_pjrt.bench.models.registry import MODELS

pytestmark = pytest.mark.plugin


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.convolution(x)).relu()
        y = torch.nn.functional.max_pool2d(y, 2).mean((2, 3))
        return self.linear(y).softmax(-1)


def test_the_pieces_of_a_model_give_its_values() -> None:
    model, x = Model().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        whole = pieces.captured(model, (x,))
        placeholders = whole.gm.graph.find_nodes(op="placeholder")
        values = dict(zip(placeholders, whole.inputs, strict=True))
        found = pieces.pieces(whole)
        for piece in found:
            results = piece.call([values[node] for node in piece.reads])
            values.update(zip(piece.writes, results, strict=True))
        groups = [piece.group for piece in found]
        heavy = [group for group in groups if group != pieces.OTHER]
        assert heavy == ["convolution", "pooling", "product"]
        assert len(groups) == 6
        (result,) = whole.gm.graph.find_nodes(op="output")[0].all_input_nodes
        torch.testing.assert_close(values[result], model(x))


def test_groups_of_eagers_events() -> None:
    assert pieces.group_of("aten::mkldnn_convolution") == "convolution"
    assert pieces.group_of("aten::addmm") == "product"
    assert pieces.group_of("aten::max_pool2d_with_indices") == "pooling"
    assert pieces.group_of("aten::native_layer_norm") == pieces.OTHER


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--profile --only mlp_3_layers --repeat 2"
    assert cli.main(words.split(), MODELS) == 0
    out = capsys.readouterr().out
    assert "product" in out and "host µs" in out
