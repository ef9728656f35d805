"""Arguments of `python -m torch_pjrt cache`, and what it does with the folder of programs.

torch is imported only once the arguments are known to be good.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any

OK, FAILED, USAGE = 0, 1, 2

_DESCRIPTION = """\
Looks after the compiled programs that outlive the process. Programs of this package may run
meanwhile: what is removed under them they compile again.
"""
_EPILOG = """\
The folder is TORCH_PJRT_CACHE_DIR, or else torch_pjrt in XDG_CACHE_HOME or ~/.cache.
exit status: 0 all is well, 1 the folder isn't used or `verify` found an entry that isn't, 2 usage.
"""
_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)}

Entry = dict[str, Any]


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", text)
    if match is None or match[2] not in _UNITS:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no size: give bytes, or a number with one of " + ", ".join(_UNITS)[2:]
        )
    return int(float(match[1]) * _UNITS[match[2]])


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_pjrt cache",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--folder", metavar="DIR", help="another folder than the environment's")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ls = commands.add_parser("ls", help="list the entries, the last used ones first")
    ls.add_argument("--long", action="store_true", help="read each, and say what it is for")
    commands.add_parser("info", help="where the folder is, and how much is in it")
    commands.add_parser("verify", help="read and check every entry; removes nothing")
    prune = commands.add_parser("prune", help="remove the least recently used entries")
    prune.add_argument(
        "--max-bytes",
        type=_size,
        metavar="SIZE",
        help="what may stay, such as 500MB or 4GiB (default: TORCH_PJRT_CACHE_MAX_BYTES, or 4GiB)",
    )
    commands.add_parser("clear", help="remove all entries")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status; usage errors raise SystemExit(2)."""
    parsed = make_parser().parse_args(arguments)
    import torch  # noqa: F401  (the core needs its libraries)

    from ._C import Error

    try:
        return _run(parsed)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED


def _run(parsed: argparse.Namespace) -> int:
    from . import _C

    settings = _C.cache_settings()
    folder = parsed.folder or settings["folder"]
    if not folder:
        print("error: TORCH_PJRT_CACHE=0 turns the cache off; give --folder", file=sys.stderr)
        return FAILED
    if parsed.command == "ls":
        return _ls(folder, parsed.long)
    if parsed.command == "info":
        return _info(folder, settings)
    if parsed.command == "verify":
        return _verify(folder)
    limit = settings["max_bytes"] if parsed.command == "prune" else -1
    if parsed.command == "prune" and parsed.max_bytes is not None:
        limit = parsed.max_bytes
    return _prune(folder, limit)


def _list(folder: str, with_content: bool) -> list[Entry]:
    from . import _C

    return _C.cache_list(folder, with_content) or []


def _entries(folder: str, with_content: bool = False) -> list[Entry]:
    return [file for file in _list(folder, with_content) if file["is_finished"]]


def _total(entries: Sequence[Entry]) -> str:
    count = f"{len(entries)} entr{'y' if len(entries) == 1 else 'ies'}"
    return f"{count}, {_bytes(sum(entry['bytes'] for entry in entries))}"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _ls(folder: str, long: bool) -> int:
    for entry in sorted(_entries(folder, long), key=lambda e: e["used_ns"], reverse=True):
        used = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["used_ns"] / 1e9))
        line = f"{_bytes(entry['bytes']):>10}  {used}  {entry['name']}"
        print(f"{line}  {_purpose(entry)}" if long else line)
    return OK


def _purpose(entry: Entry) -> str:
    """What an entry is for, in short; equal graphs have the same letters."""
    if entry["problem"]:
        return f"not used: {entry['problem']}"
    key: dict[str, bytes] = entry["key"]
    if "capture" in key:
        return "a capture"
    graph = hashlib.sha256(key.get("graph", b"")).hexdigest()[:8]
    sizes = key.get("symbol values", b"")
    numbers = struct.unpack(f"={len(sizes) // 8}q", sizes[: len(sizes) // 8 * 8])
    platform = key.get("platform", b"").decode(errors="replace").split(" ")[0]
    return f"{platform} graph {graph} sizes {list(numbers)}"


def _info(folder: str, settings: dict[str, Any]) -> int:
    from . import _C

    files = _C.cache_list(folder, False)
    entries = [file for file in files or [] if file["is_finished"]]
    print(f"folder          {folder}{'' if files is not None else ' (not made yet)'}")
    print(f"holds           {_total(entries)}")
    print(f"limit           {_bytes(settings['max_bytes'])} (TORCH_PJRT_CACHE_MAX_BYTES)")
    unfinished = len(files or []) - len(entries)
    if unfinished:
        print(f"unfinished      {unfinished} files being written, or left by a stopped process")
    shared = settings["shared_folder"]
    if shared:
        print(f"shared folder   {shared}")
        print(f"  holds         {_total(_entries(shared))}")
    return OK


def _verify(folder: str) -> int:
    entries = _entries(folder, with_content=True)
    bad = [entry for entry in entries if entry["problem"]]
    for entry in bad:
        print(f"{entry['name']}: {entry['problem']}")
    print(f"{_total(entries)}: {len(bad)} would not be used")
    if bad:
        print("each is replaced when its program is compiled again; `cache clear` removes all")
    return FAILED if bad else OK


def _prune(folder: str, max_bytes: int) -> int:
    from . import _C

    count, size = _C.cache_prune(folder, max_bytes)
    entries = f"{count} entr{'y' if count == 1 else 'ies'}"
    print(f"removed {entries}, {_bytes(size)}; left {_total(_entries(folder))}")
    return OK
