"""The command line: `python -m torch_pjrt COMMAND ...`, also installed as the script torch-pjrt."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

# command -> (module that has main(arguments) -> exit status, what it does)
_COMMANDS = {
    "bench": ("torch_pjrt.bench.cli", "compare compiled models with eager PyTorch"),
    "cache": ("torch_pjrt.cache_command", "look after the compiled programs on disk"),
}


def _usage() -> str:
    lines = ["usage: python -m torch_pjrt COMMAND ...", "", "commands:"]
    lines += [f"  {name:<10} {what}" for name, (_, what) in _COMMANDS.items()]
    return "\n".join([*lines, "", "`python -m torch_pjrt COMMAND --help` says more about one."])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the first argument names; returns its exit status (2: usage)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if not given or given[0] not in _COMMANDS:
        problem = f"unknown command '{given[0]}'" if given else "no command given"
        print(f"{_usage()}\n\nerror: {problem}", file=sys.stderr)
        return 2
    module = importlib.import_module(_COMMANDS[given[0]][0])
    return int(module.main(given[1:]))


if __name__ == "__main__":
    sys.exit(main())
