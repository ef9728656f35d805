"""train_step: forward, loss, backward and the optimizer's update as one program."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _C, accumulation, copies, replay, step_reasons, torch_internals
from .errors import failure
from .known_step import KnownStep
from .optimizers import SCALARS, Rule, State, rule_of
from .three_programs import Batch, Loss, ThreePrograms, averaged

__all__ = ["ThreeProgramsWarning", "TrainStep", "train_step"]


# To know a step costs as much as to make it: where so many in a row were of no use, only one
# in so many is looked at.
_MOST_UNUSED = 8


class ThreeProgramsWarning(UserWarning):
    """A step is three programs, as in the stock loop. The message says why."""


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

    Where something has to run between forward, backward and update (hooks on gradients or on the
    optimizer, a GradScaler, sparse gradients, another optimizer), a step is those three programs,
    and a ThreeProgramsWarning says why.
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
        self._accumulate = accumulate
        self._keep_grads = keep_grads
        objects = list(step_reasons.objects_of(forward))
        self._roots = modules or [m for m in objects if isinstance(m, torch.nn.Module)]
        self._modules = _with_inner(self._roots)
        self._scaler = next((o for o in objects if isinstance(o, torch.amp.GradScaler)), None)
        self._fixed_reason = step_reasons.of_class(optimizer)
        if self._scaler is not None and self._scaler.is_enabled():
            self._fixed_reason = "a GradScaler looks at the gradients"
        self._said: set[str] = set()
        self._lock = threading.Lock()
        self._ran = torch.zeros((), dtype=torch.int64)
        loss_of = _loss_of(forward, loss_fn, autocast, _device_of(optimizer).type)
        self._rule = rule_of(optimizer)
        self._model: tuple[str, torch.nn.Module] | None = None
        if self._rule is not None:
            self._whole = _whole_step(loss_of, self._rule, clip_grad_norm, keep_grads)
            self._run = torch_internals.compile_with_gradients(self._whole)
            if isinstance(forward, torch.nn.Module):
                self._model = replay.read_by(self._whole, "gradients_of", "loss_of", "forward")
        self._known: KnownStep | None = None
        self._unused = 0  # steps in a row that went through Dynamo
        self._three_programs = ThreePrograms(
            loss_of,
            optimizer,
            clip_grad_norm=clip_grad_norm,
            keep_grads=keep_grads,
            is_distributed=any(
                isinstance(m, torch.nn.parallel.DistributedDataParallel) for m in self._modules
            ),
            scaler=self._scaler,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        batches = self._batches(args, kwargs)
        if torch.is_inference_mode_enabled():
            raise failure(
                "invalid",
                what="train_step was called in torch.inference_mode()",
                remedy="call it outside of that",
            )
        with self._lock:
            outputs = self._again(batches)
            if outputs is not replay.MISSED:
                return outputs
            reason, before = self._reason(), self._count()
            if reason is None:
                try:
                    return self._one_program(batches)
                except Exception as error:
                    if self._count() != before:
                        raise
                    # Modules and hooks that are new may have made it fail to be captured.
                    self._modules = _with_inner(self._roots)
                    reason = self._reason() or torch_internals.why_not_whole(error)
                    if reason is None:
                        raise
                    outputs = self._three(reason, batches)
                    # Found out by a capture, which isn't tried again.
                    self._fixed_reason = self._fixed_reason or torch_internals.why_not_whole(error)
                    return outputs
            return self._three(reason, batches)

    def _three(self, reason: str, batches: list[Batch]) -> Any:
        if reason not in self._said:
            self._said.add(reason)
            message = f"train_step runs three programs a step: {reason}"
            warnings.warn(message, ThreeProgramsWarning, stacklevel=copies.users_frame())
        return self._three_programs(batches)

    def _reason(self) -> str | None:
        """Why this step can't be one program."""
        return (
            self._fixed_reason
            or step_reasons.of_optimizer(self._optimizer)
            or step_reasons.of_modules(self._modules)
            or step_reasons.of_parameters(
                p for group in self._optimizer.param_groups for p in group["params"]
            )
        )

    def _again(self, batches: list[Batch]) -> Any:
        """The step as the last one was made, without Dynamo; or MISSED if something differs."""
        known, self._known = self._known, None
        if known is None:
            return replay.MISSED
        before = self._count()
        try:
            found = known.run(batches)
            if found is replay.MISSED:
                return found
            outputs, gradients = found
            known.drop_gradients()
            if self._keep_grads:
                parameters = (p for group in self._optimizer.param_groups for p in group["params"])
                trained = (p for p in parameters if p.requires_grad)
                for p, gradient in zip(trained, gradients, strict=True):
                    p.grad = gradient
            torch_internals.note_step(self._optimizer)
        except BaseException:
            if self._count() != before:  # interrupted on the way back
                known.drop_gradients()
                torch_internals.note_step(self._optimizer)
            raise
        self._known, self._unused = known, 0
        return outputs

    def _one_program(self, batches: list[Batch]) -> Any:
        inputs, fresh = self._inputs()
        before = self._count()
        try:
            with replay.record() as calls:
                outputs, used, gradients = self._run(inputs, batches)
            self._finish(inputs, fresh, used, gradients)
        except BaseException:
            if self._count() != before:  # interrupted on the way back
                self._finish(inputs, fresh, None, None)
            raise
        self._unused += 1
        if not fresh and (self._unused <= _MOST_UNUSED or self._unused % _MOST_UNUSED == 0):
            assert self._rule is not None
            call = (self._whole, batches, calls)
            self._known = KnownStep.of(
                self._optimizer, self._rule, inputs, call, (outputs, gradients), self._model
            )
        return outputs

    def _count(self) -> int:
        """Another number once a step has run; on the device it isn't waited for."""
        return _C.value_id(self._ran) if self._ran.device.type == "pjrt" else int(self._ran)

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
        assert rule is not None
        groups: list[_Group] = []
        values: list[float] = []
        fresh: list[tuple[Tensor, str, Tensor]] = []
        device = _device_of(self._optimizer)
        if self._ran.device != device:
            self._ran = self._ran.to(device)
        for group in self._optimizer.param_groups:
            parameters = [p for p in group["params"] if p.requires_grad]
            slots = rule.slots(group)
            held: dict[str, list[Tensor]] = {slot: [] for slot in slots}
            first = []
            for p in parameters:
                own = state.get(p, {})
                is_new = False
                for slot in slots:
                    tensor = own.get(slot)
                    if tensor is None:
                        is_new = True
                        tensor = _new_state(p, slot, rule.start(group, slot))
                        fresh.append((p, slot, tensor))
                    elif tensor.device != p.device:
                        # A count that eager keeps on the CPU would be waited for at each step.
                        tensor = tensor.to(p.device)
                        fresh.append((p, slot, tensor))
                    held[slot].append(tensor)
                first.append(is_new)
            is_first = tuple(first) if any(first) and rule.has_first_step(group) else ()
            groups.append(_Group(rule.switches(group), len(values), is_first, parameters, held))
            values += rule.numbers(group)
        numbers = torch.tensor(values, dtype=torch.float64).to(device)
        return _Inputs(groups, numbers, self._ran), fresh

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
        state: dict[Tensor, dict[str, Any]] = {}
        for p, slot, tensor in fresh:
            if p not in unused:
                state.setdefault(p, dict(self._optimizer.state.get(p, {})))[slot] = tensor
        self._optimizer.state.update(state)  # all of it or, after Ctrl-C, nothing
        if gradients is None or not self._keep_grads:
            for p in parameters:
                p.grad = None
        else:
            for p, gradient in zip(parameters, gradients, strict=True):
                p.grad = gradient
        torch_internals.note_step(self._optimizer)


