"""Which PJRT plugin runs the programs: option, environment, installed package, or the CPU one."""

from __future__ import annotations

import fnmatch
import functools
import importlib.util
import mmap
import os
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from .errors import failure

ENVIRONMENT = "TORCH_PJRT_PLUGIN"

_GROUPS = ("jax_plugins", "xla_plugins")
_CPU = "xla_cpu_pjrt"
_FAKE = "libtorch_pjrt_fake_plugin.so"
_NAMES = ("*pjrt*.so", "*plugin*.so", "libtpu.so")  # of the shared objects that may be plugins


def choose(option: str | None) -> str:
    """The plugin's file; `option` is a path or a name ("cpu", "fake", or an installed package)."""
    return _default() if option is None else _named(option, "option 'plugin'")


@functools.cache
def _default() -> str:
    if named := os.environ.get(ENVIRONMENT):
        return _named(named, f"environment variable {ENVIRONMENT}")
    found = installed()
    if len(found) > 1:
        raise failure(
            "invalid",
            what="several PJRT plugins are installed: " + ", ".join(sorted(found)),
            remedy=f"choose one: options={{'plugin': {min(found)!r}}} or {ENVIRONMENT}=NAME",
        )
    return next(iter(found.values()), None) or _cpu()


def _named(name: str, origin: str) -> str:
    if name == "cpu":
        return _cpu()
    if name == "fake":
        return str(Path(__file__).parent / _FAKE)
    if os.sep not in name and not os.path.exists(name):
        found = installed()
        if name in found:
            return found[name]
        raise failure(
            "invalid",
            what=f"no PJRT plugin is called {name!r}",
            remedy="pass a path, or one of: " + ", ".join(["cpu", *sorted(found)]),
            given_by=origin,
        )
    path = Path(name).expanduser()
    if not path.is_file():
        raise failure(
            "io",
            what=f"PJRT plugin {name}: {'not a file' if path.exists() else 'no such file'}",
            remedy="pass the path of a shared object that exports GetPjrtApi, or 'cpu'",
            given_by=origin,
        )
    return str(path.absolute())


def _cpu() -> str:
    spec = importlib.util.find_spec("xla_plugins")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _CPU / f"{_CPU}.so"
        if path.is_file():
            return str(path)
    raise failure(
        "io",
        what="the CPU plugin is not installed",
        remedy=f"{sys.executable} -m pip install xla-cpu-pjrt==0.0.1",
    )


@functools.cache
def installed() -> dict[str, str]:
    """Name -> file of the plugins in installed packages, the CPU one left out. Imports none."""
    found: dict[str, str] = {}
    for name, files in _packages():
        if name == _CPU or name in found:
            continue
        for path in sorted(files):
            if any(fnmatch.fnmatch(path.name, p) for p in _NAMES) and _exports_pjrt(path):
                found[name] = str(path)
                break
    return found


def _packages() -> Iterator[tuple[str, Iterable[Path]]]:
    """Packages that may hold a plugin, and their shared objects."""
    for group in _GROUPS:
        for entry in metadata.entry_points(group=group):
            files = (entry.dist.files or ()) if entry.dist else ()
            shared = [Path(str(f.locate())) for f in files if f.name.endswith(".so")]
            yield entry.value.split(":")[0].split(".")[-1], shared
    for group in _GROUPS:
        spec = importlib.util.find_spec(group)  # a namespace package: nothing of it is run
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for package in sorted(p for p in Path(folder).iterdir() if p.is_dir()):
                yield package.name, package.rglob("*.so")
    spec = importlib.util.find_spec("libtpu")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield "libtpu", Path(folder).glob("*.so")


def _exports_pjrt(path: Path) -> bool:
    """Whether the symbol's name is in the file; cheap, and dlopen has the last word."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data[:4] == b"\x7fELF" and data.find(b"\0GetPjrtApi\0") >= 0
    except (OSError, ValueError):  # unreadable or empty
        return False
