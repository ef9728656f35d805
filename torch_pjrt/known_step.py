"""A step of train_step that was made, to be made again while the optimizer holds what it held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import step_reasons, torch_internals
from .optimizers import Rule
from .replay import MISSED, Call, Replay

from . import _C  # isort: skip

__all__ = ["KnownStep"]


class KnownStep:
    """parameters: those that the step changes. tensors: whatever else it is given of the
    optimizer's. values: float64 [hyper-parameters of all groups], which each step writes anew.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        rule: Rule,
        parameters: list[Tensor],
        tensors: list[Tensor],
        values: Tensor,
        replay: Replay,
    ) -> None:
        self._optimizer, self._rule, self._replay = optimizer, rule, replay
        self._groups, self._state = optimizer.param_groups, optimizer.state
        self._lists = [group["params"] for group in self._groups]
        self._contents = _C.Contents(
            [self._groups, *self._lists, self._state, *self._state.values()]
        )
        frozen = [p for params in self._lists for p in params if not p.requires_grad]
        self._held = _C.Held([*parameters, *tensors, *frozen], len(parameters))
        self._switches = [rule.switches(group) for group in self._groups]
        self._values, self._numbers = values, values.tolist()

    @staticmethod
    def of(
        optimizer: torch.optim.Optimizer,
        rule: Rule,
        inputs: Any,
        call: tuple[Callable[..., Any], Any, list[Call]],
        result: Any,
        model: tuple[str, torch.nn.Module] | None,
    ) -> KnownStep | None:
        """Of a step that made no new state. inputs: step._Inputs. call: the function, the batches,
        and the calls of programs. model: as in Guards. None if it can't be made again without
        Dynamo."""
        function, batches, calls = call
        if not all(isinstance(own, dict) for own in optimizer.state.values()):
            return None
        parameters = [p for group in inputs.groups for p in group.parameters]
        tensors = [t for group in inputs.groups for held in group.state.values() for t in held]
        tensors.append(inputs.ran)
        given = [*parameters, *tensors]
        replay = Replay.of(function, inputs, given, batches, calls, result, model)
        if replay is None:
            return None
        return KnownStep(optimizer, rule, parameters, tensors, inputs.values, replay)

    def run(self, batches: Sequence[Any]) -> Any:
        """What the function returned, without what is known of the parameters; or MISSED, before
        anything has happened."""
        return self._replay.run(self._held, batches) if self._is_same() else MISSED

    def drop_gradients(self) -> None:
        self._held.drop_gradients()

    def _is_same(self) -> bool:
        optimizer = self._optimizer
        return (
            optimizer.param_groups is self._groups
            and optimizer.state is self._state
            and self._contents.same()
            and self._held.unchanged()
            and step_reasons.of_optimizer(optimizer) is None
            and not torch_internals.has_global_backward_hooks()
            and self._take_numbers()
        )

    def _take_numbers(self) -> bool:
        """Whether the groups differ in numbers at most, which the program is given from now on."""
        numbers: list[float] = []
        for group, params, switches in zip(self._groups, self._lists, self._switches, strict=True):
            if group["params"] is not params or self._rule.switches(group) != switches:
                return False
            numbers += self._rule.numbers(group)
        if numbers != self._numbers:
            self._values.copy_(torch.tensor(numbers, dtype=torch.float64))
            self._numbers = numbers
        return True
