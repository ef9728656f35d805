"""One entry of the OpInfo database, compiled and compared with eager on the CPU."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from operator import getitem
from typing import Any
from unittest import mock

import torch
from opinfo.entries import OTHERS_TRIED, Entry, Sample, seed
from torch._dynamo.utils import counters
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map_only

import torch_pjrt
from torch_pjrt import backend, compiler

# Samples that are compiled as one program.
BATCH = 24


@dataclass
class Tally:
    """Of the samples of one dtype. `wrong`: a result that isn't eager's. `failed`: an exception
    that eager doesn't raise. `fallback`: right, with ops that ran in eager, which `fallbacks` has.
    """

    tried: int = 0
    passed: int = 0
    fallback: int = 0
    wrong: int = 0
    failed: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)  # the first few
    executions: int = 0  # of programs

    def fault(self, text: str) -> None:
        if len(self.faults) < 3:
            self.faults.append(text[:400])


def try_entry(
    entry: Entry, road: str, dtypes: Sequence[str] = (), limit: int | None = None
) -> dict[str, Any]:
    """The tallies by dtype. `road`: "graph" for what AOTAutograd makes of the op's function,
    "backward" for its gradients too, "compile" for torch.compile of the first sample. `dtypes`:
    only these. `limit`: of the samples of each dtype, so many."""
    found = {}
    for dtype in entry.dtypes():
        if dtypes and str(dtype).removeprefix("torch.") not in dtypes:
            continue
        tally = _try_dtype(entry, dtype, road, limit)
        if tally is not None:
            found[str(dtype).removeprefix("torch.")] = asdict(tally)
    return found


def _try_dtype(entry: Entry, dtype: torch.dtype, road: str, limit: int | None) -> Tally | None:
    backward = road == "backward"
    if backward and not (dtype in (torch.float32, torch.float64) and entry.has_backward(dtype)):
        return None
    if road == "compile" and dtype != torch.float32:
        return None
    samples = list(entry.samples(dtype, gradients=backward))
    if road == "compile":
        samples = samples[:1]
    elif dtype != torch.float32:
        samples = samples[:OTHERS_TRIED]
    if limit is not None:
        samples = _spread(samples, limit)
    tally = Tally()
    for first in range(0, len(samples), BATCH):
        _Trial(entry, dtype, road, tally).run(samples[first : first + BATCH])
    return tally


def _spread(samples: list[Sample], count: int) -> list[Sample]:
    """So many of them, the first and the last among them."""
    if len(samples) <= count:
        return samples
    return [samples[k * (len(samples) - 1) // max(1, count - 1)] for k in range(count)]


class _Trial:
    """The samples of one dtype: all in one program, or each alone where that doesn't work."""

    def __init__(self, entry: Entry, dtype: torch.dtype, road: str, tally: Tally) -> None:
        self._entry = entry
        self._tolerance = entry.tolerance(dtype)
        self._run = {"graph": _forward, "backward": _with_gradients, "compile": _compiled}[road]
        self._tally = tally

    def run(self, samples: Sequence[Sample]) -> None:
        wanted = [(s, want) for s in samples if (want := self._eager(s)) is not None]
        self._tally.tried += len(wanted)
        if len(wanted) > 1 and self._together(wanted):
            self._tally.passed += len(wanted)
        else:
            for sample, want in wanted:
                self._alone(sample, want)

    def _eager(self, sample: Sample) -> list[Any] | None:
        """The results; None where eager itself raises."""
        try:
            return self._plain(sample, sample.tensors)
        except Exception:
            return None

    def _plain(self, sample: Sample, tensors: Sequence[torch.Tensor]) -> list[Any]:
        seed(0)
        return tree_leaves(self._run(sample.function, _copies(tensors), compiled=False))

    def _together(self, wanted: Sequence[tuple[Sample, list[Any]]]) -> bool:
        """Whether all are right and nothing fell back."""
        if self._run is not _forward:
            return False
        counts = [len(sample.tensors) for sample, _ in wanted]

        def all_of_them(*tensors: torch.Tensor) -> list[Any]:
            results, start = [], 0
            for (sample, _), count in zip(wanted, counts, strict=True):
                results.append(sample.function(*tensors[start : start + count]))
                start += count
            return results

        tensors = [t for sample, _ in wanted for t in sample.tensors]
        torch_pjrt.reset_stats()
        try:
            got = tree_leaves(_forward(all_of_them, _copies(tensors), compiled=True, error=True))
        except Exception:
            return False
        self._tally.executions += torch_pjrt.stats()["executions"]
        start = 0
        for sample, want in wanted:
            if self._difference(sample, got[start : start + len(want)], want):
                return False
            start += len(want)
        return True

    def _alone(self, sample: Sample, want: list[Any]) -> None:
        tally = self._tally
        torch_pjrt.reset_stats()
        _fallbacks.clear()
        try:
            got = self._results(sample)
        except Exception as error:
            tally.failed += 1
            tally.fault(f"{type(error).__name__}: {error}")
            return
        difference = self._difference(sample, got, want)
        tally.executions += torch_pjrt.stats()["executions"]
        fell_back = set(_fallbacks)
        for op in fell_back:
            tally.fallbacks[op] = tally.fallbacks.get(op, 0) + 1
        if difference:
            tally.wrong += 1
            tally.fault(difference)
        elif fell_back:
            tally.fallback += 1
        else:
            tally.passed += 1

    def _results(self, sample: Sample) -> list[Any]:
        try:
            results = self._run(sample.function, _copies(sample.tensors), compiled=True)
        except torch_pjrt.Error:
            raise
        except Exception:
            # What AOTAutograd can't trace: there Dynamo breaks the graph.
            if self._run is _compiled:
                raise
            again = _compiled if self._run is _forward else _compiled_with_gradients
            results = again(sample.function, _copies(sample.tensors), compiled=True)
            if not _fallbacks:
                _fallbacks["graph break"] += 1
        return tree_leaves(results)

    def _difference(self, sample: Sample, got: list[Any], want: list[Any]) -> str:
        if len(got) != len(want):
            return f"{len(got)} results, eager has {len(want)}"
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            problem = self._compare(a, b)
            if not problem:
                continue
            if problem.startswith("values") and k > 0 and self._entry.names_elements:
                continue
            if problem.startswith("strides") and self._fake_strides(sample, k) == a.stride():
                continue  # torch's fake tensors themselves differ from its kernels
            if problem.startswith("values") and (
                self._is_random(sample, k) or self._is_near(sample, k, a, b)
            ):
                continue
            return f"result {k}: {problem}; of {_describe(sample)}"
        return ""

    def _compare(self, got: Any, want: Any) -> str:
        if not isinstance(want, torch.Tensor):
            same = type(got) is type(want) and (got == want or got != got)
            return "" if same else f"values {got!r}, eager's {want!r}"
        if not isinstance(got, torch.Tensor):
            return f"type {type(got).__name__}"
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"type {got.dtype}{list(got.shape)}, eager's {want.dtype}{list(want.shape)}"
        if self._entry.has_values:
            rtol, atol = self._tolerance
            if want.dtype.is_floating_point or want.dtype.is_complex:
                own = torch.testing._comparison.default_tolerances(want.dtype)
                rtol, atol = max(rtol, own[0]), max(atol, own[1])
            else:
                rtol = atol = 0
            try:
                torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                text = " ".join(str(error).split())
                first = [t.flatten()[:6].tolist() for t in (got, want)]
                return f"values: {text}; {first[0]}, eager's {first[1]}"
        if _strides(got) != _strides(want):
            return f"strides {got.stride()}, eager's {want.stride()}"
        return ""

    def _fake_strides(self, sample: Sample, k: int) -> tuple[int, ...] | None:
        try:
            with FakeTensorMode() as mode:
                fake = [mode.from_tensor(t.detach()) for t in sample.tensors]
                return tree_leaves(sample.function(*fake))[k].stride()
        except Exception:
            return None

    def _is_random(self, sample: Sample, k: int) -> bool:
        """Whether eager gives another result with another seed, which the op may set itself."""
        run = _with_gradients if self._run is _with_gradients else _forward
        results = []
        for number in range(4):
            seed(number)
            with mock.patch("torch.manual_seed"):
                again = run(sample.function, _copies(sample.tensors), compiled=False)
            results.append(tree_leaves(again)[k])
        return not all(torch.equal(results[0], again) for again in results[1:])

    def _is_near(self, sample: Sample, k: int, got: torch.Tensor, want: torch.Tensor) -> bool:
        """Whether a float64 computation says that we are not much further off than eager."""
        if not (want.dtype.is_floating_point or want.dtype.is_complex):
            return False
        wide = torch.complex128 if want.dtype.is_complex else torch.float64
        tensors = [
            t.detach().to(wide if t.is_complex() else torch.float64)
            if t.is_floating_point() or t.is_complex()
            else t
            for t in sample.tensors
        ]
        tensors = [
            t.requires_grad_(s.requires_grad) for t, s in zip(tensors, sample.tensors, strict=True)
        ]
        try:
            exact = self._plain(sample, tensors)[k].to(wide)
        except Exception:
            return False
        off, eagers = ((t.to(wide) - exact).abs().max() for t in (got, want))
        return bool(off <= 3 * eagers + 1e-6 * exact.abs().max())


