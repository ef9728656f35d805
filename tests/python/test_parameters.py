"""Parameters stay where they are: each call sees what is in their memory now, however it got there.

Nothing that happens to a parameter compiles another program.
"""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]

MODES = [torch.enable_grad, torch.no_grad, torch.inference_mode]


@pytest.fixture(params=MODES, ids=lambda mode: mode.__name__)
def mode(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What the calls of a test run under."""
    with request.param():
        yield request.param


def linear() -> torch.nn.Linear:
    return torch.nn.Linear(8, 16)


class Warm:
    """A compiled model after its first call; every further one is compared with eager."""

    def __init__(self, model: torch.nn.Module, *dims: int) -> None:
        self.model = model
        self.fast = torch.compile(model, backend="pjrt")
        self._dims = dims or (2, 8)
        self.check()
        torch_pjrt.reset_stats()

    def check(self) -> None:
        x = torch.randn(*self._dims)
        assert_close(self.fast(x), self.model(x))

    def check_nothing_compiled(self, captures: int = 0, copied: int = 0) -> None:
        counts = torch_pjrt.stats()
        assert counts["executions"] > 0
        assert counts["compiles"] == 0
        assert counts["captures"] == captures
        assert counts["copied_inputs"] == copied


# --- written in place


def with_data(model: torch.nn.Linear) -> None:
    model.weight.data.clamp_(-0.1, 0.1)


def with_numpy(model: torch.nn.Linear) -> None:
    model.weight.detach().numpy()[:] = 0.25


def with_an_optimizer(model: torch.nn.Linear) -> None:
    if torch.is_inference_mode_enabled():
        return
    with torch.enable_grad():
        model(torch.randn(3, 8)).square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()


def with_load_state_dict(model: torch.nn.Linear) -> None:
    model.load_state_dict({name: torch.randn_like(p) for name, p in model.state_dict().items()})


def with_dlpack(model: torch.nn.Linear) -> None:
    torch.from_dlpack(model.weight.detach()).fill_(0.5)


def with_a_storage(model: torch.nn.Linear) -> None:
    storage = model.weight.untyped_storage()
    storage.copy_(torch.randn(8 * 16).untyped_storage())


@pytest.mark.parametrize(
    "write",
    [with_data, with_numpy, with_an_optimizer, with_load_state_dict, with_dlpack, with_a_storage],
)
def test_written_in_place(mode: Any, write: Callable[[torch.nn.Linear], None]) -> None:
    warm = Warm(linear())
    for _ in range(2):
        write(warm.model)
        warm.check()
    warm.check_nothing_compiled()


def fill(tensor: torch.Tensor, value: float) -> None:
    tensor.fill_(value)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_written_by_another_process(method: str) -> None:
    model = linear().share_memory()
    with torch.no_grad():
        warm = Warm(model)
        for value in (0.5, -1.0):
            child = multiprocessing.get_context(method).Process(
                target=fill, args=(model.weight.data, value)
            )
            child.start()
            child.join(120)
            assert child.exitcode == 0
            assert model.weight[0, 0] == value
            warm.check()
    warm.check_nothing_compiled()


def test_parameters_made_in_inference_mode(mode: Any) -> None:
    with torch.inference_mode():
        model = linear().requires_grad_(False)
    assert model.weight.is_inference()
    warm = Warm(model)
    with torch.inference_mode():
        model.weight.fill_(3)
    warm.check()
    warm.check_nothing_compiled()


# --- replaced


def test_data_replaced(mode: Any) -> None:
    warm = Warm(linear())
    addresses = set()
    for _ in range(3):
        warm.model.weight.data = torch.randn(16, 8)
        addresses.add(warm.model.weight.data_ptr())
        warm.check()
    warm.check_nothing_compiled()


@torch.no_grad()
def test_the_old_memory_is_not_read_again() -> None:
    warm = Warm(linear())
    for _ in range(5):
        warm.model.weight.data = torch.randn(16, 8)
        hole = torch.full((16, 8), float("nan"))  # likely where the old one was
        warm.check()
        del hole
    warm.check_nothing_compiled()


def test_parameters_swapped(mode: Any) -> None:
    warm = Warm(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)))
    first, second = warm.model[0], warm.model[1]
    first.weight.data, second.weight.data = second.weight.data, first.weight.data
    warm.check()
    warm.check_nothing_compiled()


def test_parameter_objects_replaced(mode: Any) -> None:
    warm = Warm(linear())
    for _ in range(2):
        warm.model.weight = torch.nn.Parameter(torch.randn(16, 8))
        warm.check()
    warm.check_nothing_compiled(captures=torch_pjrt.stats()["captures"])


def test_a_module_replaced(mode: Any) -> None:
    warm = Warm(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()))
    warm.model[0] = torch.nn.Linear(8, 8)
    warm.check()
    warm.check_nothing_compiled(captures=torch_pjrt.stats()["captures"])


def test_load_state_dict_by_assignment(mode: Any) -> None:
    warm = Warm(linear())
    state = {name: torch.randn(p.shape) for name, p in warm.model.state_dict().items()}
    warm.model.load_state_dict(state, assign=True)
    warm.check()
    warm.check_nothing_compiled(captures=torch_pjrt.stats()["captures"])


def test_another_dtype() -> None:
    model = linear()
    fast = torch.compile(model, backend="pjrt")
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
            model.to(dtype)
            x = torch.randn(2, 8, dtype=dtype)
            assert_close(fast(x), model(x))


def test_another_layout(mode: Any) -> None:
    warm = Warm(linear())
    warm.model.weight.data = torch.randn(8, 16).t()
    warm.check()
    assert torch_pjrt.stats()["copied_inputs"] == 0


def test_a_copy_of_a_model_has_its_own_parameters() -> None:
    warm = Warm(linear())
    other = Warm(copy.deepcopy(warm.model))
    with torch.no_grad():
        other.model.weight.zero_()
    warm.check()
    other.check()


@torch.no_grad()
def test_a_storage_given_back_and_taken_again() -> None:
    warm = Warm(linear())
    storage = warm.model.weight.untyped_storage()
    size = storage.nbytes()
    for value in (1.0, 2.0):
        storage.resize_(0)
        keep = [torch.empty(16, 8) for _ in range(4)]  # so that the memory is another's
        storage.resize_(size)
        warm.model.weight.fill_(value)
        warm.check()
        del keep
    warm.check_nothing_compiled()


@pytest.mark.parametrize("offset", [0, 16])
@torch.no_grad()
def test_a_storage_given_back_is_an_error(offset: int) -> None:
    model = linear()
    model.weight.data = torch.randn(8 * 16 + offset)[offset:].view(16, 8)
    warm = Warm(model)
    storage = warm.model.weight.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    with pytest.raises(torch_pjrt.Error, match=r"weight.*it was resized") as caught:
        warm.fast(torch.randn(2, 8))
    assert caught.value.code == "invalid"
    storage.resize_(size)
    warm.model.weight.fill_(2)
    warm.check()
    warm.check_nothing_compiled()


# --- ties


class Tied(torch.nn.Module):
    """Two Parameters over one storage."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.randn(8))
        self.second = torch.nn.Parameter(self.first.data)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.first + self.second


def test_two_parameters_over_one_storage(mode: Any) -> None:
    warm = Warm(Tied())
    warm.model.first.data.fill_(3)
    assert warm.model.second.eq(3).all()
    warm.check()
    warm.check_nothing_compiled()


class Flat(torch.nn.Module):
    """Parameters that are views of one flat buffer."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.flat = torch.randn(3 * length)
        for k in range(3):
            part = self.flat[k * length : (k + 1) * length]
            setattr(self, f"p{k}", torch.nn.Parameter(part))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.sum() + self.p0) * self.p1 - self.p2


@pytest.mark.parametrize(("length", "copied"), [(16, 0), (5, 2)])
@pytest.mark.filterwarnings("ignore::torch_pjrt.CopyWarning")
def test_views_of_one_flat_buffer(mode: Any, length: int, copied: int) -> None:
    warm = Warm(Flat(length))
    warm.model.flat.copy_(torch.arange(3.0 * length))
    warm.check()
    warm.check_nothing_compiled(copied=copied)


def test_one_parameter_at_two_places(mode: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    model[1].weight = model[0].weight
    warm = Warm(model)
    model[0].weight.data.fill_(0.5)
    warm.check()
    warm.check_nothing_compiled()


def test_parametrised_weights(mode: Any) -> None:
    model = linear()
    torch.nn.utils.parametrize.register_parametrization(model, "weight", torch.nn.ReLU())
    warm = Warm(model)
    model.parametrizations.weight.original.data.neg_()
    warm.check()
    warm.check_nothing_compiled()


# --- memory that isn't torch's


@pytest.fixture(params=["safetensors", "torch.load", "numpy"])
def loaded(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, torch.Tensor]:
    """A Linear's weights in memory that torch hasn't allocated; most of it isn't aligned."""
    state = linear().state_dict()
    if request.param == "safetensors":
        safetensors = pytest.importorskip("safetensors.torch")
        safetensors.save_file(state, tmp_path / "weights")
        return safetensors.load_file(tmp_path / "weights")
    if request.param == "torch.load":
        torch.save(state, tmp_path / "weights")
        return torch.load(tmp_path / "weights", mmap=True)
    return {name: torch.from_numpy(p.numpy()[...].copy()) for name, p in state.items()}


@pytest.mark.filterwarnings("ignore::torch_pjrt.CopyWarning")
def test_mapped_and_foreign_weights(mode: Any, loaded: dict[str, torch.Tensor]) -> None:
    model = linear()
    model.load_state_dict(loaded, assign=True)
    warm = Warm(model)
    misaligned = sum(p.data_ptr() % 64 != 0 for p in model.parameters())
    model.weight.data.fill_(0.5)  # a private mapping: the file stays as it is
    warm.check()
    warm.check_nothing_compiled(copied=misaligned)
    torch_pjrt.align_(model)
    torch_pjrt.reset_stats()
    model.weight.data.fill_(0.75)
    warm.check()
    warm.check_nothing_compiled()


@pytest.mark.filterwarnings("ignore::torch_pjrt.CopyWarning")
def test_misaligned_weights_written_between_calls(mode: Any) -> None:
    model = linear()
    model.weight.data = torch.randn(8 * 16 + 1)[1:].view(16, 8)
    warm = Warm(model)
    for _ in range(3):
        model.weight.data.add_(1)
        warm.check()
    warm.check_nothing_compiled(copied=3)
