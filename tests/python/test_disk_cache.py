"""Programs that outlive the process: what a restart finds on disk, and what it doesn't use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import torch_pjrt

pytestmark = pytest.mark.plugin

# Prints the counts and the results of three sizes of an inference and of a step of training.
SCRIPT = """
import json, sys
import torch, torch_pjrt
torch.manual_seed(3)
options = json.loads(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
fast = torch.compile(model, backend="pjrt", dynamic=True, options=options)
index = torch.compile(lambda x, i: x[i], backend="pjrt", options=options)
values = []
with torch.no_grad():
    for n in (2, 3, 4):
        x = torch.randn(n, 8)
        y = fast.eval()(x)
        torch.testing.assert_close(y, model.eval()(x))
        values.append(y.sum().item())
loss = fast.train()(torch.randn(5, 8)).square().sum()
loss.backward()
values += [loss.item(), model[0].weight.grad.sum().item(), model[1].running_mean.sum().item()]
torch.testing.assert_close(index(torch.arange(6.0), torch.tensor([4])), torch.tensor([4.0]))
try:
    index(torch.arange(6.0), torch.tensor([7]))
except IndexError as error:
    values.append(str(error))
print(json.dumps([torch_pjrt.stats(), values]))
"""
PROGRAMS = 6  # three sizes, forward, backward, index


def run(options: dict[str, Any] | None = None, **variables: str) -> tuple[dict[str, int], Any, str]:
    """Counts, values, and what the process wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(options or {})],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts, values = json.loads(done.stdout)
    assert counts["executions"] == (
        counts["compiles"] + counts["memory_hits"] + counts["disk_hits"]
    )
    return counts, values, done.stderr


def found(counts: dict[str, int]) -> tuple[int, int, int]:
    return counts["compiles"], counts["disk_hits"], counts["disk_faults"]


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.program"))


def test_a_restart_compiles_nothing(cache_folder: Path) -> None:
    counts, values, _ = run()
    assert found(counts) == (PROGRAMS, 0, 0)
    assert len(entries(cache_folder)) == PROGRAMS
    counts, again, stderr = run()
    assert found(counts) == (0, PROGRAMS, 0)
    assert again == values
    assert "cache" not in stderr


def test_damaged_entries_are_replaced(cache_folder: Path) -> None:
    _, values, _ = run()
    for path in entries(cache_folder):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    counts, again, stderr = run()
    assert found(counts) == (PROGRAMS, 0, PROGRAMS)
    assert again == values
    assert stderr.count("its checksum doesn't fit") == 1  # the first warns, the others only count
    assert found(run()[0]) == (0, PROGRAMS, 0)


def test_other_settings_are_other_programs(cache_folder: Path) -> None:
    run()
    counts, _, _ = run({"compile_overrides": {"xla_cpu_enable_fast_math": False}})
    assert found(counts) == (PROGRAMS, 0, 0)
    assert found(run(NPROC="1")[0]) == (PROGRAMS, 0, 0)
    assert len(entries(cache_folder)) == 3 * PROGRAMS


@pytest.mark.parametrize(
    ("options", "variables"),
    [({"disk_cache": False}, {}), ({}, {"TORCH_PJRT_CACHE": "0"})],
    ids=["option", "variable"],
)
def test_off(options: dict[str, Any], variables: dict[str, str], cache_folder: Path) -> None:
    assert found(run(options, **variables)[0]) == (PROGRAMS, 0, 0)
    assert not cache_folder.exists()


def test_the_default_folder(tmp_path: Path) -> None:
    run(TORCH_PJRT_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path / "caches"))
    assert len(entries(tmp_path / "caches" / "torch_pjrt")) == PROGRAMS
    run(TORCH_PJRT_CACHE_DIR="", XDG_CACHE_HOME="", HOME=str(tmp_path))
    assert len(entries(tmp_path / ".cache" / "torch_pjrt")) == PROGRAMS


def test_a_folder_that_cannot_be_used(cache_folder: Path) -> None:
    cache_folder.write_text("not a folder")
    counts, _, stderr = run()
    assert counts["compiles"] == PROGRAMS
    assert counts["disk_faults"] >= PROGRAMS
    assert stderr.count("the cache of programs:") == 1