# Ops that eager ran for want of a program, by name.
_fallbacks: Counter[str] = Counter()


def _note(report: compiler.Report) -> None:
    _fallbacks.update(f.op for f in report.fallbacks if f.why is not None)


def _copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """With the same strides, so that a sample can be used twice."""

    def copy(t: torch.Tensor) -> torch.Tensor:
        if t.layout is not torch.strided:
            return t.clone()
        new = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
        new = new.copy_(t.detach()) if t.numel() else new
        return new.requires_grad_(t.requires_grad)

    return [copy(t) if not _overlaps(t) else t for t in tensors]


def _overlaps(t: torch.Tensor) -> bool:
    return t.layout is torch.strided and any(
        stride == 0 and size > 1 for size, stride in zip(t.shape, t.stride(), strict=True)
    )


def _graph(function: Callable[..., Any], inputs: int, outputs: int) -> torch.fx.GraphModule:
    """A graph of one call that gives a list, as Dynamo would hand it over."""
    graph = torch.fx.Graph()
    call = graph.call_function(function, tuple(graph.placeholder(f"x{k}") for k in range(inputs)))
    graph.output(tuple(graph.call_function(getitem, (call, k)) for k in range(outputs)))
    return torch.fx.GraphModule({}, graph)


def _forward(
    function: Callable[..., Any],
    tensors: list[torch.Tensor],
    *,
    compiled: bool,
    error: bool = False,
) -> Any:
    with torch.no_grad():
        return _call(function, tensors, compiled, error)


