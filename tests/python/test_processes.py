"""Threads, forks, the end of the process, and the settings of a process that uses the backend.

What ends a process, or would, runs in one of its own.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

ROOT = str(Path(torch_pjrt.__file__).parent.parent)

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


def python(code: str, *, status: int = 0) -> str:
    """What a process prints that runs the code and has to end with this exit status, quietly."""
    code = f"import sys; sys.path.insert(0, {ROOT!r})\n{textwrap.dedent(code)}"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == status, done.stderr
    assert done.stderr == ""
    return done.stdout


# --- threads


def test_the_first_call_by_many_threads_at_once() -> None:
    """And then many calls, with inputs of their own. Fewer threads than Dynamo's recompile limit:
    it may capture for each of those that wait."""
    eager = torch.nn.Sequential(
        torch.nn.Linear(8, 33), torch.nn.ReLU(), torch.nn.Linear(33, 4)
    ).requires_grad_(False)
    fast = torch.compile(eager, backend="pjrt")
    count = 6
    together = threading.Barrier(count)
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        try:
            together.wait(60)
            for _ in range(40):
                x = torch.randn(3, 8, generator=generator)
                assert_close(fast(x), eager(x))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    counts = torch_pjrt.stats()
    assert counts["compiles"] == 1
    assert counts["executions"] == count * 40
    assert counts["recompile_limits"] == 0


def test_threads_with_models_of_their_own_share_a_program() -> None:
    def work(results: list[torch.Tensor], scale: float) -> None:
        eager = torch.nn.Linear(8, 35).requires_grad_(False)
        eager.weight.fill_(scale)
        x = torch.ones(2, 8)
        results.append(torch.compile(eager, backend="pjrt")(x) - eager(x))

    results: list[torch.Tensor] = []
    threads = [threading.Thread(target=work, args=(results, 1.0 * k)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert_close(results, [torch.zeros(2, 35)] * 4)
    assert torch_pjrt.stats()["compiles"] == 1


# --- forks


def test_a_fork_after_the_first_use() -> None:
    """The workers of a DataLoader work; ours raises in the child, which can free what it has
    inherited and end."""
    out = python(
        """
        import os, sys, torch, torch_pjrt

        class Data(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, i): return torch.full((3,), float(i))

        fast = torch.compile(lambda x: (x * 2).sum(0), backend="pjrt")
        outputs = [fast(torch.ones(2, 3)), fast(torch.ones(2, 100_000))]
        loader = torch.utils.data.DataLoader(
            Data(), batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=60
        )
        assert [fast(b)[0].item() for b in loader] == [2, 10, 18, 26]
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            assert outputs[0].add(1).sum() == 15
            for call in (fast, torch.compile(lambda x: x + 5, backend="pjrt")):
                try:
                    call(torch.ones(2, 3))
                except torch_pjrt.Error as error:
                    print(error.code, error)
            del outputs, fast, call
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert fast(torch.ones(2, 3)).eq(4).all()
        """
    )
    lines = [
        line for line in out.splitlines() if line.startswith("invalid this process was forked")
    ]
    assert len(lines) == 2
    assert "'spawn', or fork before the first use" in lines[0]


def test_a_fork_before_the_first_use() -> None:
    python(
        """
        import os, sys, torch, torch_pjrt, torch_pjrt.backend
        torch_pjrt.stats()
        fast = torch.compile(lambda x: x * 2, backend="pjrt")
        pid = os.fork()
        assert fast(torch.ones(3)).eq(2).all()
        counts = torch_pjrt.stats()
        assert counts["compiles"] + counts["disk_hits"] == 1  # whoever is first stores it
        if pid == 0:
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
        """
    )


# --- the end of a process


@pytest.mark.parametrize("size", [16, 600])
def test_an_end_with_live_outputs_and_threads_in_calls(size: int) -> None:
    out = python(
        f"""
        import sys, threading, time, torch
        fast = torch.compile(lambda x: (x @ x).relu(), backend="pjrt")
        x = torch.randn({size}, {size})
        kept = [fast(x)]
        def work():
            while True:
                kept.append(fast(x))
                del kept[:-3]
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        print("end", flush=True)
        sys.exit(3)
        """,
        status=3,
    )
    assert out == "end\n"


def test_an_end_with_a_compile_in_flight() -> None:
    """The thread is in our compile, not in Dynamo's tracing, where torch itself aborts."""
    out = python(
        """
        import logging, sys, threading, torch
        begun = threading.Event()
        class Watch(logging.Handler):
            def emit(self, record):
                if "stablehlo" in record.getMessage():
                    begun.set()
        logger = logging.getLogger("torch_pjrt")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(Watch())
        def long(x):
            for k in range(200):
                x = (x @ x).relu() + k
            return x
        fast = torch.compile(long, backend="pjrt")
        threading.Thread(target=lambda: print(fast(torch.ones(64, 64))), daemon=True).start()
        assert begun.wait(100)
        print("end", flush=True)
        sys.exit(3)
        """,
        status=3,
    )
    assert out == "end\n"


def test_an_end_by_an_exception() -> None:
    code = """
    import torch
    fast = torch.compile(lambda x: x * 2, backend="pjrt")
    kept = fast(torch.ones(3))
    import os, sys
    sys.stderr = open(os.devnull, "w")
    raise ValueError
    """
    python(code, status=1)


# --- settings


@pytest.mark.full
def test_no_setting_of_torchs_is_changed() -> None:
    """Before our import, after it, after compiling and running, and beside inductor."""
    python(
        """
        import copy, os, signal, torch
        import torch._dynamo.config, torch._functorch.config, torch._inductor.config
        import torch._inductor.compile_fx  # so that what importing it does is done
        torch.compile(lambda x: x + 1, backend="inductor")(torch.ones(3))

        def settings():
            modules = (torch._dynamo.config, torch._functorch.config, torch._inductor.config)
            return {
                "configs": [copy.deepcopy(m.get_config_copy()) for m in modules],
                "default dtype": torch.get_default_dtype(),
                "deterministic": torch.are_deterministic_algorithms_enabled(),
                "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
                "fill": torch.utils.deterministic.fill_uninitialized_memory,
                "precision": torch.get_float32_matmul_precision(),
                "random": torch.get_rng_state().tolist(),
                "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
                "grad": torch.is_grad_enabled(),
                "autocast": torch.is_autocast_enabled("cpu"),
                "math kernels": torch.backends.cuda.math_sdp_enabled(),
                "flash kernels": torch.backends.cuda.flash_sdp_enabled(),
                "environment": dict(os.environ),
                "signals": [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)],
            }

        def compare(when):
            for name, value in settings().items():
                assert value == before[name], (when, name)

        before = settings()
        import torch_pjrt, torch_pjrt.backend
        compare("import")
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())
        x = torch.ones(3, 8)
        before["random"] = torch.get_rng_state().tolist()  # the model's weights
        ours = torch.compile(model, backend="pjrt")
        ours(x), ours(x[:2])
        with torch.no_grad():
            ours(x)
        compare("compile and run")
        try:
            torch.compile(lambda x: torch.linalg.eig(x), backend="pjrt")(torch.eye(3))
        except torch_pjrt.Error:
            compare("a failed compile")
        else:
            raise AssertionError("torch.linalg.eig compiled")
        theirs = torch.compile(lambda x: model(x), backend="inductor")
        for _ in range(2):
            torch.testing.assert_close(theirs(x), model(x))
            torch.testing.assert_close(ours(x), model(x))
        compare("inductor")
        """
    )
