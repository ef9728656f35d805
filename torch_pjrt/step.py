"""train_step: forward, loss, backward and the optimizer's update as one program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import CellType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import torch_internals
from .errors import failure
from .optimizers import Rule, State, rule_of

__all__ = ["TrainStep", "train_step"]

_STOCK = (
    'train by the stock loop: torch.compile(model, backend="pjrt"), loss.backward(), '
    "optimizer.step()"
)


_EMPTY_CELL = CellType()  # of a variable that isn't assigned yet


class _Group(NamedTuple):
    """What the program is given of one of the optimizer's groups.

    numbers: where the values of its hyper-parameters begin. first: of each parameter, whether
    this update is of another form than those that follow. state: slot -> one per parameter.
    """

    switches: tuple[str, ...]
    numbers: int
    first: tuple[bool, ...]
    parameters: list[Tensor]
    state: dict[str, list[Tensor]]


class _Inputs(NamedTuple):
    """values: float64 [hyper-parameters of all groups]. ran: a count that the program raises, so
    that after an exception it is known whether the step was done."""

    groups: list[_Group]
    values: Tensor
    ran: Tensor


def train_step(
    model: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[[Any, Any], Tensor] | None = None,
    *,
    clip_grad_norm: float | None = None,
    accumulate: int = 1,
    autocast: torch.dtype | None = None,
    keep_grads: bool = False,
    modules: Iterable[torch.nn.Module] | None = None,
) -> TrainStep:
    """A callable that does one step of training in one program, compiled at its first call.

    With `loss_fn`: step(*inputs, target) computes loss_fn(model(*inputs), target). Without, `model`
    is any function that returns a loss, or a loss and a pytree: step takes its arguments and
    returns the same, detached. The loss is a tensor of one element.

    The optimizer's parameters and state, and the buffers of the modules, change in place. Other
    parameters get no gradient.

    clip_grad_norm: the norm to which the gradients of the optimizer's parameters are scaled down.
    accumulate: above 1, step takes a list of so many tuples of arguments; the gradients and losses
    are averaged, the rest stacked. autocast: None or torch.bfloat16, for the model and the loss.
    keep_grads: the gradients are in p.grad after a step; otherwise p.grad is None. modules: those
    that `model` uses, if they aren't found in its closure; they are looked through for hooks.

    Raises Error (unsupported) for what the stock loop has to do: another optimizer than SGD, Adam,
    AdamW and RMSprop, complex parameters, and hooks on parameters, gradients or the optimizer.
    """
    return TrainStep(
        torch_internals.uncompiled(model),
        optimizer,
        loss_fn,
        clip_grad_norm=clip_grad_norm,
        accumulate=accumulate,
        autocast=autocast,
        keep_grads=keep_grads,
        modules=list(modules or ()),
    )


class TrainStep:
    """What train_step returns. Calls from several threads run one after the other."""

    def __init__(
        self,
        forward: Callable[..., Any],
        optimizer: torch.optim.Optimizer,
        loss_fn: Callable[[Any, Any], Tensor] | None,
        *,
        clip_grad_norm: float | None,
        accumulate: int,
        autocast: torch.dtype | None,
        keep_grads: bool,
        modules: list[torch.nn.Module],
    ) -> None:
        _check_options(clip_grad_norm, accumulate, autocast)
        self._optimizer = optimizer
        self._rule = rule_of(optimizer)
        self._accumulate = accumulate
        self._keep_grads = keep_grads
        self._modules = modules or list(_modules_of(forward))
        _check_modules(self._modules)
        self._lock = threading.Lock()
        self._ran = torch.zeros((), dtype=torch.int64)
        whole = _whole_step(forward, loss_fn, self._rule, clip_grad_norm, autocast, keep_grads)
        self._run = torch_internals.compile_with_gradients(whole)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        batches = self._batches(args, kwargs)
        if torch.is_inference_mode_enabled():
            raise failure(
                "invalid",
                what="train_step was called in torch.inference_mode()",
                remedy="call it outside of that",
            )
        with self._lock:
            inputs, fresh = self._inputs()
            before = int(self._ran)
            try:
                outputs, used, gradients = self._run(inputs, batches)
            except BaseException:
                if int(self._ran) != before:  # interrupted on the way back
                    self._finish(inputs, fresh, None, None)
                raise
            self._finish(inputs, fresh, used, gradients)
            return outputs

    def _batches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if self._accumulate == 1:
            return [(args, kwargs)]
        given = args[0] if len(args) == 1 and not kwargs else None
        if not isinstance(given, list | tuple) or len(given) != self._accumulate:
            raise failure(
                "invalid",
                what=f"a step of accumulate={self._accumulate} takes one list of as many batches",
                remedy="pass step([args_1, ..., args_k]), each a tuple of arguments",
            )
        for batch in given:
            if not isinstance(batch, tuple):
                raise failure(
                    "invalid",
                    what=f"a batch of a step is a {type(batch).__name__}",
                    remedy="pass each batch as the tuple of the arguments",
                )
        return [(batch, {}) for batch in given]

    def _inputs(self) -> tuple[_Inputs, list[tuple[Tensor, str, Tensor]]]:
        """What the program is given, and the new state: parameter, slot, tensor."""
        rule, state = self._rule, self._optimizer.state
        if torch_internals.has_step_hooks(self._optimizer):
            raise _hooked("the optimizer has hooks on its step")
        groups: list[_Group] = []
        values: list[float] = []
        fresh: list[tuple[Tensor, str, Tensor]] = []
        for group in self._optimizer.param_groups:
            if group.get("differentiable"):
                raise _unsupported("differentiates through the optimizer")
            parameters = [p for p in group["params"] if p.requires_grad]
            slots = rule.slots(group)
            held: dict[str, list[Tensor]] = {slot: [] for slot in slots}
            first = []
            for p in parameters:
                _check_parameter(p)
                own = state.get(p, {})
                is_new = False
                for slot in slots:
                    tensor = own.get(slot)
                    if tensor is None:
                        is_new = True
                        tensor = _new_state(p, slot)
                        fresh.append((p, slot, tensor))
                    held[slot].append(tensor)
                first.append(is_new)
            is_first = tuple(first) if any(first) and rule.has_first_step(group) else ()
            groups.append(_Group(rule.switches(group), len(values), is_first, parameters, held))
            values += rule.numbers(group)
        return _Inputs(groups, torch.tensor(values, dtype=torch.float64), self._ran), fresh

    def _finish(
        self,
        inputs: _Inputs,
        fresh: list[tuple[Tensor, str, Tensor]],
        used: tuple[bool, ...] | None,
        gradients: Sequence[Tensor | None] | None,
    ) -> None:
        """The optimizer gets the new state of the parameters that the loss depends on."""
        parameters = [p for group in inputs.groups for p in group.parameters]
        unused: set[Tensor] = set()
        if used is not None and not all(used):
            unused = {p for p, is_used in zip(parameters, used, strict=True) if not is_used}
        for p, slot, tensor in fresh:
            if p not in unused:
                self._optimizer.state[p][slot] = tensor
        if gradients is None or not self._keep_grads:
            for p in parameters:
                p.grad = None
        else:
            for p, gradient in zip(parameters, gradients, strict=True):
                p.grad = gradient
        torch_internals.note_step(self._optimizer)


def _new_state(p: Tensor, slot: str) -> Tensor:
    if slot == "step":
        dtype = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
        return torch.zeros((), dtype=dtype)
    return torch.zeros_like(p, memory_format=torch.preserve_format).detach()


# --- what is traced


def _whole_step(
    forward: Callable[..., Any],
    loss_fn: Callable[[Any, Any], Tensor] | None,
    rule: Rule,
    clip_grad_norm: float | None,
    autocast: torch.dtype | None,
    keep_grads: bool,
) -> Callable[..., Any]:
    """A function of _Inputs and the batches, that changes the former in place.

    It returns the outputs, whether the loss depends on each parameter, and the gradients or None.
    """

    def result_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        """The loss, and (what else the function returns,) or ()."""
        context: AbstractContextManager[Any] = nullcontext()
        if autocast is not None:
            context = torch.autocast("cpu", dtype=autocast)
        with context:
            if loss_fn is not None:
                return loss_fn(forward(*args[:-1]), args[-1]), ()
            result = forward(*args, **kwargs)
        if isinstance(result, tuple):
            loss, aux = result
            return loss, (aux,)
        return result, ()

    def whole_step(inputs: _Inputs, batches: list[Any]) -> Any:
        parameters = [p for group in inputs.groups for p in group.parameters]
        losses, rest = [], []
        totals: list[Tensor | None] = [None] * len(parameters)
        with torch.enable_grad():
            for args, kwargs in batches:
                loss, aux = result_of(args, kwargs)
                if len(batches) > 1:
                    loss = loss / len(batches)
                gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
                totals = [_sum(t, g) for t, g in zip(totals, gradients, strict=True)]
                losses.append(loss.detach())
                rest.append(torch_internals.tree_map(_detached, aux))
        with torch.no_grad():
            if clip_grad_norm is not None:
                totals = _clipped(totals, clip_grad_norm)
            _update(rule, inputs, totals)
            inputs.ran.add_(1)
            loss = losses[0]
            for other in losses[1:]:
                loss = loss + other
            aux = rest[0] if len(rest) == 1 else torch_internals.tree_map(_stacked, *rest)
        used = tuple(g is not None for g in totals)
        outputs = (loss, *aux) if aux else loss
        return outputs, used, totals if keep_grads else None

    return whole_step


def _update(rule: Rule, inputs: _Inputs, gradients: Sequence[Tensor | None]) -> None:
    k = 0
    for group in inputs.groups:
        numbers: State = {
            name: inputs.values[group.numbers + i] for i, name in enumerate(rule.names)
        }
        for i, p in enumerate(group.parameters):
            gradient = gradients[k]
            k += 1
            if gradient is None:
                continue
            switches = group.switches
            if group.first and group.first[i]:
                switches = (*switches, "first")
            state = {slot: held[i] for slot, held in group.state.items()}
            rule.update(p, gradient, state, numbers, switches)


def _sum(total: Tensor | None, gradient: Tensor | None) -> Tensor | None:
    if total is None or gradient is None:
        return gradient if total is None else total
    return total + gradient


def _clipped(gradients: Sequence[Tensor | None], norm: float) -> list[Tensor | None]:
    """As torch.nn.utils.clip_grad_norm_."""
    norms = [torch.linalg.vector_norm(g) for g in gradients if g is not None]
    if not norms:
        return list(gradients)
    wide = norms[0].dtype
    for n in norms:
        wide = torch.promote_types(wide, n.dtype)
    total = torch.linalg.vector_norm(torch.stack([n.to(wide) for n in norms]))
    factor = (norm / (total + 1e-6)).clamp(max=1.0)
    return [None if g is None else g * factor.to(g.dtype) for g in gradients]


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _stacked(*leaves: Any) -> Any:
    return torch.stack(leaves) if isinstance(leaves[0], Tensor) else list(leaves)


# --- checks


def _check_options(
    clip_grad_norm: float | None, accumulate: int, autocast: torch.dtype | None
) -> None:
    if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
        raise failure(
            "invalid",
            what=f"accumulate is {accumulate!r}",
            remedy="pass the number of batches of a step, 1 or more",
        )
    if autocast not in (None, torch.bfloat16):
        raise failure(
            "invalid", what=f"autocast is {autocast!r}", remedy="pass None or torch.bfloat16"
        )
    if clip_grad_norm is not None and not (
        isinstance(clip_grad_norm, int | float) and clip_grad_norm > 0
    ):
        raise failure(
            "invalid",
            what=f"clip_grad_norm is {clip_grad_norm!r}",
            remedy="pass the greatest norm of the gradients, a number above 0, or None",
        )


def _modules_of(function: Any) -> Iterator[torch.nn.Module]:
    """The modules that a function is, is a method of, or names: in its closure or globals."""
    cells = getattr(function, "__closure__", None) or ()
    held = [function, getattr(function, "__self__", None)]
    held += [cell.cell_contents for cell in cells if cell != _EMPTY_CELL]
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    held += [names.get(name) for name in code.co_names] if code is not None else []
    for value in held:
        if isinstance(value, torch.nn.Module):
            yield value


def _check_modules(modules: Iterable[torch.nn.Module]) -> None:
    for root in modules:
        for name, module in root.named_modules():
            if isinstance(module, torch.nn.parallel.DistributedDataParallel):
                raise _unsupported("doesn't exchange the gradients of DistributedDataParallel")
            if torch_internals.has_backward_hooks(module):
                raise _hooked(f"module {name or type(module).__name__} has backward hooks")


def _check_parameter(p: Tensor) -> None:
    if torch_internals.has_gradient_hooks(p):
        raise _hooked(f"a parameter of shape {list(p.shape)} has hooks on its gradient")
    if p.is_complex():
        raise _unsupported("doesn't update complex parameters")
    if not p.is_leaf:
        raise _unsupported("updates parameters that are leaves only")


def _hooked(what: str) -> Exception:
    return failure("unsupported", what=f"train_step can't run hooks: {what}", remedy=_STOCK)


def _unsupported(what: str) -> Exception:
    return failure("unsupported", what=f"train_step {what}", remedy=_STOCK)
