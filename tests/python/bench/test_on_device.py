"""The benchmark on device="pjrt": --use-xla-baseline, --trace-on-xla, --naive-replay, --recording.

Each in a process of its own where it sets the process's plugin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torch_pjrt
from torch_pjrt.bench import cli
from torch_pjrt.bench.models.registry import Spec

pytestmark = pytest.mark.plugin

ROOT = str(Path(torch_pjrt.__file__).parent.parent)


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.norm(self.first(x)).relu())
        return out


def _inputs(batch: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randn(batch, 8, generator=generator),)


TINY = Spec("tiny", "tiny", Tiny, _inputs, parameters=0, batch_size=6)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def bench(tmp_path: Path, *arguments: str) -> tuple[int, Any]:
    file = tmp_path / "r.json"
    command = ["--performance", "--repeat", "2", "--json", str(file), *arguments]
    status = cli.main(command, {"tiny": TINY}, isolated=False)
    return status, json.loads(file.read_text())["models"][0]


@pytest.mark.parametrize("where", ["--use-xla-baseline", "--trace-on-xla"])
def test_inference(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends = ["torchxla_trivial", "torchxla_trace_once"]
    status, model = bench(
        tmp_path, "--inference", where, *(f"--backend={name}" for name in backends)
    )
    text = capsys.readouterr().out
    assert status == cli.OK, text
    assert "device ms" in text
    assert ("R2" if where == "--trace-on-xla" else "R1") + " once" in text
    assert len(model["baseline_samples_s"]) == 2
    for entry in model["backends"]:
        assert entry["status"] == "passed"
        assert entry["warm_counts"]["executions"] == 2
        assert entry["warm_counts"]["compiles"] == 0
        assert not entry["warnings"] or "compiled nothing" in entry["warnings"][0]
    if where == "--trace-on-xla":
        once = model["backends"][1]["warm_counts"]
        assert once["host_to_device_bytes"] == once["device_to_host_bytes"] == 0


def test_training_in_our_order_and_in_the_naive_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, model = bench(
        tmp_path,
        "--training",
        "--trace-on-xla",
        "--naive-replay",
        "--backend=aot_torchxla_trace_once",
        "--iterations-per-run=3",
    )
    assert status == cli.OK, capsys.readouterr().out
    programs = {e["backend"]: e["executions_per_step"] for e in model["backends"]}
    assert programs["aot_torchxla_trace_once"] == 4  # the loss is outside of the model
    assert programs["train_step"] == 1
    assert programs["naive_replay"] >= 5
    assert all(e["status"] == "passed" for e in model["backends"])


def in_a_process(code: str) -> str:
    begin = f"import os, sys; sys.path[:0] = [{ROOT!r}, {ROOT + '/tests/python'!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["--inference", "--training"])
def test_host_cost_of_tracing(kind: str) -> None:
    text = in_a_process(
        "from bench.test_on_device import TINY\n"
        "from torch_pjrt.bench import cli\n"
        f"sys.exit(cli.main(['--performance', {kind!r}, '--null-device', '--trace-on-xla', "
        "'--repeat', '2', '--iterations-per-run', '2'], {'tiny': TINY}, isolated=False))\n"
    )
    assert "| tiny" in text
    assert "passed" in text
    assert "geomean every time /" in text


def test_a_model_that_dynamo_gave_up_is_no_row() -> None:
    """Code that many models share must not be at Dynamo's limit for the last of them."""
    text = in_a_process(
        "import torch, torch._dynamo\n"
        "from bench.test_on_device import TINY\n"
        "from torch_pjrt.bench import device_cost\n"
        "os.environ['TORCH_PJRT_PLUGIN'] = 'fake'\n"
        "torch._dynamo.config.recompile_limit = 2\n"
        "with torch.no_grad():\n"
        "    for _ in range(3): print(device_cost.row(TINY, device_cost.INFERENCE, 4, 1, 2)[-1])\n"
        "    torch._dynamo.reset = lambda: None\n"
        "    print(device_cost.row(TINY, device_cost.INFERENCE, 4, 1, 2)[-1])\n"
    )
    assert text.splitlines()[:3] == ["passed"] * 3
    assert "once: Dynamo captured nothing" in text.splitlines()[3]


def test_recording_is_compared_with_eager() -> None:
    text = in_a_process(
        "from torch_pjrt.bench import recording\n"
        "recording.run(2)\n"
        "import torch_pjrt\n"
        "assert torch_pjrt.stats()['executions'] == 0\n"
    )
    assert "a chain of 100 ops" in text
    assert "resnet18 of 4 channels" in text
