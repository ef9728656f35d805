"""Threads that use device="pjrt": what each has recorded is its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import torch_pjrt

ROOT = str(Path(torch_pjrt.__file__).parent.parent)


def in_thread(call: Callable[[], Any]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def executions() -> int:
    return torch_pjrt.stats()["executions"]


def test_a_step_runs_what_its_own_thread_has_recorded() -> None:
    x = torch.ones(3, device="pjrt")
    torch.pjrt.mark_step()
    mine = x * 2
    others: list[torch.Tensor] = []

    def record_and_step() -> None:
        others.append(x * 3)
        before = executions()
        torch.pjrt.mark_step()
        assert executions() == before + 1

    in_thread(record_and_step)
    in_thread(lambda: others.append(x + 7))
    before = executions()
    torch.pjrt.mark_step()  # mine alone
    assert executions() == before + 1
    torch.pjrt.mark_step()
    assert executions() == before + 1
    assert others[1].tolist() == [8, 8, 8]
    assert executions() == before + 2
    assert (mine.tolist(), others[0].tolist()) == ([2, 2, 2], [3, 3, 3])
    assert executions() == before + 2


def test_another_threads_value_is_run_where_it_is_needed() -> None:
    x = torch.ones(3, device="pjrt")
    torch.pjrt.mark_step()
    held: list[torch.Tensor] = []
    in_thread(lambda: held.append(x * 3))
    before = executions()
    y = held[0] + 1
    torch.pjrt.mark_step()
    assert executions() == before + 1
    assert (y.tolist(), held[0].tolist()) == ([4, 4, 4], [3, 3, 3])
    assert executions() == before + 1


def test_a_backward_is_of_the_thread_that_called_it() -> None:
    def backward(y: torch.Tensor) -> None:
        y.backward(torch.ones(3, device="pjrt"))
        before = executions()
        torch.pjrt.mark_step()
        assert executions() == before + 1

    x = torch.ones(3, device="pjrt", requires_grad=True)
    y = x * x * 3
    torch.pjrt.mark_step()
    in_thread(lambda: backward(y))
    before = executions()
    assert x.grad is not None
    assert x.grad.tolist() == [6, 6, 6]
    assert executions() == before


def test_a_backward_in_a_thread_that_recorded_nothing() -> None:
    """Though a backward on the CPU came before the import."""
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r})\n"
        "import threading, torch\n"
        "(torch.ones(3, requires_grad=True) * 2).sum().backward()\n"
        "import torch_pjrt\n"
        "x = torch.ones(3, device='pjrt', requires_grad=True)\n"
        "y, g = x * 3, torch.ones(3, device='pjrt')\n"
        "thread = threading.Thread(target=lambda: y.backward(g))\n"
        "thread.start(); thread.join()\n"
        "print(x.grad.tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[3.0, 3.0, 3.0]", done.stdout + done.stderr


def test_loops_in_two_threads_compile_as_one_does() -> None:
    compiles: list[int] = []

    def train(width: int) -> None:
        model = nn.Linear(width, 2).to("pjrt")
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.ones(3, width, device="pjrt")
        for k in range(12):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            torch.pjrt.mark_step()
            if k == 5:
                ready.wait()
                compiles.append(torch_pjrt.stats()["compiles"])
                ready.wait()

    ready = threading.Barrier(2)
    threads = [threading.Thread(target=train, args=(width,)) for width in (5, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert torch_pjrt.stats()["compiles"] == max(compiles)


def test_a_child_can_use_what_it_was_given_but_runs_nothing() -> None:
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r})\n"
        "import os, torch, torch_pjrt\n"
        "x = torch.ones(2, device='pjrt') + 1\n"
        "print(x.tolist(), flush=True)\n"
        "if os.fork() == 0:\n"
        "    try: (x * 2).cpu()\n"
        "    except torch_pjrt.Error as error: print(error.code, flush=True)\n"
        "    print(torch.ones(2).mul(3).tolist(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print((x * 3).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    lines = done.stdout.splitlines()
    assert lines == ["[2.0, 2.0]", "invalid", "[3.0, 3.0]", "[6.0, 6.0]"], done.stdout + done.stderr
