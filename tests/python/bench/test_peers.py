"""`bench --peers`: ours in its forms beside eager's and torch's, on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch import nn

from torch_pjrt.bench import cli, peers
from torch_pjrt.bench.models.registry import Spec

pytestmark = pytest.mark.plugin


@pytest.fixture(autouse=True)
def without_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def build() -> nn.Module:
    return nn.Sequential(nn.Conv2d(16, 64, 3), nn.ReLU())


def inputs(batch: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 16, 6, 6, generator=generator),)


TINY = {"tiny": Spec("tiny", "tiny", build, inputs, 64 * 16 * 9 + 64, 2)}


def test_all_in_one_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Inductor's compiler takes a minute.
    monkeypatch.setattr(peers, "ALL", (*peers.ALL[:-1], "aot_eager"))
    record = tmp_path / "r.json"
    flags = ["--performance", "--peers", "--repeat", "3", "--json", str(record)]
    assert cli.main(flags, TINY, isolated=False) == cli.OK
    (model,) = json.loads(record.read_text())["models"]
    found = {entry["backend"]: entry for entry in model["backends"]}
    assert set(found) == {"pjrt", *peers.NAMES, "aot_eager"}
    for entry in found.values():
        assert (entry["status"], entry["warnings"], len(entry["samples_s"])) == ("passed", [], 3)
    kept = 64 * 16 * 9 * 4
    for name in ("pjrt", *peers.OURS):
        assert found[name]["cold_counts"]["relaid_bytes"] == kept
        assert found[name]["warm_counts"]["executions"] == 3
        assert found[name]["warm_counts"]["relaid_inputs"] == 0
    assert "| weights' check ms | kept MB |" in capsys.readouterr().out


def test_channels_last_runs_channels_last() -> None:
    model = build()
    y = peers.compiled(peers.CHANNELS_LAST, model)(*inputs(2, torch.Generator()))
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert model[0].weight.is_contiguous(), "the model stays as it is"


@pytest.mark.parametrize("more", [["--null-device"], ["--training"], ["--backend", "eager"]])
def test_usage_errors(more: list[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--performance", "--peers", *more], TINY)