def test_a_folder_that_others_may_write_to(cache_folder: Path) -> None:
    run()
    cache_folder.chmod(0o777)
    counts, _, stderr = run()
    assert counts["compiles"] == PROGRAMS
    assert counts["disk_hits"] == 0
    assert stderr.count("chmod it to 0700") == 1


def test_a_limit_that_is_no_number() -> None:
    with pytest.raises(AssertionError, match=r"TORCH_PJRT_CACHE_MAX_BYTES is '4G'; set it to"):
        run(TORCH_PJRT_CACHE_MAX_BYTES="4G")


def test_a_limit(cache_folder: Path) -> None:
    run(TORCH_PJRT_CACHE_MAX_BYTES="100000")
    kept = sum(path.stat().st_size for path in entries(cache_folder))
    assert 0 < kept <= 100000


def test_processes_at_once(cache_folder: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, "{}"], stdout=subprocess.PIPE, env=os.environ, text=True
        )
        for _ in range(3)
    ]
    results = [json.loads(process.communicate()[0]) for process in running]
    assert [counts["disk_faults"] for counts, _ in results] == [0, 0, 0]
    assert results[0][1] == results[1][1] == results[2][1]
    assert found(run()[0]) == (0, PROGRAMS, 0)


def test_this_process_has_a_folder_of_its_own() -> None:
    assert "torch_pjrt-caches-" in os.environ["TORCH_PJRT_CACHE_DIR"]
    assert "disk_hits" in torch_pjrt.stats()


def test_a_benchmark_is_cold_each_time(cache_folder: Path) -> None:
    program = """
        import sys, torch
        from torch_pjrt.bench import cli
        from torch_pjrt.bench.models.registry import Spec
        def inputs(batch, generator):
            return (torch.randn(batch, 3, generator=generator),)
        model = Spec("model", "tiny", lambda: torch.nn.Linear(3, 5), inputs, 20, 2)
        sys.exit(cli.main(["--accuracy", "--backend", "pjrt"], {"model": model}))
    """
    for _ in range(2):
        out = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "compiled nothing" not in out
    assert not cache_folder.exists()


# Prints how the program of a small function was found.
SMALL = """
import torch, torch_pjrt
x = torch.arange(4.0)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(lambda x: x * 2 + 1, backend="pjrt")(x), x * 2 + 1)
print(*[torch_pjrt.stats()[name] for name in ("compiles", "disk_hits", "disk_faults")])
"""


def found_on(cpu: Path | str) -> tuple[int, ...]:
    """By a process that reads this file as /proc/cpuinfo."""
    command = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/cpuinfo && exec "$@"', cpu]
    out = subprocess.check_output([*command, sys.executable, "-c", SMALL], text=True)
    return tuple(map(int, out.split()))


def can_mount() -> bool:
    command = ["unshare", "-m", "mount", "--bind", "/proc/version", "/proc/cpuinfo"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.full
@pytest.mark.skipif(not can_mount(), reason="mounting needs root")
def test_another_processor(cache_folder: Path, tmp_path: Path) -> None:
    """Programs for another processor aren't touched: a folder serves two kinds of machine. One that
    lies in the place of ours is ignored, counted and replaced."""
    ours, other = "/proc/cpuinfo", tmp_path / "cpuinfo"
    text = Path(ours).read_text()
    flags = next(line for line in text.splitlines() if line.startswith(("flags", "Features")))
    other.write_text(text.replace(flags, flags + " of_another_cpu"))
    assert found_on(ours) == (1, 0, 0)
    (entry,) = entries(cache_folder)
    assert found_on(other) == (1, 0, 0)
    (foreign,) = {*entries(cache_folder)} - {entry}
    content = entry.read_bytes()
    entry.write_bytes(foreign.read_bytes())
    assert found_on(ours) == (1, 0, 1)
    assert found_on(ours) == found_on(other) == (0, 1, 0)
    assert entry.stat().st_size == len(content)
