"""Samples of the ops that only a backward has. training/ compares whole backwards with eager's."""

from __future__ import annotations

import torch
from ops.compare import Sample, sample
from ops.inputs import plain

Samples = list[Sample]

WIDE = [torch.float32, torch.float64]


def convolutions() -> dict[str, Samples]:
    op = "aten::convolution_backward"
    masks = [True, True, True]
    samples = []
    for d in WIDE:
        x, w, grad = plain(d, 2, 4, 7, 6), plain(d, 6, 2, 3, 3), plain(d, 2, 6, 4, 3)
        settings = ([6], [2, 2], [1, 1], [1, 1])
        samples += [sample(op, grad, x, w, *settings, False, [0, 0], 2, masks)]
        samples += [sample(op, x, grad, w, [4], *settings[1:], True, [0, 1], 2, masks)]
    return {op: [Sample(s.op, s.args, s.kwargs, 1e-5) for s in samples]}


def pools() -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    for rank in (2, 3):
        maximum = f"aten::max_pool{rank}d_with_indices_backward"
        average = f"aten::avg_pool{rank}d_backward"
        adaptive = f"aten::_adaptive_avg_pool{rank}d_backward"
        adaptive_maximum = f"aten::adaptive_max_pool{rank}d_backward"
        samples: Samples = []
        for d in WIDE:
            x = plain(d, 2, 3, *(8, 7, 5)[:rank])
            settings = ([3] * rank, [2] * rank, [1] * rank)
            pool = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices")
            y, index = pool(x, *settings, [1] * rank, True)
            samples.append(sample(maximum, y, x, *settings, [1] * rank, True, index))
            samples += [
                sample(average, y, x, *settings, True, counts, divisor)
                for counts, divisor in ((True, None), (False, None), (True, 5))
            ]
            y, index = getattr(torch.ops.aten, f"adaptive_max_pool{rank}d")(x, [3] * rank)
            samples += [sample(adaptive, y, x), sample(adaptive_maximum, y, x, index)]
        for s in samples:
            table.setdefault(s.op, []).append(Sample(s.op, s.args, s.kwargs, 1e-5))
    return table


TABLE: dict[str, Samples] = convolutions() | pools()
