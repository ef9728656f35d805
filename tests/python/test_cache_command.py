"""`python -m torch_pjrt cache`: each command, what it prints, and its exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torch_pjrt import __main__, cache_command

MAKE = """
import torch

options = {"plugin": "fake"}
fast = torch.compile(lambda x: x.sin() * 3, backend="pjrt", dynamic=True, options=options)
for size in (2, 3, 4):
    fast(torch.ones(size, 17))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three entries, of sizes 2, 3 and 4 of one graph."""
    folder = tmp_path_factory.mktemp("made") / "cache"
    environment = {**os.environ, "TORCH_PJRT_CACHE_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", MAKE], env=environment, check=True)
    assert len(list(folder.iterdir())) == 3
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "cache"
    shutil.copytree(made, copy)
    monkeypatch.setenv("TORCH_PJRT_CACHE_DIR", str(copy))
    for age, path in enumerate(sorted(copy.iterdir())):
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return copy


def run(*arguments: str) -> int:
    return __main__.main(["cache", *arguments])


def test_ls(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == [p.name for p in sorted(folder.iterdir())]
    assert all("KiB" in line and " 2023-11-" in line for line in lines)


def test_ls_long(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = max(folder.iterdir())
    bad.write_bytes(bad.read_bytes()[:-1])
    assert run("ls", "--long") == 0
    first, *good = capsys.readouterr().out.splitlines()
    assert first.endswith("not used: its size isn't what its header says")
    assert len({line.split(" graph ")[1].split()[0] for line in good}) == 1
    assert len({line.split(" sizes ")[1] for line in good}) == 2


def test_info(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".unfinished-1").write_text("half")
    monkeypatch.setenv("TORCH_PJRT_CACHE_SHARED_DIR", str(folder))
    assert run("info") == 0
    out = capsys.readouterr().out
    assert str(folder) in out
    assert out.count("3 entries") == 2
    assert "4.0 GiB" in out
    assert "1 files being written" in out


def test_a_folder_that_is_not_there(cache_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("ls", "info", "verify", "prune", "clear"):
        assert run(command) == 0
    assert "(not made yet)" in capsys.readouterr().out
    assert not cache_folder.exists()


def test_verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify") == 0
    assert "3 entries" in capsys.readouterr().out
    one, two, three = sorted(folder.iterdir())
    one.write_bytes(b"")
    two.write_bytes(three.read_bytes())
    three.chmod(0o606)
    assert run("verify") == 1
    out = capsys.readouterr().out
    assert f"{one.name}: it has only 0 bytes" in out
    assert f"{two.name}: it is another program's" in out
    assert "may be written by other users" in out
    assert "3 would not be used" in out
    assert len(list(folder.iterdir())) == 3


def test_prune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used_last = min(folder.iterdir())  # see `folder`
    size = used_last.stat().st_size
    assert run("prune") == 0
    assert "removed 0 entries" in capsys.readouterr().out
    assert run("prune", "--max-bytes", f"{size + 1}B") == 0
    assert "removed 2 entries" in capsys.readouterr().out
    assert list(folder.iterdir()) == [used_last]
    assert run("prune", "--max-bytes", "0") == 0
    assert list(folder.iterdir()) == []


def test_clear(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    min(folder.iterdir()).write_bytes(b"")
    (folder / "notes.txt").write_text("not ours")
    (folder / ".unfinished-1").write_text("another process is at it")
    assert run("clear") == 0
    assert "left 0 entries" in capsys.readouterr().out
    assert sorted(p.name for p in folder.iterdir()) == [".unfinished-1", "notes.txt"]


def test_a_folder_that_others_may_write_to(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.chmod(0o777)
    for command in ("ls", "info", "verify", "prune", "clear"):
        assert run(command) == 1
    assert "chmod it to 0700" in capsys.readouterr().err
    assert len(list(folder.iterdir())) == 3


def test_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TORCH_PJRT_CACHE", "0")
    assert run("ls") == 1
    assert "TORCH_PJRT_CACHE=0" in capsys.readouterr().err


def test_another_folder(made: Path, cache_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--folder", str(made), "verify") == 0
    assert "3 entries" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("17", 17), ("4GiB", 4 << 30), ("1.5 KiB", 1536), ("2MB", 2_000_000)],
)
def test_sizes(text: str, size: int) -> None:
    parsed = cache_command.make_parser().parse_args(["prune", "--max-bytes", text])
    assert parsed.max_bytes == size


@pytest.mark.parametrize("arguments", [[], ["list"], ["prune", "--max-bytes", "4 gigs"]])
def test_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2
    assert "usage: python -m torch_pjrt cache" in capsys.readouterr().err


def test_the_script() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torch_pjrt", "cache", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "prune" in done.stdout
