"""What pip installs: the sdist builds, the wheel has what it should, and works without a checkout.

All is built without isolation, from the packages that ./dev has installed.
"""

from __future__ import annotations

import configparser
import faulthandler
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
SCRIPT = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
x = torch.randn(3, 8)
for backend in ("pjrt", "torchxla_trace_once", "aot_torchxla_trace_once"):
    torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x))
torch._dynamo.reset()
fake = torch.compile(model, backend="pjrt", options={"plugin": "fake"})
assert fake(x).shape == (3, 4)
import torch_pjrt
print(torch_pjrt.__file__, torch_pjrt.stats()["executions"])
"""

REFUSED = """
try:
    import torch_pjrt
except ImportError as error:
    print(error)
"""

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def run(*command: str | Path, cwd: Path, python: str | Path = sys.executable, **env: str) -> str:
    done = subprocess.run(
        [str(python), *map(str, command)],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    return folder / run("-c", BUILD, folder, cwd=ROOT).splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, so that this has all that is needed."""
    folder = tmp_path_factory.mktemp("wheel")
    faulthandler.cancel_dump_traceback_later()  # a build takes longer than a hang may
    # Always in the same place, so that ccache knows the files of the last time.
    place = ROOT / "build" / "package"
    shutil.rmtree(place, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    (source,) = place.iterdir()
    options = ["--no-deps", "--no-build-isolation", f"--config-settings=build-dir={place}/build"]
    run("-m", "pip", "wheel", *options, "-w", folder, source, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel. It sees torch in ours, but not our editable install,
    whose hook would go before any path."""
    folder = tmp_path_factory.mktemp("installed")
    run("-m", "venv", "--without-pip", folder, cwd=folder)
    ours = sysconfig.get_path("purelib")
    theirs = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (theirs / "ours.pth").write_text(f"{ours}\n")
    python = folder / "bin" / "python"
    run("-m", "pip", "--python", python, "install", "--no-deps", wheel, cwd=folder)
    return folder


def test_the_sdist_has_the_sources_and_nothing_built(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [PurePosixPath(*PurePosixPath(n).parts[1:]) for n in archive.getnames()]
    assert {str(n) for n in names} >= {"LICENSE", "README.md", "CMakeLists.txt", "pyproject.toml"}
    assert {n.parts[0] for n in names} >= {"src", "cmake", "torch_pjrt", "tests", "docs"}
    assert not {n.parts[0] for n in names} & {"build", ".venv", "shared", ".git", ".ci"}
    assert not [n for n in names if n.suffix in (".so", ".o", ".pyc")]


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [PurePosixPath(name) for name in archive.namelist()]
        (entry_points,) = (n for n in names if n.name == "entry_points.txt")
        entries = configparser.ConfigParser()
        entries.read_string(archive.read(str(entry_points)).decode())
        (metadata,) = (n for n in names if n.name == "METADATA")
        requirements = [
            line.removeprefix("Requires-Dist: ")
            for line in archive.read(str(metadata)).decode().splitlines()
            if line.startswith("Requires-Dist: ") and "extra ==" not in line
        ]
    tops = {n.parts[0] for n in names}
    assert tops == {"torch_pjrt", entry_points.parts[0]}
    sources = {p.relative_to(ROOT) for p in (ROOT / "torch_pjrt").rglob("*.py*")}
    expected = {str(p) for p in sources if p.suffix != ".pyc"} | {"torch_pjrt/py.typed"}
    ours = {str(n) for n in names if n.parts[0] == "torch_pjrt"}
    built = {name for name in ours if name.endswith(".so")}
    assert ours - built == expected
    assert len(built) == 2
    assert "torch_pjrt/libtorch_pjrt_fake_plugin.so" in built
    assert any(n.name == "LICENSE" for n in names)
    backend, trivial = "torch_pjrt.backend:pjrt", "torch_pjrt.trivial:pjrt_trivial"
    assert dict(entries["torch_dynamo_backends"]) == {
        "pjrt": backend,
        "pjrt_trivial": trivial,
        "torchxla_trace_once": backend,
        "torchxla_trivial": trivial,
        "aot_torchxla_trace_once": backend,
        "aot_torchxla_trivial": trivial,
    }
    assert dict(entries["console_scripts"]) == {"torch-pjrt": "torch_pjrt.__main__:main"}
    assert len(requirements) == 2
    assert requirements[0].startswith("torch") and requirements[1] == "xla-cpu-pjrt==0.0.1"


def test_the_installed_package_works_with_nothing_imported_but_torch(
    installed: Path, tmp_path: Path
) -> None:
    python = installed / "bin" / "python"
    path, executions = run("-c", SCRIPT, cwd=tmp_path, python=python).split()[-2:]
    assert Path(path).is_relative_to(installed)
    assert executions == "4"  # the fake plugin's too


def test_the_installed_commands(installed: Path, tmp_path: Path) -> None:
    binaries = installed / "bin"
    for command in (["-m", "torch_pjrt"], [binaries / "torch-pjrt"]):
        text = run(*command, "bench", "--help", cwd=tmp_path, python=binaries / "python")
        assert "--randomize-input" in text


def test_torch_of_another_version_is_refused(installed: Path, tmp_path: Path) -> None:
    """A package torch 2.12 that goes before the real one, with its metadata."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '2.12.0'\n")
    info = tmp_path / "torch-2.12.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.12.0\n")
    for first in ("", "import torch"):
        message = run(
            *("-c", first + REFUSED),
            cwd=tmp_path,
            python=installed / "bin" / "python",
            PYTHONPATH=str(tmp_path),
        )
        assert "needs torch 2.13, and torch is 2.12.0 here" in message
        assert "-m pip install 'torch==2.13.*'" in message
