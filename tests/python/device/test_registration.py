"""What importing torch_pjrt registers, and that it leaves all else as it was."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_pjrt

ROOT = str(Path(torch_pjrt.__file__).parent.parent)


def python(code: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {ROOT!r})\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_import_starts_nothing() -> None:
    code = (
        "import os, time, torch\n"
        "threads = lambda: len(os.listdir('/proc/self/task'))\n"
        "before = threads()\n"
        "import torch_pjrt\n"
        "print(torch.pjrt.is_available(), torch.pjrt.device_count(), torch.pjrt.current_device())\n"
        "torch.empty(2, device='pjrt') + 1\n"
        "maps = open('/proc/self/maps').read()\n"
        # The thread that traced the op has been joined, but may not have left the list yet.
        "end = time.monotonic() + 10\n"
        "while threads() > before and time.monotonic() < end: time.sleep(0.01)\n"
        "print(threads() - before, 'pjrt.so' in maps)\n"
    )
    done = python(code)
    assert done.stdout.split("\n")[:2] == ["True 1 0", "0 False"], done.stderr


TAKEN = (
    "import torch, types\n"
    "torch.utils.rename_privateuse1_backend('other')\n"
    "module = types.ModuleType('other')\n"
    "module.is_available = lambda: False\n"
    "torch._register_device_module('other', module)\n"
    "import torch_pjrt\n"
)


def test_another_extension_may_hold_the_place() -> None:
    code = TAKEN + (
        "fast = torch.compile(lambda x: x.sin() + 1, backend='pjrt')\n"
        "x = torch.randn(3)\n"
        "print(torch.allclose(fast(x), x.sin() + 1), torch.pjrt.is_available())\n"
        "try: torch.pjrt.synchronize()\n"
        "except torch_pjrt.Error as error: print(error)\n"
    )
    done = python(code)
    assert done.stdout.startswith("True False\n"), done.stderr
    assert "'other'" in done.stdout
    assert "remedy: " in done.stdout


def test_a_fork_before_the_first_use() -> None:
    code = (
        "import os, torch, torch_pjrt\n"
        "if os.fork() == 0:\n"
        "    print((torch.ones(2, device='pjrt') + 1).cpu().tolist(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print((torch.ones(2, device='pjrt') + 2).cpu().tolist())\n"
    )
    assert python(code).stdout.split("\n")[:2] == ["[2.0, 2.0]", "[3.0, 3.0]"]


def test_a_backward_on_the_cpu_before_the_import() -> None:
    code = (
        "import torch\n"
        "(torch.ones(3, requires_grad=True) * 2).sum().backward()\n"
        "import torch_pjrt\n"
        "x = torch.ones(3, device='pjrt', requires_grad=True)\n"
        "(x * 3).sum().backward()\n"
        "print(x.grad.tolist())\n"
    )
    done = python(code)
    assert done.stdout.strip() == "[3.0, 3.0, 3.0]", done.stderr


def test_moving_and_reading() -> None:
    x = torch.randn(3, 4)
    for t in (x, x.t(), x[:, 1], x[0, 0], x.expand(2, 3, 4), torch.empty(0, 3)):
        on_device = t.to("pjrt")
        assert on_device.device == torch.device("pjrt", 0)
        assert on_device.stride() == t.clone().stride()
        assert torch.equal(on_device.cpu(), t)
        assert on_device.tolist() == t.tolist()
    assert x[0, 0].to("pjrt").item() == x[0, 0].item()
    assert "device='pjrt:0'" in repr(x.to("pjrt"))
    assert bool(torch.tensor(True).to("pjrt"))


def test_moving_takes_the_values_of_that_moment() -> None:
    x = torch.zeros(1000)
    on_device = x.to("pjrt", non_blocking=True)
    x.fill_(1)
    assert on_device.cpu().sum() == 0
    read = on_device.cpu()
    on_device.add_(1)
    assert on_device.cpu().sum() == 1000
    assert read.sum() == 0


def test_tensors_of_two_devices() -> None:
    x = torch.ones(3, device="pjrt")
    assert (x + torch.tensor(2.0)).cpu().tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match=r"same device.*pjrt:0 and cpu"):
        x + torch.ones(3)


def test_errors_are_eagers() -> None:
    x = torch.ones(3, 4, device="pjrt")
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        x @ x
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch.ones(3, dtype=torch.int64, device="pjrt").add_(0.5)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.ones(1, device="pjrt").expand(3).add_(1)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.ones(1, device="pjrt").add_(torch.ones(3, device="pjrt"))


def test_an_op_without_a_rule_runs_on_the_cpu() -> None:
    torch.pjrt.reset_host_ops()
    x = torch.randn(3, 3, dtype=torch.float64)
    with pytest.warns(torch_pjrt.HostOpWarning, match="aten::_linalg_eigh"):
        values = torch.linalg.eigvalsh((x @ x.t()).to("pjrt"))
    assert torch.allclose(values.cpu(), torch.linalg.eigvalsh(x @ x.t()))
    assert values.device.type == "pjrt"
    assert torch.pjrt.host_ops() == {"aten::_linalg_eigh": 1}


def floats_at(address: int, count: int) -> list[float]:
    return list((ctypes.c_float * count).from_address(address))


def test_addresses_are_of_real_memory() -> None:
    x = torch.arange(6.0).to("pjrt").view(2, 3)
    x += 1
    assert floats_at(x.data_ptr(), 6) == [1, 2, 3, 4, 5, 6]
    assert floats_at(x[1, 1:].data_ptr(), 2) == [5, 6]
    assert x[1].data_ptr() == x.untyped_storage().data_ptr() + 12
    y = torch.zeros(2, 3, device="pjrt")
    y.copy_(x)  # moves the value
    assert y.data_ptr() != x.data_ptr()
    assert floats_at(y.data_ptr(), 6) == floats_at(x.data_ptr(), 6)
    x.mul_(2)
    assert floats_at(x.data_ptr(), 2) == [2, 4]
    assert y.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert x[:0].data_ptr() == torch.empty(0, device="pjrt").data_ptr() == 0
    t = torch.arange(6.0).view(2, 3).t().to("pjrt")
    assert floats_at(t.data_ptr(), 6) == [0, 1, 2, 3, 4, 5]


def test_memory_without_addresses() -> None:
    code = (
        "import io, os\n"
        "os.environ['TORCH_PJRT_PLUGIN'] = 'fake'\n"
        "import torch, torch_pjrt\n"
        "from fake import library\n"
        "assert library().torch_pjrt_fake_set(b'own_memory', 1)\n"
        "x, y = torch.ones(3, device='pjrt'), torch.ones(3, device='pjrt')\n"
        "try: x.data_ptr()\n"
        "except torch_pjrt.Error as error: print(error)\n"
        "print({t.untyped_storage().data_ptr() for t in (x, x[1:], y)})\n"
        "torch.save([x, y], io.BytesIO())\n"
    )
    done = python(f"sys.path.insert(0, {ROOT + '/tests/python'!r})\n{code}")
    assert "move the tensor to the CPU" in done.stdout, done.stderr
    assert done.stdout.endswith("{0}\n"), done.stderr


def test_other_ways_to_memory_are_refused() -> None:
    x = torch.ones(3, device="pjrt")
    with pytest.raises(ValueError, match="pjrt"):
        torch.from_dlpack(x)
    for export in (x.__dlpack__, lambda: torch.utils.dlpack.to_dlpack(x)):
        with pytest.raises(RuntimeError, match="data pointer"):
            export()
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()


def test_storages_can_be_told_apart() -> None:
    x, y = torch.ones(3, device="pjrt"), torch.ones(3, device="pjrt")
    y.copy_(x)
    address = x.untyped_storage().data_ptr()
    assert address == x[1:].untyped_storage().data_ptr() != y.untyped_storage().data_ptr()
