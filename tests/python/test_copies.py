"""Inputs that are copied at each call: the warning, and torch_pjrt.align_ as its remedy."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import torch_pjrt

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    """So that a warning which no test expects fails it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch_pjrt.CopyWarning)
        yield


def crooked(*dims: int, by: int = 1) -> torch.Tensor:
    """A dense tensor that lies `by` elements beyond an aligned address."""
    return torch.randn(int(np.prod(dims)) + by)[by:].view(dims)


def is_aligned(tensor: torch.Tensor) -> bool:
    return tensor.data_ptr() % 64 == 0


def crooked_model() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16)).eval()
    model[0].weight = torch.nn.Parameter(crooked(16, 8))
    model[1].register_buffer("running_mean", crooked(16))
    return model


def copied(function: Any, *arguments: Any) -> int:
    torch_pjrt.reset_stats()
    function(*arguments)
    return torch_pjrt.stats()["copied_inputs"]


# --- the warning


def test_a_copy_is_warned_about_once_with_names_and_remedy() -> None:
    model = crooked_model()
    fast = torch.compile(model, backend="pjrt")
    x = torch.randn(2, 8)
    with torch.no_grad():
        with pytest.warns(torch_pjrt.CopyWarning) as caught:
            assert copied(fast, x) == 2
        message = str(caught[0].message)
        assert len(caught) == 1
        assert ": 0.weight, 1.running_mean\n" in message
        assert "multiples of 64" in message
        assert "torch_pjrt.align_(model)" in message
        assert caught[0].filename == __file__
        assert copied(fast, x) == 2  # no second warning


def test_an_exported_module_is_warned_about_where_it_is_called() -> None:
    exported = torch.export.export(torch.nn.Linear(4, 4), (torch.randn(2, 4),)).module()
    exported.bias.data = crooked(4)
    with pytest.warns(torch_pjrt.CopyWarning, match=r"bias\n") as caught:
        torch.compile(exported, backend="pjrt")(torch.randn(2, 4))
    assert caught[0].filename == __file__


def test_each_input_is_warned_about() -> None:
    fast = torch.compile(lambda x, y: x + y, backend="pjrt")
    with pytest.warns(torch_pjrt.CopyWarning, match=": x\n"):
        assert copied(fast, crooked(3), torch.randn(3)) == 1
    with pytest.warns(torch_pjrt.CopyWarning, match=": y\n"):
        assert copied(fast, crooked(3), crooked(3)) == 2


def test_gaps_have_their_own_remedy() -> None:
    fast = torch.compile(lambda x, y: x + y, backend="pjrt")
    with pytest.warns(torch_pjrt.CopyWarning, match=r": y\n.*\.contiguous\(\)"):
        assert copied(fast, torch.randn(4), torch.randn(8)[::2]) == 1


def test_many_names_are_not_all_listed() -> None:
    fast = torch.compile(lambda *xs: sum(xs), backend="pjrt")
    with pytest.warns(torch_pjrt.CopyWarning, match=r"xs\[4\] and 3 more\n"):
        assert copied(fast, *[crooked(3) for _ in range(8)]) == 8


def test_a_plugin_with_memory_of_its_own() -> None:
    from torch_pjrt.copies import warn

    with pytest.warns(torch_pjrt.CopyWarning, match="memory of its own: x, y\n"):
        warn([("x", "device memory"), ("y", "device memory")])


def test_a_warning_made_an_error_is_raised_by_the_call() -> None:
    fast = torch.compile(lambda x: x + 1, backend="pjrt")
    x = crooked(3)
    with pytest.raises(torch_pjrt.CopyWarning):
        fast(x)
    assert_close(fast(x), x + 1)


def test_what_lies_well_is_neither_copied_nor_warned_about() -> None:
    fast = torch.compile(lambda x: x + 1, backend="pjrt")
    assert copied(fast, torch.randn(6, 7).t()) == 0
    assert copied(fast, torch.randn(0, 7)) == 0


# --- align_


def test_a_model_that_is_aligned_is_copied_no_more() -> None:
    model = crooked_model()
    expected = copy.deepcopy(model)
    weight = model[0].weight
    fast = torch.compile(model, backend="pjrt")
    x = torch.randn(2, 8)
    with torch.no_grad():
        with pytest.warns(torch_pjrt.CopyWarning):
            fast(x)
        assert torch_pjrt.align_(model) is model
        assert copied(fast, x) == 0
        assert torch_pjrt.stats()["compiles"] == torch_pjrt.stats()["captures"] == 0
        assert_close(fast(x), expected(x))
    assert model[0].weight is weight
    assert_close(model.state_dict(), expected.state_dict(), rtol=0, atol=0)


def test_what_lies_well_is_not_moved() -> None:
    model = torch.nn.Linear(8, 16)
    addresses = [p.data_ptr() for p in model.parameters()]
    torch_pjrt.align_(model)
    assert [p.data_ptr() for p in model.parameters()] == addresses


def test_the_tensor_stays_as_it_is() -> None:
    p = torch.nn.Parameter(crooked(6, 4).t())
    p.grad = torch.ones_like(p)
    seen: list[torch.Tensor] = []
    p.register_hook(seen.append)
    values, strides, grad = p.detach().clone(), p.stride(), p.grad
    torch_pjrt.align_([p])
    assert is_aligned(p)
    assert_close(p.detach(), values, rtol=0, atol=0)
    assert p.stride() == strides
    assert p.requires_grad and p.is_leaf
    assert p.grad is grad
    p.sum().backward()
    assert len(seen) == 1