def _call(
    function: Callable[..., Any], tensors: list[torch.Tensor], compiled: bool, error: bool = False
) -> Any:
    if not compiled:
        return function(*tensors)

    def flat(*given: torch.Tensor) -> list[Any]:
        return tree_leaves(function(*given))

    seed(0)
    gm = _graph(flat, len(tensors), len(flat(*_copies(tensors))))
    options = {"fallback": "error"} if error else None
    seed(0)
    with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv()))):
        fast = backend.pjrt(gm, tensors, options=options)
    return fast(*tensors)


def _with_gradients(
    function: Callable[..., Any], tensors: list[torch.Tensor], *, compiled: bool
) -> Any:
    """The results, and the gradients of the tensors by a fixed cotangent."""
    results = tree_leaves(_call(function, tensors, compiled))
    outputs = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    inputs = [t for t in tensors if t.requires_grad]
    generator = torch.Generator().manual_seed(1)
    tangents = [
        torch.randn(r.shape, dtype=torch.float64, generator=generator).to(r.dtype) for r in outputs
    ]
    gradients = torch.autograd.grad(outputs, inputs, tangents, allow_unused=True) if outputs else []
    detached = tree_map_only(torch.Tensor, torch.Tensor.detach, results)
    return [*detached, *gradients]


def _compiled(function: Callable[..., Any], tensors: list[torch.Tensor], *, compiled: bool) -> Any:
    with torch.no_grad():
        seed(0)
        return _by_dynamo(function)(*tensors) if compiled else function(*tensors)


def _compiled_with_gradients(
    function: Callable[..., Any], tensors: list[torch.Tensor], *, compiled: bool
) -> Any:
    function = _by_dynamo(function) if compiled else function
    return _with_gradients(function, tensors, compiled=False)


def _by_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    counters.clear()
    fast = torch.compile(function, backend="pjrt")

    def call(*tensors: torch.Tensor) -> Any:
        results = fast(*tensors)
        if counters["graph_break"]:
            _fallbacks["graph break"] += 1
        return results

    return call


def _strides(t: torch.Tensor) -> list[tuple[int, int]]:
    """Of the dims whose stride says something."""
    if t.layout is not torch.strided or t.numel() == 0:
        return []
    return [(d, t.stride(d)) for d in range(t.dim()) if t.size(d) > 1]


def _describe(sample: Sample) -> str:
    return ", ".join(
        f"{str(t.dtype)[6:]}{list(t.shape)}/{list(t.stride())}"
        for t in sample.tensors
        if t.layout is torch.strided
    )


@contextmanager
def prepare() -> Iterator[None]:
    """A context for trials: no warnings and logs, and what falls back is noted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable()
        compiler.observers.append(_note)
        try:
            yield
        finally:
            compiler.observers.remove(_note)
            logging.disable(logging.NOTSET)