def _new_state(p: Tensor, slot: str, value: float) -> Tensor:
    if slot in SCALARS:
        dtype = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
        return torch.full((), value, dtype=dtype, device=p.device)
    return torch.full_like(p, value, memory_format=torch.preserve_format).detach()


def _device_of(optimizer: torch.optim.Optimizer) -> torch.device:
    """That of its parameters."""
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    return next((p.device for p in parameters), torch.device("cpu"))


# --- what is traced


def _loss_of(
    forward: Callable[..., Any],
    loss_fn: Callable[[Any, Any], Tensor] | None,
    autocast: torch.dtype | None,
    device_type: str,
) -> Loss:
    def loss_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Any]:
        context: AbstractContextManager[Any] = nullcontext()
        if autocast is not None:
            context = torch.autocast(device_type, dtype=autocast)
        with context:
            if loss_fn is not None:
                return loss_fn(forward(*args[:-1]), args[-1]), ()
            result = forward(*args, **kwargs)
        if isinstance(result, tuple):
            loss, aux = result
            return loss, (aux,)
        return result, ()

    return loss_of


def _whole_step(
    loss_of: Loss, rule: Rule, clip_grad_norm: float | None, keep_grads: bool
) -> Callable[..., Any]:
    """A function of _Inputs and the batches, that changes the former in place.

    It returns the outputs, whether the loss depends on each parameter, and the gradients or None.
    """

    def gradients_of(
        batches: list[Batch], parameters: list[Tensor], outside: list[Tensor]
    ) -> tuple[Tensor, Any, list[Tensor | None]]:
        """The average loss, what else was returned, and the average gradients."""
        leaves = [torch_internals.tree_flatten(batch)[0] for batch in batches]
        one_body = len(batches) > 1 and _are_alike(leaves)
        traced = [torch_internals.tree_map(accumulation.each, *batches)] if one_body else batches
        results = []
        totals: list[Tensor | None] = [None] * len(parameters)
        with torch.enable_grad():
            for args, kwargs in traced:
                loss, aux = loss_of(args, kwargs)
                if len(batches) > 1:
                    loss = loss / len(batches)
                gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
                totals = [_sum(t, g) for t, g in zip(totals, gradients, strict=True)]
                results.append((loss.detach(), aux))
        if not one_body:
            return *averaged(results), totals
        loss, aux = results[0]
        rest, tree = torch_internals.tree_flatten(aux)
        sums = [loss, *(g for g in totals if g is not None)]
        parts = [t.detach() for t in rest if isinstance(t, Tensor)]
        with torch.no_grad():
            sums, parts = accumulation.accumulated(sums, parts, outside, len(batches))
        next_part, next_sum = iter(parts), iter(sums)
        loss = next(next_sum)
        stacked = [next(next_part) if isinstance(t, Tensor) else [t] * len(batches) for t in rest]
        summed = [None if g is None else next(next_sum) for g in totals]
        return loss, torch_internals.tree_unflatten(stacked, tree), summed

    def whole_step(inputs: _Inputs, batches: list[Any]) -> Any:
        parameters = [p for group in inputs.groups for p in group.parameters]
        outside = [*parameters, inputs.ran]
        outside += [t for group in inputs.groups for held in group.state.values() for t in held]
        loss, aux, totals = gradients_of(batches, parameters, outside)
        with torch.no_grad():
            if clip_grad_norm is not None:
                totals = _clipped(totals, clip_grad_norm)
            _update(rule, inputs, totals)
            inputs.ran.add_(1)
        used = tuple(g is not None for g in totals)
        outputs = (loss, *aux) if aux else loss
        return outputs, used, totals if keep_grads else None

    # Its own, so that what Dynamo keeps for it is of this function alone.
    whole_step.__code__ = whole_step.__code__.replace()
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


def _are_alike(leaves: list[list[Any]]) -> bool:
    """Whether the batches, as lists of leaves, differ in nothing but the elements of tensors."""
    return all(len(one) == len(leaves[0]) for one in leaves) and all(
        accumulation.are_alike(same) for same in zip(*leaves, strict=True)
    )


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


def _with_inner(roots: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    return list(dict.fromkeys(m for root in roots for m in root.modules()))