def test_a_graph_recorded_before_is_still_right() -> None:
    p = torch.nn.Parameter(crooked(4))
    loss = (p * p).sum()
    expected = 2 * p.detach().clone()
    torch_pjrt.align_(p)
    loss.backward()
    assert_close(p.grad, expected)


def test_ties_are_kept() -> None:
    flat = torch.randn(33)
    first, second = torch.nn.Parameter(flat[1:17]), torch.nn.Parameter(flat[17:33])
    unknown = flat[5:9]  # not passed
    torch_pjrt.align_({"first": first, "second": second})
    assert is_aligned(first) and is_aligned(second)  # they lie 64 bytes apart
    flat.copy_(torch.arange(33.0))
    assert_close(first.detach(), torch.arange(1.0, 17))
    assert_close(second.detach(), torch.arange(17.0, 33))
    assert_close(unknown, torch.arange(5.0, 9))
    with torch.no_grad():
        first.zero_()
    assert flat[1:17].eq(0).all() and unknown.eq(0).all()


def test_storages_over_one_memory_stay_together() -> None:
    array = np.zeros(65, np.float32)
    whole = torch.from_numpy(array)
    whole = whole[4 - whole.data_ptr() // 4 % 16 % 16 :]  # 16 bytes beyond an aligned address
    tied = [torch.nn.Parameter(torch.from_numpy(whole.numpy())) for _ in range(2)]
    assert not is_aligned(tied[0])
    torch_pjrt.align_(tied)
    assert is_aligned(tied[0])
    with torch.no_grad():
        tied[0].fill_(3)
    assert tied[1].eq(3).all()


def test_tied_and_parametrised_modules() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[0].weight = model[1].weight = torch.nn.Parameter(crooked(4, 4))
    torch.nn.utils.parametrizations.spectral_norm(model[0], "weight")
    expected = copy.deepcopy(model).eval()
    torch_pjrt.align_(model.eval())
    assert model[0].parametrizations.weight.original is model[1].weight
    assert is_aligned(model[1].weight)
    x = torch.randn(2, 4)
    assert_close(model(x), expected(x))


def test_plain_attributes_are_moved_too() -> None:
    model = torch.nn.Linear(4, 4)
    model.mask = crooked(4)
    torch_pjrt.align_(model)
    assert is_aligned(model.mask)


def test_views_that_cannot_be_aligned_together() -> None:
    flat = torch.randn(40)
    small, large = flat[:3], flat[3:40]
    with pytest.warns(torch_pjrt.CopyWarning, match="together: small\n"):
        torch_pjrt.align_({"small": small, "large": large})
    assert is_aligned(large)
    assert_close(torch.cat([small, large]), flat)


def test_shared_memory_is_refused_unless_asked_for() -> None:
    shared = torch.zeros(5).share_memory_()[1:]
    with pytest.raises(
        torch_pjrt.Error, match=r"(?s)shared with other processes.*unshare=True"
    ) as e:
        torch_pjrt.align_({"shared": shared})
    assert e.value.code == "invalid"
    assert not is_aligned(shared)
    torch_pjrt.align_(shared, unshare=True)
    assert is_aligned(shared)


def test_memory_that_others_look_at_is_not_freed() -> None:
    array = np.arange(1000, dtype=np.float32)[1:]
    tensor = torch.from_numpy(array)
    later = tensor.numpy()
    del array
    torch_pjrt.align_(tensor)
    assert later[-1] == 999
    later[:] = 0
    assert tensor[-1] == 999  # the tie to NumPy is lost


def test_storages_can_be_resized_afterwards() -> None:
    p = torch.nn.Parameter(crooked(16))
    torch_pjrt.align_(p)
    size = p.untyped_storage().nbytes()
    p.untyped_storage().resize_(0)
    p.untyped_storage().resize_(size)
    assert_close(p.data.fill_(2), torch.full((16,), 2.0))


def test_what_cannot_be_moved_is_left_alone() -> None:
    empty = torch.zeros(4)[4:]
    sparse = torch.eye(3).to_sparse()
    freed = crooked(4)
    freed.untyped_storage().resize_(0)
    torch_pjrt.align_([empty, sparse, torch.empty(3, device="meta"), freed])
    with torch.inference_mode():
        inference = torch.zeros(5)[1:]
    torch_pjrt.align_(inference)
    assert is_aligned(inference) and inference.is_inference()


def test_lazily_copied_memory() -> None:
    base = torch.arange(17.0)
    lazy = torch._lazy_clone(base)[1:]
    torch_pjrt.align_(lazy)
    base.zero_()
    assert is_aligned(lazy)
    assert_close(lazy, torch.arange(1.0, 17))


@pytest.mark.parametrize("target", [3, "weights", [1.0]], ids=repr)
def test_what_is_no_tensor(target: Any) -> None:
    with pytest.raises(torch_pjrt.Error, match=r"(?s)align_ takes .* remedy: "):
        torch_pjrt.align_(target)


def test_weights_of_a_mapped_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    model = torch.nn.Linear(5, 7)
    expected = copy.deepcopy(model)
    safetensors.save_file(model.state_dict(), tmp_path / "weights.safetensors")
    loaded = safetensors.load_file(tmp_path / "weights.safetensors")
    assert not all(is_aligned(t) for t in loaded.values())
    model.load_state_dict(loaded, assign=True)
    torch_pjrt.align_(model)
    (tmp_path / "weights.safetensors").unlink()
    fast = torch.compile(model, backend="pjrt")
    x = torch.randn(2, 5)
    assert copied(fast, x) == 0
    assert_close(fast(x), expected(x))
