"""train_step and what goes wrong: parameters and state are as before the step or as after it."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import torch_pjrt

PACKAGE_ROOT = Path(__file__).parents[3]


class Everything:
    """A model that is trained, with all that a step changes."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.x, self.target = torch.randn(6, 8), torch.randint(0, 5, (6,))

    def snapshot(self) -> tuple[dict[str, Tensor], dict[int, dict[str, Tensor]]]:
        state = (self.model.state_dict(), self.optimizer.state_dict()["state"])
        return copy.deepcopy(state)

    def same(self, before: tuple[dict[str, Tensor], dict[int, dict[str, Tensor]]]) -> None:
        assert_close(self.snapshot(), before, rtol=0, atol=0, equal_nan=True)


@pytest.mark.plugin
@pytest.mark.usefixtures("fresh")
def test_a_target_out_of_range() -> None:
    every = Everything()
    step = torch_pjrt.train_step(every.model, every.optimizer, F.cross_entropy)
    for _ in range(2):  # without state, and with it
        before = every.snapshot()
        with pytest.raises(IndexError, match="Target 7 is out of bounds"):
            step(every.x, torch.full((6,), 7))
        every.same(before)
        step(every.x, every.target)


@pytest.mark.plugin
@pytest.mark.usefixtures("fresh")
def test_a_loss_that_raises_for_one_batch_size() -> None:
    every = Everything()

    def loss(output: Tensor, target: Tensor) -> Tensor:
        if len(target) == 4:
            raise ValueError("four")
        return F.cross_entropy(output, target)

    step = torch_pjrt.train_step(every.model, every.optimizer, loss)
    step(every.x, every.target)
    before = every.snapshot()
    with pytest.raises(Exception, match="four"):
        step(every.x[:4], every.target[:4])
    every.same(before)
    step(every.x, every.target)


@pytest.mark.plugin
@pytest.mark.usefixtures("fresh")
def test_nan_passes_through() -> None:
    every = Everything()
    step = torch_pjrt.train_step(every.model, every.optimizer, F.cross_entropy)
    assert step(every.x * float("nan"), every.target).isnan()
    assert step(every.x, every.target).isnan()


PROGRAM = """
    import copy, os, signal, threading, time
    import torch
    import torch_pjrt

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = torch_pjrt.train_step(model, optimizer, torch.nn.functional.mse_loss)
    x, y = torch.randn(2048, 512), torch.randn(2048, 512)

    def interrupted(after_s):
        def interrupt():
            time.sleep(after_s)
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        try:
            thread.start()
            step(x, y)
            thread.join()
            time.sleep(1)
        except KeyboardInterrupt:
            return True
        return False

    def snapshot():
        state = (list(model.parameters()), optimizer.state_dict()["state"])
        return [t.detach().clone() for t in torch.utils._pytree.tree_leaves(state)]
"""


def run(program: str) -> str:
    """What the program prints. It is killed if it doesn't end within two minutes."""
    path = os.pathsep.join([str(PACKAGE_ROOT), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.plugin
def test_interrupted_steps() -> None:
    """Each of them is as not begun or as done: the parameters are those of some number of steps."""
    out = run("""
        step(x, y)
        known = [snapshot()]
        for _ in range(5):
            step(x, y)
            known.append(snapshot())
        with torch.no_grad():  # back to the first
            for k, t in enumerate(torch.utils._pytree.tree_leaves(
                (list(model.parameters()), optimizer.state_dict()["state"])
            )):
                t.copy_(known[0][k])
        for k in range(5):
            interrupted(0.004 * k)
            now = snapshot()
            found = [
                all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(now, s))
                for s in known
            ]
            assert sum(found) == 1, found
        print("whole steps")
    """)
    assert out == "whole steps\n"


def test_a_plugin_that_fails() -> None:
    out = run("""
        os.environ["TORCH_PJRT_PLUGIN"] = "fake"
        import fake
        torch.compile(lambda x: x - 1, backend="pjrt")(x)  # makes the client

        def fails(function):
            before = snapshot()
            try:
                with fake.failing(function, fake.RESOURCE_EXHAUSTED):
                    step(x, y)
            except torch_pjrt.Error:
                pass
            else:
                raise AssertionError(function + " fails, and the step doesn't")
            assert all(torch.equal(a, b) for a, b in zip(snapshot(), before, strict=True))

        fails("PJRT_Client_Compile")
        fails("PJRT_LoadedExecutable_Execute")
        assert not optimizer.state
        step(x, y)
        assert len(optimizer.state) == 12
        fails("PJRT_LoadedExecutable_Execute")
        fails("PJRT_Event_Await")
        step(x, y)
        print("as before")
    """)
    assert out == "as before\n"


def test_interrupted_compile() -> None:
    out = run("""
        os.environ["TORCH_PJRT_PLUGIN"] = "fake"
        import fake
        torch.compile(lambda x: x - 1, backend="pjrt")(x)
        library = fake.library()
        library.torch_pjrt_fake_delay(b"PJRT_Client_Compile", 8000)
        before = snapshot()
        library.torch_pjrt_fake_calls(b"PJRT_Client_Compile")
        calls = library.torch_pjrt_fake_calls(b"PJRT_Client_Compile")

        def when_compiling():
            while library.torch_pjrt_fake_calls(b"PJRT_Client_Compile") == calls:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=when_compiling).start()
        try:
            step(x, y)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("not interrupted")
        assert not optimizer.state
        assert all(torch.equal(a, b) for a, b in zip(snapshot(), before, strict=True))
        step(x, y)
        assert len(optimizer.state) == 12
        print("as before")
    """)
    assert out == "as before\n"
