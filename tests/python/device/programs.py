"""Random small programs of views and mutations, to be run on two devices alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import torch_pjrt  # noqa: F401  (registers the device)

Tensor = torch.Tensor
Write = Callable[[], object]
Step = Callable[[list[Tensor]], None]


class Programs:
    """Draws the steps of a program by a seed; each step does the same to the tensors of any device.

    The choices depend on sizes and strides only, so two runs with equal seeds are equal programs as
    long as both devices agree on these.
    """

    def __init__(self, seed: int, device: str) -> None:
        self.rng = random.Random(seed)
        self.device = device
        self.tensors: list[Tensor] = []
        self.log: list[str] = []

    def run(self, steps: int) -> None:
        for _ in range(3):
            self.tensors.append(self._fresh())
        for _ in range(steps):
            step = self.rng.choice(_STEPS)
            self.log.append(step.__name__)
            try:
                step(self)
            except (RuntimeError, IndexError) as error:
                # Eager refuses: so must the device, with the same kind of error.
                self.log.append(type(error).__name__)
            self.tensors = self.tensors[-8:]

    def _fresh(self) -> Tensor:
        rank = self.rng.choice([0, 1, 2, 2, 3, 3])
        sizes = [self.rng.choice([0, 1, 2, 3, 4, 5]) for _ in range(rank)]
        if self.rng.random() < 0.7:
            sizes = [max(1, s) for s in sizes]
        dtype = self.rng.choice([torch.float32] * 4 + [torch.int64, torch.float64, torch.bool])
        n = 1
        for s in sizes:
            n *= s
        numbers = [self.rng.randint(-9, 9) for _ in range(n)]
        host = torch.tensor(numbers, dtype=torch.int64).view(sizes).to(dtype)
        if rank > 1 and self.rng.random() < 0.3:
            host = host.transpose(0, 1).contiguous().transpose(0, 1)
        return host.to(self.device)

    def pick(self) -> Tensor:
        return self.rng.choice(self.tensors)

    def keep(self, tensor: Tensor) -> None:
        self.tensors.append(tensor)

    def dim(self, t: Tensor) -> int:
        return self.rng.randrange(-t.dim(), t.dim()) if t.dim() else 0

    def write(self, write: Write, target: Tensor, *operands: Tensor) -> None:
        """Calls `write`, which writes to the target what it computes of operands. Where eager's
        result depends on the order in which it takes the elements, all of them are zeroed after
        it: such an overlap is refused where eager sees it, and undefined elsewhere."""
        write()
        if not is_defined(target, *operands):
            target.zero_()


def places(t: Tensor) -> list[int]:
    """Of each element, in order: the first of its bytes in its storage."""
    found = [t.storage_offset()]
    for size, stride in zip(t.shape, t.stride(), strict=True):
        found = [place + k * stride for place in found for k in range(size)]
    return [place * t.element_size() for place in found]


def is_defined(target: Tensor, *operands: Tensor) -> bool:
    """Whether each element is written once, and none that is read for another of the target's."""
    written = places(target)
    if len(set(written)) < len(written):
        return False
    end = target.element_size()
    for t in operands:
        if t.untyped_storage()._cdata != target.untyped_storage()._cdata:
            continue
        if t.shape == target.shape and t.dtype == target.dtype and places(t) == written:
            continue
        reads = {byte for place in places(t) for byte in range(place, place + t.element_size())}
        if any(not reads.isdisjoint(range(place, place + end)) for place in written):
            return False
    return True


def _transpose(p: Programs) -> None:
    t = p.pick()
    p.keep(t.transpose(p.dim(t), p.dim(t)))


def _permute(p: Programs) -> None:
    t = p.pick()
    order = list(range(t.dim()))
    p.rng.shuffle(order)
    p.keep(t.permute(order))


def _slice(p: Programs) -> None:
    t = p.pick()
    d = p.dim(t)
    start, step = p.rng.randint(-5, 4), p.rng.choice([1, 1, 2, 3])
    end = p.rng.randint(-3, 6)
    p.keep(torch.ops.aten.slice.Tensor(t, d, start, end, step))


def _select(p: Programs) -> None:
    t = p.pick()
    d = p.dim(t)
    p.keep(t.select(d, p.rng.randrange(t.shape[d] or 1) if t.dim() else 0))


def _expand(p: Programs) -> None:
    t = p.pick()
    p.keep(t.expand([2, *[3 if s == 1 else s for s in t.shape]]))


def _view(p: Programs) -> None:
    t = p.pick()
    p.keep(t.view(-1) if p.rng.random() < 0.5 else t.view([*t.shape, 1]))


def _reshape(p: Programs) -> None:
    t = p.pick()
    p.keep(t.reshape([-1, t.shape[0]] if t.dim() and t.numel() else [t.numel()]))


def _squeeze(p: Programs) -> None:
    t = p.pick()
    p.keep(t.squeeze() if p.rng.random() < 0.5 else t.unsqueeze(p.rng.randint(0, t.dim())))


def _diagonal(p: Programs) -> None:
    t = p.pick()
    p.keep(t.diagonal(p.rng.randint(-1, 1)))


def _unfold(p: Programs) -> None:
    t = p.pick()
    p.keep(t.unfold(p.dim(t), p.rng.randint(1, 3), p.rng.randint(1, 2)))


def _as_strided(p: Programs) -> None:
    t = p.pick()
    n = t.untyped_storage().nbytes() // t.element_size()
    sizes = [p.rng.randint(1, 3) for _ in range(p.rng.randint(0, 2))]
    strides = [p.rng.randint(0, 4) for _ in sizes]
    last = sum((s - 1) * k for s, k in zip(sizes, strides, strict=True))
    if last < n:
        p.keep(t.as_strided(sizes, strides, p.rng.randint(0, n - 1 - last)))


