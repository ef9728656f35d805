"""What torch.compile(...).aot_compile saves, and torch.compiler loads in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_pjrt

pytestmark = pytest.mark.plugin

FUNCTIONS = """
import sys
from pathlib import Path
import torch
from torch._dynamo.aot_compile import ModelInput

folder, device = Path(sys.argv[1]), "pjrt"

def many(x, number):
    y = (x * torch.tensor([1.0, 2.0, 3.0, 4.0])).relu()
    x.add_(1)
    return y, y[1:], number + x.shape[0], torch.nn.functional.dropout(y, 0.5)

def loss(x, weight):
    return torch.nn.functional.gelu(x @ weight).sum()

def plain(x):
    return x.relu() + 1

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return self.linear(x).relu()

def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
"""

SAVE = (
    FUNCTIONS
    + """
import torch_pjrt

def save(function, name, *args):
    compiled = torch.compile(function, backend="pjrt", fullgraph=True).aot_compile((args, {}))
    compiled.save_compiled_function(str(folder / name))

x = torch.randn(5, 4)
torch._dynamo.mark_dynamic(x, 0)
save(many, "many", x, 3)
save(loss, "loss", torch.randn(3, 4), torch.randn(4, 4, requires_grad=True))
save(plain, "plain", torch.randn(3, 4).to(device))
model = torch.compile(Model(), backend="pjrt", fullgraph=True)
model._aot_compile([ModelInput((torch.randn(2, 4),), {}, [])])
model._save_aot_compiled_module(str(folder / "model"))
assert torch_pjrt.stats()["captures"] == 6
"""
)

LOAD = (
    FUNCTIONS
    + """
from torch._functorch import aot_autograd

def fail(*args):
    raise AssertionError("AOTAutograd traced")

aot_autograd.aot_stage1_graph_capture = fail

def load(name):
    with open(folder / name, "rb") as file:
        return torch.compiler.load_compiled_function(file)

saved = load("many")
for n in (5, 7):
    x = torch.randn(n, 4)
    own = x.clone()
    y, part, number, dropped = saved(x, 3)
    expected = many(own, 3)
    same([x, y, part], [own, *expected[:2]])
    assert number == expected[2]
    assert part.data_ptr() == y.data_ptr() + 16
    assert ((dropped == 0) | torch.isclose(dropped, 2 * y)).all()

saved = load("loss")
x, weight = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)
own = weight.detach().clone().requires_grad_()
loss(x, own).backward()
result = saved(x, weight)
result.backward(retain_graph=True)
same(weight.grad, own.grad)
result.backward()
same(weight.grad, 2 * own.grad)

model, own = Model(), Model()
own.load_state_dict(model.state_dict())
fast = torch.compile(model, backend="pjrt", fullgraph=True)
fast._load_aot_compiled_module((folder / "model").read_bytes())
x = torch.randn(2, 4)
got, expected = fast(x), own(x)
same([got, model.count], [expected, own.count])
got.sum().backward()
expected.sum().backward()
same(model.linear.weight.grad, own.linear.weight.grad)

x = torch.randn(3, 4)
same(load("plain")(x.to(device)).cpu(), plain(x))

import torch_pjrt
counts = torch_pjrt.stats()
assert (counts["captures"], counts["fallbacks"], counts["graph_breaks"]) == (6, 0, 0), counts
assert counts["executions"] == 8, counts
assert sum("the backward of" in line for line in str(torch_pjrt.explain_compiles()).splitlines())
"""
)


@pytest.mark.usefixtures("cache_folder")
def test_another_process_runs_them_without_autograds_tracing(tmp_path: Path) -> None:
    for script in (SAVE, LOAD):
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=os.environ, check=True)


def _saved(function: object, path: Path, x: torch.Tensor) -> None:
    compiled = torch.compile(function, backend="pjrt", fullgraph=True)  # type: ignore[call-overload]
    compiled.aot_compile(((x,), {})).save_compiled_function(str(path))


def test_a_call_that_its_guards_refuse(tmp_path: Path) -> None:
    _saved(lambda x: x + 1, tmp_path / "saved", torch.ones(3))
    with open(tmp_path / "saved", "rb") as file:
        loaded = torch.compiler.load_compiled_function(file)  # type: ignore[arg-type]
    assert torch.equal(loaded(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="dtype"):
        loaded(torch.ones(3, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore::torch_pjrt.FallbackWarning")
def test_what_is_no_single_program(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x) + 1

    with pytest.raises(torch_pjrt.Error, match="has to be one program") as found:
        _saved(function, tmp_path / "saved", torch.ones(3, 3))
    assert "remedy: call torch_pjrt.explain" in str(found.value)
    assert not list(tmp_path.iterdir())
