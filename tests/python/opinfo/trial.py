"""One entry of the OpInfo database on a road, compared with eager on the CPU."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from unittest import mock

import torch
from opinfo import roads
from opinfo.entries import OTHERS_TRIED, Entry, Sample
from opinfo.roads import Results
from torch._dynamo.utils import same
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

import torch_pjrt


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
    """The tallies by dtype. `road`: a key of roads.ROADS. `dtypes`: only these. `limit`: of the
    samples of each dtype, so many."""
    found = {}
    for dtype in entry.dtypes():
        if dtypes and str(dtype).removeprefix("torch.") not in dtypes:
            continue
        tally = _try_dtype(entry, dtype, roads.ROADS[road], limit)
        if tally is not None:
            found[str(dtype).removeprefix("torch.")] = asdict(tally)
    return found


def _try_dtype(
    entry: Entry, dtype: torch.dtype, road: roads.Road, limit: int | None
) -> Tally | None:
    if road.gradients and not (
        dtype in (torch.float32, torch.float64) and entry.has_backward(dtype)
    ):
        return None
    if road.first_only and dtype != torch.float32:
        return None
    samples = list(entry.samples(dtype, gradients=road.gradients))
    if road.first_only:
        samples = samples[:1]
    elif dtype != torch.float32:
        samples = samples[:OTHERS_TRIED]
    if limit is not None:
        samples = _spread(samples, limit)
    tally = Tally()
    trial = _Trial(entry, dtype, road, tally)
    for first in range(0, len(samples), road.batch):
        trial.run(samples[first : first + road.batch])
    return tally


def _spread(samples: list[Sample], count: int) -> list[Sample]:
    """So many of them, the first and the last among them."""
    if len(samples) <= count:
        return samples
    return [samples[k * (len(samples) - 1) // max(1, count - 1)] for k in range(count)]


class _Trial:
    """The samples of one dtype: all at once, or each alone where that doesn't work."""

    def __init__(self, entry: Entry, dtype: torch.dtype, road: roads.Road, tally: Tally) -> None:
        self._entry = entry
        self._tolerance = entry.tolerance(dtype)
        self._road = road
        self._tally = tally

    def run(self, samples: Sequence[Sample]) -> None:
        wanted = [(s, want) for s in samples if (want := self._eager(s)) is not None]
        self._tally.tried += len(wanted)
        if len(wanted) > 1 and self._together(wanted):
            self._tally.passed += len(wanted)
        else:
            for sample, want in wanted:
                self._alone(sample, want)

    def _eager(self, sample: Sample) -> Results | None:
        """The results; None where eager itself raises."""
        try:
            return self._plain(sample)
        except Exception:
            return None

    def _plain(self, sample: Sample) -> Results:
        return roads.eager(sample, self._road.gradients, spread_out=not self._road.on_device)

    def _together(self, wanted: Sequence[tuple[Sample, Results]]) -> bool:
        """Whether all are right and nothing fell back."""
        if self._road.many is None:
            return False
        torch_pjrt.reset_stats()
        try:
            got = self._road.many([sample for sample, _ in wanted])
            differ = any(
                self._difference(sample, results, want)
                for (sample, want), results in zip(wanted, got, strict=True)
            )
        except Exception:
            return False
        if not differ:
            self._tally.executions += torch_pjrt.stats()["executions"]
        return not differ

    def _alone(self, sample: Sample, want: Results) -> None:
        tally = self._tally
        torch_pjrt.reset_stats()
        roads.fallbacks.clear()
        try:
            got = self._road.one(sample)
            difference = self._difference(sample, got, want)
        except Exception as error:
            tally.failed += 1
            tally.fault(f"{type(error).__name__}: {error}")
            return
        tally.executions += torch_pjrt.stats()["executions"]
        fell_back = set(roads.fallbacks)
        for op in fell_back:
            tally.fallbacks[op] = tally.fallbacks.get(op, 0) + 1
        if difference:
            tally.wrong += 1
            tally.fault(difference)
        elif fell_back:
            tally.fallback += 1
        else:
            tally.passed += 1

    def _difference(self, sample: Sample, got: Results, want: Results) -> str:
        if len(got) != len(want):
            return f"{len(got)} results, eager has {len(want)}"
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            problem = self._compare(a, b)
            if not problem:
                continue
            if problem.startswith("strides") and a.stride() in self._other_strides(sample, k):
                continue
            if problem.startswith("values") and (
                self._is_random(sample, k)
                or self._names_an_equal(sample, k, got, want)
                or self._is_near(sample, k, a, b)
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
        strides = got.stride() if got.layout is torch.strided else ()
        if self._entry.has_values and (problem := self._compare_values(got.cpu(), want)):
            return problem
        if _strides(got) != _strides(want):
            return f"strides {strides}, eager's {want.stride()}"
        return ""

    def _compare_values(self, got: torch.Tensor, want: torch.Tensor) -> str:
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
        return ""

    def _other_strides(self, sample: Sample, k: int) -> list[Any]:
        """Those that torch itself may give beside eager's: its fake tensors differ from its kernels
        in some, and AOTAutograd lays gradients out as it likes."""
        found: list[Any] = []
        if self._road.gradients and not self._road.on_device:
            found.append(roads.strides_of_autograd(sample, k))
        try:
            with FakeTensorMode() as mode:
                fake = [mode.from_tensor(t.detach()) for t in sample.tensors]
                found.append(tree_leaves(sample.function(*fake))[k].stride())
        except Exception:
            pass
        return found

    def _is_random(self, sample: Sample, k: int) -> bool:
        """Whether eager gives another result with another seed, which the op may set itself."""
        results = []
        for number in range(4):

            def reseed(_: int, number: int = number) -> None:
                torch.default_generator.manual_seed(number)

            with mock.patch.object(roads, "seed", reseed), mock.patch("torch.manual_seed"):
                results.append(self._plain(sample)[k])
        if not isinstance(results[0], torch.Tensor):
            return any(again != results[0] for again in results)
        return not all(torch.equal(results[0], again) for again in results[1:])

    def _names_an_equal(self, sample: Sample, k: int, got: Results, want: Results) -> bool:
        """Whether the places of elements are other ones of equal elements (docs/using.md), or these
        are the gradients of such."""
        if sample.dim is None or k == 0 or torch.equal(got[1].cpu(), want[1]):
            return False
        if k > 1:
            ours, eagers = (r[k].cpu().flatten().sort().values for r in (got, want))
            return not self._compare_values(ours, eagers)
        source, values, places = sample.tensors[0].detach(), got[0].cpu(), got[1].cpu()
        if source.dim() == 0:
            return False
        if values.dim() < source.dim():
            values, places = values.unsqueeze(sample.dim), places.unsqueeze(sample.dim)
        ordered = places.sort(sample.dim).values
        if (ordered.diff(dim=sample.dim) == 0).any():
            return False
        there = source.gather(sample.dim, places)
        return bool(torch.equal(there.nan_to_num(), values.nan_to_num()))

    def _is_near(self, sample: Sample, k: int, got: Any, want: Any) -> bool:
        """Whether a float64 computation says that we are as near as eager, by the rule by which
        PyTorch's own benchmarks judge its compilers."""
        if not isinstance(want, torch.Tensor) or not (
            want.dtype.is_floating_point or want.dtype.is_complex
        ):
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
            again = Sample(sample.function, tensors, sample.on_device, sample.dim)
            exact = self._plain(again)[k].to(wide)
        except Exception:
            return False
        parts = [
            torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
            for t in (want, got.cpu(), exact)
        ]
        tolerance = torch.testing._comparison.default_tolerances(parts[0].dtype)[0]
        return same(*parts, tol=tolerance, equal_nan=True, log_error=lambda *_: None)


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
        try:
            with roads.noted():
                yield
        finally:
            logging.disable(logging.NOTSET)