def _chunk(p: Programs) -> None:
    t = p.pick()
    for part in t.chunk(2, p.dim(t))[:3]:
        p.keep(part)


def _unbind(p: Programs) -> None:
    t = p.pick()
    for part in t.unbind(p.dim(t))[:2]:
        p.keep(part)


def _view_dtype(p: Programs) -> None:
    t = p.pick()
    p.keep(t.view(p.rng.choice([torch.int32, torch.float32, torch.int16])))


def _add_(p: Programs) -> None:
    t, number = p.pick(), p.rng.randint(-3, 3)
    p.write(lambda: t.add_(number), t)


def _add_tensor_(p: Programs) -> None:
    t, other = p.pick(), p.pick()
    p.write(lambda: t.add_(other, alpha=2), t, other)


def _fill_(p: Programs) -> None:
    p.pick().fill_(p.rng.randint(0, 5))


def _zero_(p: Programs) -> None:
    p.pick().zero_()


def _copy_(p: Programs) -> None:
    t, source = p.pick(), p.pick()
    p.write(lambda: t.copy_(source), t, source)


def _neg(p: Programs) -> None:
    p.keep(-p.pick())


def _mul(p: Programs) -> None:
    p.keep(p.pick() * p.pick())


def _clamp(p: Programs) -> None:
    p.keep(p.pick().clamp(-100, 100))


def _clone(p: Programs) -> None:
    t = p.pick()
    p.keep(t.clone() if p.rng.random() < 0.5 else t.contiguous())


def _to(p: Programs) -> None:
    p.keep(p.pick().to(p.rng.choice([torch.float64, torch.int32, torch.float32])))


def _sum(p: Programs) -> None:
    t = p.pick()
    p.keep(t.sum() if p.rng.random() < 0.5 else t.sum(p.dim(t), keepdim=True))


def _out(p: Programs) -> None:
    """Into a fresh tensor or one of any sizes, which it is resized from, with a warning, where it
    has elements."""
    a, b = p.pick(), p.pick()
    out = torch.empty(0, dtype=a.dtype, device=p.device) if p.rng.random() < 0.5 else p.pick()
    if out.storage_offset() * out.element_size() > out.untyped_storage().nbytes():
        return  # what lies between the old end and the new elements is undefined
    p.write(lambda: torch.add(a, b, out=out), out, a, b)
    p.keep(out)


def _set_(p: Programs) -> None:
    a, b = p.pick(), p.pick()
    if a.dtype == b.dtype:
        p.keep(a.view(a.shape).set_(b))


def _resize_(p: Programs) -> None:
    t = p.pick()
    n = t.untyped_storage().nbytes() // t.element_size()
    if t.storage_offset() + 2 <= n:
        p.keep(t.view(t.shape).resize_(2))


def _index(p: Programs) -> None:
    t = p.pick()
    if t.dim() and t.shape[0]:
        p.keep(t[torch.tensor([0, -1], device=p.device)])


def _set_item(p: Programs) -> None:
    t = p.pick()
    if t.dim() and t.shape[0]:
        t[0] = p.rng.randint(0, 9)


def _columns(p: Programs) -> None:
    """Views that differ in their start alone, at so many places that one program serves all."""
    rows, columns = p.rng.choice([(3, 9), (2, 7)])
    host = torch.arange(float(rows * columns)).view(rows, columns)
    t = host.to(p.device) if p.rng.random() < 0.5 else host.t().contiguous().to(p.device).t()
    wide = p.rng.randint(1, 2)
    for k in p.rng.sample(range(columns - 1), 6):
        if p.rng.random() < 0.5:
            t[:, k].add_(k)
        else:
            target, factor = t[:, k : k + wide], t[:, 0:wide]
            p.write(partial(target.mul_, factor), target, factor)
        if p.rng.random() < 0.3:
            p.keep(t[1:, k])
    p.keep(t)


def _swap(p: Programs) -> None:
    """Values that change places."""
    a, b = p.pick(), p.pick()
    if a.shape == b.shape:
        old = a * 1
        p.write(lambda: a.copy_(b), a, b)
        p.write(lambda: b.copy_(old), b)


def _detach(p: Programs) -> None:
    p.keep(p.pick().detach())


def _run(p: Programs) -> None:
    if p.device == "pjrt":
        torch.pjrt.mark_step()


def _read(p: Programs) -> None:
    p.log.append(str(p.pick().cpu().tolist()))


_STEPS: list[Callable[[Programs], None]] = [
    _transpose, _permute, _slice, _select, _expand, _view, _reshape, _squeeze, _diagonal, _unfold,
    _as_strided, _chunk, _unbind, _view_dtype, _add_, _add_tensor_, _fill_, _zero_, _copy_, _neg,
    _mul, _clamp, _clone, _to, _sum, _out, _set_, _resize_, _index, _set_item, _columns, _swap,
    _detach, _read, _run,
]  # fmt: skip


def state(programs: Programs) -> list[Any]:
    """What can be seen of all tensors: sizes, strides (of dims that have any, where there are
    elements), offset, dtype."""
    return [
        (
            t.dtype,
            tuple(t.shape),
            [
                stride
                for size, stride in zip(t.shape, t.stride(), strict=True)
                if size > 1 and t.numel()
            ],
            t.storage_offset(),
        )
        for t in programs.tensors
    ]
