"""Ctrl-C, in a process of its own, on the fake plugin with a compile that takes its time."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PACKAGE_ROOT = Path(__file__).parents[2]

PROGRAM = """
    import os, signal, sys, threading, time
    import torch
    import torch_pjrt
    import fake

    library = fake.library()
    COMPILE = b"PJRT_Client_Compile"

    def program(x):
        return x * 2 + 1

    fast = torch.compile(program, backend="pjrt", options=fake.OPTIONS)
    x = torch.ones(4)
    # The client and its probe are there.
    torch.compile(lambda x: x - 1, backend="pjrt", options=fake.OPTIONS)(x)
    torch_pjrt.reset_stats()
    library.torch_pjrt_fake_reset()

    def interrupt_when(reached):
        def wait():
            while not reached():
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=wait).start()
"""


def run(program: str) -> str:
    """What the program prints. It is killed if it doesn't end within two minutes."""
    path = os.pathsep.join([str(PACKAGE_ROOT), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def test_during_a_compile() -> None:
    out = run("""
        library.torch_pjrt_fake_delay(COMPILE, 5000)
        interrupt_when(lambda: library.torch_pjrt_fake_calls(COMPILE) == 1)
        try:
            fast(x)
        except KeyboardInterrupt:
            print("interrupted")
        # The compile is still at it: nobody waited for it.
        assert library.torch_pjrt_fake_live(b"executable") == 2
        assert torch_pjrt.stats()["executions"] == 0
        fast(x)
        fast(x)
        assert library.torch_pjrt_fake_calls(COMPILE) == 1
        counts = torch_pjrt.stats()
        print(counts["captures"], counts["compiles"], counts["memory_hits"], counts["executions"])
    """)
    assert out.split("\n") == ["interrupted", "1 1 1 2", ""]


def test_the_process_ends_without_waiting_for_the_compile() -> None:
    out = run("""
        import atexit
        library.torch_pjrt_fake_delay(COMPILE, 1000_000)
        interrupt_when(lambda: library.torch_pjrt_fake_calls(COMPILE) == 1)
        try:
            fast(x)
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert out == "interrupted\n"


@pytest.mark.parametrize("step", ["capture", "connect"])
def test_during_the_capture(step: str) -> None:
    out = run(f"""
        from torch_pjrt import backend, fx, logs
        module = {{"capture": fx, "connect": logs}}[{step!r}]
        original = getattr(module, {step!r})

        def interrupted(*arguments):
            setattr(module, {step!r}, original)
            signal.raise_signal(signal.SIGINT)
            return original(*arguments)

        setattr(module, {step!r}, interrupted)
        try:
            fast(x)
        except KeyboardInterrupt:
            print("interrupted")
        fast(x)
        fast(x)
        counts = torch_pjrt.stats()
        print(counts["captures"], counts["compiles"], counts["executions"])
    """)
    assert out == "interrupted\n1 1 2\n"
