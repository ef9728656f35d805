"""What the user may pass to torch.compile(..., backend="pjrt", mode=..., options={...})."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import failure

Override = bool | int | float | str

_KEYS = (
    "plugin",
    "compile_overrides",
    "random",
    "disk_cache",
    "keep_captures",
    "freeze",
    "fallback",
    "eager_ops",
)
_RANDOM = ("default", "eager")
_FALLBACK = ("partition", "error", "eager")


@dataclass(frozen=True)
class Options:
    """plugin: a path or a name, None for the default. compile_overrides: flags of its compiler.
    random: "default", or "eager" for numbers equal to eager's. disk_cache: whether programs are
    read from and kept in the folder of the cache. keep_captures: whether what AOTAutograd makes of
    a function is kept there too. freeze: whether copies of weights are taken to stay right, so that
    later writes to the weights aren't seen. fallback: what happens to a graph with ops that can't
    be compiled. eager_ops: names of overloads that are taken for such."""

    plugin: str | None = None
    compile_overrides: Mapping[str, Override] = field(default_factory=dict)
    random: str = "default"
    disk_cache: bool = True
    keep_captures: bool = False
    freeze: bool = False
    fallback: str = "partition"
    eager_ops: frozenset[str] = frozenset()


def parse(mode: str | None, options: Mapping[str, Any] | None, rest: Mapping[str, Any]) -> Options:
    """Checks everything; raises Error (invalid) naming the nearest right word."""
    if mode not in (None, "default"):
        raise failure(
            "invalid",
            what=f"backend 'pjrt' has no mode {mode!r}",
            remedy="leave mode out; use options={...} with the keys " + ", ".join(_KEYS),
        )
    if rest:
        raise failure(
            "invalid",
            what=f"backend 'pjrt' has no argument {next(iter(rest))!r}",
            remedy="use options={...} with the keys " + ", ".join(_KEYS),
        )
    if options is None:
        return Options()
    if not isinstance(options, Mapping):
        raise _wrong_type("options", options, "a dict")
    for key in options:
        if key not in _KEYS:
            raise _unknown(str(key))
    return Options(
        _plugin(options.get("plugin")),
        _overrides(options.get("compile_overrides")),
        _one_of(_RANDOM, "random", options.get("random")),
        _flag(options, "disk_cache", default=True),
        _flag(options, "keep_captures", default=False),
        _flag(options, "freeze", default=False),
        _one_of(_FALLBACK, "fallback", options.get("fallback")),
        _eager_ops(options.get("eager_ops")),
    )


def _unknown(key: str) -> Exception:
    return failure(
        "invalid",
        what=f"backend 'pjrt' has no option {key!r}",
        remedy=_nearest(key, _KEYS) or "the options are " + ", ".join(_KEYS),
    )


def _nearest(word: str, words: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else ""


def _plugin(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise _wrong_type("plugin", value, "a path or a name such as 'cpu'")
    return str(os.fspath(value))


def _one_of(words: tuple[str, ...], key: str, value: Any) -> str:
    """One of the words; the first is the default."""
    if value is None:
        return words[0]
    if not isinstance(value, str):
        raise _wrong_type(key, value, "one of " + ", ".join(words))
    if value not in words:
        raise failure(
            "invalid",
            what=f"option {key} of backend 'pjrt' can't be {value!r}",
            remedy=_nearest(value, words) or "the values are " + ", ".join(words),
        )
    return value


def _eager_ops(value: Any) -> frozenset[str]:
    wanted = "a list of names of overloads such as 'aten::tanh' or 'aten::add.Tensor'"
    if value is None:
        return frozenset()
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _wrong_type("eager_ops", value, wanted)
    ops = frozenset(value)
    for op in ops:
        if not isinstance(op, str) or "::" not in op:
            raise _wrong_type("eager_ops", op, wanted)
    return ops


def _flag(options: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = options.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _wrong_type(key, value, "True or False")
    return value


def _overrides(value: Any) -> dict[str, Override]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong_type("compile_overrides", value, "a dict of compiler flags to their values")
    for name, setting in value.items():
        if not isinstance(name, str):
            raise _wrong_type("compile_overrides", name, "names of flags as keys")
        if not isinstance(setting, bool | int | float | str):
            raise _wrong_type(f"compile_overrides[{name!r}]", setting, "a bool, int, float or str")
    return dict(value)


def _wrong_type(where: str, value: Any, wanted: str) -> Exception:
    return failure(
        "invalid",
        what=f"option {where} of backend 'pjrt' is {value!r} (a {type(value).__name__})",
        remedy=f"pass {wanted}",
    )
