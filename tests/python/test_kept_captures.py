"""The option keep_captures: what a restart takes up of AOTAutograd's work, and what it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.plugin

# Prints the counts of ours and of torch's cache, and the results.
SCRIPT = """
import json, sys
import torch, torch_pjrt
from torch._dynamo.utils import counters
from torch._functorch import aot_autograd
kind, options = json.loads(sys.argv[1])
torch.manual_seed(0)
traced = []
trace = aot_autograd.aot_stage1_graph_capture
aot_autograd.aot_stage1_graph_capture = lambda *args: traced.append(1) or trace(*args)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(128, 128)
        self.last = torch.nn.Linear(128, 128)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, cache):
        self.count.add_(1)
        cache[:, 1] = x[:, 0]
        y = self.linear(x)
        dropped = torch.nn.functional.dropout(y, 0.5)
        return self.last(y), y, y[1:], cache, dropped, self.linear.weight.t()

model = Model()
fast = torch.compile(model, backend="pjrt", dynamic=True, options=options)
values = []
autocast = torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast")
with torch.set_grad_enabled(kind == "training"), autocast:
    for n in (3, 4, 5):
        x, cache = torch.randn(n, 128), torch.zeros(n, 4)
        last, y, part, changed, dropped, weight = fast(x, cache)
        close = {"rtol": 1e-5, "atol": 1e-5} if kind != "autocast" else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(y, model.linear(x), **close)
        torch.testing.assert_close(last, model.last(y), **close)
        assert part.data_ptr() == y.data_ptr() + 128 * y.element_size()
        assert changed is cache and torch.equal(cache[:, 1], x[:, 0])
        assert weight.data_ptr() == model.linear.weight.data_ptr()
        assert ((dropped == 0) | torch.isclose(dropped, 2 * y)).all()
        values += [str(y.dtype), last.sum().item(), dropped.sum().item()]
        if kind == "training":
            last.sum().backward()
values.append(model.count.item())
assert model.count.item() == 3
counts = {"hits": 0, "traces": len(traced), **torch_pjrt.stats()}
counts["hits"] += counters["aot_autograd"]["autograd_cache_hit"]
print(json.dumps([counts, values]))
"""


def run(kind: str = "plain", **options: Any) -> tuple[dict[str, int], Any]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([kind, {"keep_captures": True, **options}])],
        env=os.environ,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    counts, values = json.loads(done.stdout)
    return counts, values


def count(counts: dict[str, int], *names: str) -> tuple[int, ...]:
    return tuple(counts[name] for name in names)


def entries(folder: Path) -> int:
    return len(list(folder.glob("*.program")))


def test_a_restart_traces_nothing(cache_folder: Path) -> None:
    names = ("captures", "traces", "hits", "compiles", "disk_hits", "relaid_inputs")
    first, values = run()
    assert count(first, *names) == (1, 1, 0, 3, 0, 1)
    assert entries(cache_folder) == 4
    again, same = run()
    assert count(again, *names) == (1, 0, 1, 0, 3, 1)
    assert count(again, "lowerings", "disk_faults") == (0, 0)
    assert same == values


@pytest.mark.full
def test_other_settings(cache_folder: Path) -> None:
    """Another autocast, and other options of what becomes a program, are another capture. Options
    of the program are this process's own."""
    run()
    other, _ = run("autocast")
    assert count(other, "compiles", "hits") == (3, 0)
    changed, _ = run(compile_overrides={"xla_cpu_enable_fast_math": False})
    assert count(changed, "compiles", "hits", "traces") == (3, 1, 0)
    cut, _ = run(eager_ops=["aten::addmm"])
    assert count(cut, "hits", "traces") == (0, 1)
    assert cut["fallbacks"] > 0
    again, _ = run(eager_ops=["aten::addmm"])
    assert count(again, "hits", "traces") == (0, 1)


@pytest.mark.full
def test_damage(cache_folder: Path) -> None:
    _, values = run()
    names = ("compiles", "disk_hits", "hits", "disk_faults")
    for path in cache_folder.glob("*.program"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    counts, same = run()
    assert (count(counts, *names), same) == ((3, 0, 0, 4), values)
    assert (count(run()[0], *names)) == (0, 3, 1, 0)
    for path in cache_folder.glob("*.program"):
        path.chmod(0o666)
    counts, same = run()
    assert (count(counts, *names), same) == ((3, 0, 0, 4), values)


@pytest.mark.full
def test_training_and_host_draws_are_not_kept(cache_folder: Path) -> None:
    assert run("training")[0]["hits"] == 0
    kept = entries(cache_folder)
    assert run("training")[0]["hits"] == 0
    assert run(random="eager")[0]["hits"] == 0
    assert run(disk_cache=False)[0]["hits"] == 0
    assert kept == entries(cache_folder) - 3


# torch's key says nothing of where inputs lie in memory.
PLACES = """
import sys, torch, torch_pjrt
from torch._dynamo.utils import counters

@torch.compile(backend="pjrt", options={"keep_captures": True})
def fast(x, y):
    y.copy_(x + 1)
    y.mul_(2)
    return x * 2

def eager(x, y):
    y.copy_(x + 1)
    y.mul_(2)
    return x * 2

x, y = eval(sys.argv[1], {"r": torch.arange})
rx, ry = eval(sys.argv[1], {"r": torch.arange})
got, want = fast(x, y), eager(rx, ry)
for a, b in zip((x, y, got), (rx, ry, want)):
    torch.testing.assert_close(a, b)
print(counters["aot_autograd"]["autograd_cache_hit"])
"""


@pytest.mark.full
@pytest.mark.usefixtures("cache_folder")
def test_inputs_elsewhere_in_memory() -> None:
    def hits(inputs: str) -> int:
        command = [sys.executable, "-c", PLACES, inputs]
        return int(subprocess.check_output(command, env=os.environ, text=True))

    apart = "r(4.), r(4.) * 2"
    assert [hits(apart), hits(apart)] == [0, 1]
    assert hits("r(9.)[4:8], r(9.)[:4]") == 0
    assert hits("(lambda b: (b[:4], b[2:6]))(r(6.))") == 0
    assert hits("(lambda b: (b[2:6], b[:4]))(r(6.))") == 0


# Another backend that keeps what AOTAutograd makes, at torch's own place.
OTHER = """
import sys, torch, torch_pjrt
import torch._functorch.config, torch._inductor.config
from torch._dynamo.utils import counters
torch._functorch.config.force_autograd_cache = True
torch._functorch.config.bundled_autograd_cache = True

def compiled(backend, **options):
    torch._dynamo.reset()
    counters.clear()
    fast = torch.compile(lambda x: x.sin() * 2, backend=backend, **options)
    x = torch.arange(4.0)
    torch.testing.assert_close(fast(x), x.sin() * 2)
    return counters["aot_autograd"]["autograd_cache_hit"]

ours = dict(options={"keep_captures": True})
print(compiled("aot_eager"), compiled("pjrt", **ours))
print(compiled("aot_eager"), compiled("pjrt", **ours))
print(torch_pjrt.stats()["captures"], torch_pjrt.stats()["fallbacks"])
"""


@pytest.mark.full
@pytest.mark.usefixtures("cache_folder")
def test_another_backends_artefacts(tmp_path: Path) -> None:
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    out = subprocess.check_output([sys.executable, "-c", OTHER], env=env, text=True)
    assert out.split() == ["0", "0", "1", "1", "2", "0"]
