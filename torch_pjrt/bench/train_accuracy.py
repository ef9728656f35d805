"""The rule for training: how far gradients and losses may be from eager's in float64."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from .train_loop import Observed

STEPS = 5
SEEDS = 3
# Times eager's own error in float32, and what is allowed beyond.
FACTOR, SLACK = 4.0, 1e-4
MEDIAN_FACTOR = 2.0
# An error that no tensor's falls below: half the distance of two float32 numbers.
ROUNDING = 2.0**-25
# The part of the whole gradient (per element, root mean square) below which a parameter's, in
# float64, is nothing but rounding: that of a bias before a batch norm is zero by arithmetic.
NOTHING = 1e-9


@dataclass
class Errors:
    """Sums over seeds of relative errors: L2 per gradient, and of the loss of each step."""

    gradients: dict[str, float] = field(default_factory=dict)
    losses: list[float] = field(default_factory=lambda: [0.0] * STEPS)
    problem: str = ""

    def add(self, found: Observed, exact: Observed) -> None:
        if missing := exact.gradients.keys() ^ found.gradients.keys():
            self.problem = f"gradients of {sorted(missing)[0]} and others: not of both"
            return
        whole = _scale(exact.gradients.values())
        for name, gradient in found.gradients.items():
            error = _relative(gradient, exact.gradients[name], whole)
            self.gradients[name] = self.gradients.get(name, 0.0) + error / SEEDS
        for k, (loss, expected) in enumerate(zip(found.losses, exact.losses, strict=True)):
            self.losses[k] += abs(loss - expected) / abs(expected) / SEEDS


@dataclass(frozen=True)
class Verdict:
    """error: the largest relative error of a gradient. gradient and loss: the largest part of
    what is allowed that was used, and median: the median of ours / eager's over the gradients."""

    passed: bool
    error: float
    gradient: float
    median: float
    loss: float
    message: str = ""

    @property
    def used(self) -> str:
        return f"gradients {self.gradient:.0%}, median {self.median:.2f}x, losses {self.loss:.0%}"


def judge(ours: Errors, eager: Errors) -> Verdict:
    """Compares the errors of a compiled model with those of eager in float32."""
    if ours.problem:
        return Verdict(False, math.inf, math.inf, math.inf, math.inf, ours.problem)
    names = list(eager.gradients)
    used = {n: _used(ours.gradients[n], eager.gradients[n]) for n in names}
    worst = max(names, key=lambda n: _nan_last(used[n]))
    ratios = [ours.gradients[n] / max(eager.gradients[n], ROUNDING) for n in names]
    median = statistics.median(_nan_last(r) for r in ratios)
    loss = max(_nan_last(_used(a, b)) for a, b in zip(ours.losses, eager.losses, strict=True))
    problems = []
    if not used[worst] <= 1:
        problems.append(
            f"the gradient of {worst}: relative error {ours.gradients[worst]:.1e}, "
            f"eager's own {eager.gradients[worst]:.1e}"
        )
    if not median <= MEDIAN_FACTOR:
        problems.append(f"the median gradient has {median:.1f} times eager's own error")
    if not loss <= 1:
        problems.append(f"losses {_list(ours.losses)}, eager's own {_list(eager.losses)}")
    error = max(_nan_last(e) for e in ours.gradients.values())
    message = "; ".join(problems)
    return Verdict(not problems, error, _nan_last(used[worst]), median, loss, message)


def worst(verdicts: Mapping[str, Verdict]) -> tuple[str, Verdict]:
    """The first that failed, else the one that used the most of what is allowed."""
    return min(verdicts.items(), key=lambda v: (v[1].passed, -v[1].gradient))


def _used(ours: float, own: float) -> float:
    return ours / (FACTOR * own + SLACK)


def _nan_last(number: float) -> float:
    return math.inf if math.isnan(number) else number


def _scale(gradients: Iterable[Tensor]) -> float:
    """The root mean square over all elements."""
    squares, count = 0.0, 0
    for gradient in gradients:
        squares += float(gradient.double().square().sum())
        count += gradient.numel()
    return math.sqrt(squares / count)


def _relative(found: Tensor, exact: Tensor, whole: float) -> float:
    """Of a gradient that is zero by arithmetic, as a part of the whole gradient's size."""
    size, usual = float(exact.norm()), whole * math.sqrt(exact.numel())
    return float((found.double() - exact).norm()) / (size if size > NOTHING * usual else usual)


def _list(numbers: Sequence[float]) -> str:
    return "[" + ", ".join(f"{number:.1e}" for number in numbers) + "]"
