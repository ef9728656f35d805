"""Errors on device="pjrt": where they surface, what they say, and what they leave behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import torch_pjrt

ROOT = Path(torch_pjrt.__file__).parent.parent


def index(*values: int) -> torch.Tensor:
    return torch.tensor(values, device="pjrt")


def python(code: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), str(ROOT / "tests" / "python")]
    code = f"import sys; sys.path[:0] = {paths!r}\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


WRITES: dict[str, Callable[[torch.Tensor], object]] = {
    "index_put": lambda x: x.index_put_((index(1, 9),), torch.full((2,), 5.0, device="pjrt")),
    "index_add": lambda x: x.index_add_(0, index(0, 7), torch.ones(2, device="pjrt")),
    "scatter": lambda x: x.scatter_(0, index(2, -5), 1.0),
}


@pytest.mark.parametrize("name", ["index_put", "index_add", "scatter"])
def test_a_failed_write_leaves_its_tensor_as_it_was(name: str) -> None:
    x = torch.arange(4.0).to("pjrt")
    x.mul_(2)
    WRITES[name](x)
    y = x + 1
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
        x.cpu()
    assert x.tolist() == [0, 2, 4, 6]
    assert y.tolist() == [1, 3, 5, 7]
    WRITES["index_put"](x)
    x.add_(1)
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
        torch.pjrt.synchronize()
    assert x.tolist() == [1, 3, 5, 7]


def test_a_good_write_beside_a_failed_one() -> None:
    x, z = torch.zeros(3, device="pjrt"), torch.zeros(3, device="pjrt")
    x[index(0, 1)] = 5.0
    z[index(0, 3)] = 5.0
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        torch.pjrt.synchronize()
    assert x.tolist() == [5, 5, 0]
    assert z.tolist() == [0, 0, 0]


def test_a_division_by_zero_in_place() -> None:
    x = torch.arange(3).to("pjrt")
    x.floor_divide_(torch.tensor([1, 0, 1], device="pjrt"))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x.cpu()
    assert x.tolist() == [0, 1, 2]


def test_an_error_names_op_and_shapes() -> None:
    table = torch.zeros(3, 2, device="pjrt")
    bad = table[index(0, 7)]
    wanted = r"index 7 is out of bounds.*\n  in aten::index.Tensor\(f32\[3,2\], i64\[2\]\)"
    with pytest.raises(IndexError, match=wanted):
        bad.cpu()

    def lookup(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return table[at] * 2

    fast = torch.compile(lookup, backend="pjrt", fullgraph=True)
    with pytest.raises(IndexError, match=r"in aten::index.Tensor\(f32\[3,2\].* at .*lookup"):
        fast(table, index(0, 7)).cpu()


def test_an_error_names_the_line_where_lines_are_asked_for() -> None:
    code = (
        "import os\n"
        "os.environ['TORCH_PJRT_DEBUG'] = 'lines'\n"
        "import torch, torch_pjrt\n"
        "table = torch.zeros(3, device='pjrt')\n"
        "fine = table[torch.tensor([1], device='pjrt')]\n"
        "bad = table[torch.tensor([5], device='pjrt')]\n"
        "torch.pjrt.mark_step()\n"
        "try: bad.cpu()\n"
        "except IndexError as error: print(error)\n"
    )
    done = python(code)
    assert "recorded at <string>:7 in <module>" in done.stdout, done.stdout + done.stderr


def test_an_error_of_the_plugin_names_the_last_op() -> None:
    code = (
        "import os\n"
        "os.environ['TORCH_PJRT_PLUGIN'] = 'fake'\n"
        "import torch, torch_pjrt\n"
        "from fake import RESOURCE_EXHAUSTED, failing\n"
        "x = torch.ones(3, 4, device='pjrt')\n"
        "torch.pjrt.mark_step()\n"
        "y = (x + 1) @ torch.ones(4, 2, device='pjrt')\n"
        "with failing('PJRT_LoadedExecutable_Execute', RESOURCE_EXHAUSTED):\n"
        "    torch.pjrt.mark_step()\n"
        "for _ in range(2):\n"
        "    try: y.cpu()\n"
        "    except torch_pjrt.OutOfMemoryError as error: print(error)\n"
        "print((x * 2).cpu().shape)\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("recorded on device pjrt, the last of them aten::mm(f32[3,4]") == 2
    assert "torch.Size([3, 4])" in done.stdout


def test_a_mutation_that_could_not_be_started_changes_nothing() -> None:
    code = (
        "import os\n"
        "os.environ['TORCH_PJRT_PLUGIN'] = 'fake'\n"
        "import torch, torch_pjrt\n"
        "from fake import RESOURCE_EXHAUSTED, failing\n"
        "fast = torch.compile(lambda x: x.mul_(2), backend='pjrt', fullgraph=True)\n"
        "x = torch.full((3,), 7.0).to('pjrt')\n"
        "fast(torch.ones(3, device='pjrt'))\n"
        "with failing('PJRT_LoadedExecutable_Execute', RESOURCE_EXHAUSTED):\n"
        "    try: fast(x)\n"
        "    except torch_pjrt.OutOfMemoryError: print('raised')\n"
        "print(x.tolist())\n"
    )
    done = python(code)
    assert done.stdout == "raised\n[7.0, 7.0, 7.0]\n", done.stdout + done.stderr


def test_an_interrupted_compile_is_no_loss() -> None:
    """Ctrl-C while a pending program is compiled: the read after it has the value."""
    code = (
        "import os, signal, threading, time\n"
        "os.environ['TORCH_PJRT_PLUGIN'] = 'fake'\n"
        "import torch, torch_pjrt\n"
        "from fake import library\n"
        "x = torch.ones(3, device='pjrt')\n"
        "torch.pjrt.mark_step()\n"
        "y = x * 3\n"
        "fake = library()\n"
        "fake.torch_pjrt_fake_delay(b'PJRT_Client_Compile', 1500)\n"
        "before = fake.torch_pjrt_fake_calls(b'PJRT_Client_Compile')\n"
        "def interrupt():\n"
        "    while fake.torch_pjrt_fake_calls(b'PJRT_Client_Compile') == before: time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "try: y.cpu(); print('not interrupted')\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "torch_pjrt.reset_stats()\n"
        "print(tuple(y.cpu().shape), tuple((y + 1).cpu().shape))\n"
        "print(fake.torch_pjrt_fake_calls(b'PJRT_Client_Compile') - before)\n"
    )
    done = python(code)
    assert done.stdout == "interrupted\n(3,) (3,)\n2\n", done.stdout + done.stderr
