"""Runs of an architecture with the backend and in eager: inference, training, generation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from architectures.models import Example, example

import torch_pjrt

STEPS = 3
NEW_TOKENS = 12


@dataclass(frozen=True)
class Found:
    """`error`: the largest difference from eager, as a part of the largest number of the tensor, or
    of 0.001 where that is more: some parameters have no gradient but rounding errors. The others
    are counts since the start: see torch_pjrt.stats()."""

    error: float
    graphs: int
    graph_breaks: int
    fallbacks: int

    def __str__(self) -> str:
        return f"{self.graphs}, {self.graph_breaks}, {self.fallbacks}"


def _start() -> None:
    torch._dynamo.reset()
    torch_pjrt.reset_stats()


def _found(got: list[torch.Tensor], want: list[torch.Tensor]) -> Found:
    error = max(
        float(((a - b).abs().max() / b.abs().max().clamp(min=1e-3)).detach())
        for a, b in zip(got, want, strict=True)
    )
    stats = torch_pjrt.stats()
    return Found(error, stats["captures"], stats["graph_breaks"], stats["fallbacks"])


def _first(outputs: Any) -> torch.Tensor:
    """The logits, or the last hidden state."""
    return next(v for v in outputs.values() if isinstance(v, torch.Tensor))


def inference(name: str) -> Found:
    given = example(name)
    given.model.eval()
    with torch.no_grad():
        want = _first(given.model(**given.inputs))
        _start()
        got = _first(torch.compile(given.model, backend="pjrt")(**given.inputs))
    return _found([got], [want])


def training(name: str) -> Found | None:
    """Three steps of gradient descent: the losses, and the parameters after them."""
    if not example(name).labels:
        return None
    want = _steps(example(name), compiled=False)
    _start()
    return _found(_steps(example(name), compiled=True), want)


def _steps(given: Example, *, compiled: bool) -> list[torch.Tensor]:
    given.model.train()
    inputs = {k: v for k, v in given.inputs.items() if not k.startswith("decoder_")}
    optimizer = torch.optim.SGD(given.model.parameters(), lr=0.05)
    model = torch.compile(given.model, backend="pjrt") if compiled else given.model
    losses = []
    for _ in range(STEPS):
        loss = model(**inputs, **given.labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *(p.detach() for p in given.model.parameters())]


def generation(name: str) -> bool | None:
    """Whether the tokens are eager's, and no token after the second captures or compiles."""
    given = example(name)
    if not given.generates:
        return None
    model: Any = given.model.eval()
    main = "input_features" if "input_features" in given.inputs else "input_ids"
    inputs = {main: given.inputs[main]}
    if main == "input_ids":
        inputs["attention_mask"] = torch.ones_like(inputs[main])
    options = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False}
    options |= {"cache_implementation": "static", "disable_compile": True, "pad_token_id": 0}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = model.generate(**inputs, **options)
        _start()
        model.forward = torch.compile(model.forward, backend="pjrt")
        got = model.generate(**inputs, **options)
        once = torch_pjrt.stats()
        again = model.generate(**inputs, **options)
        stats = torch_pjrt.stats()
    same = torch.equal(got, want) and torch.equal(again, want)
    return same and all(stats[k] == once[k] for k in ("captures", "compiles"))
