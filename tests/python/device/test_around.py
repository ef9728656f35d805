"""What else a device is: saving, copying, autocast, transforms, threads."""

from __future__ import annotations

import copy
import io
import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torch_pjrt  # noqa: F401  (registers the device)


def test_saving_and_loading() -> None:
    model = nn.Linear(2, 3).to("pjrt")
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["weight"].device.type == "pjrt"
    assert torch.equal(loaded["weight"].cpu(), model.weight.cpu())
    file.seek(0)
    on_host = torch.load(file, map_location="cpu")
    assert torch.equal(on_host["bias"], model.bias.cpu())
    other = nn.Linear(2, 3).to("pjrt")
    other.load_state_dict(on_host)
    assert torch.equal(other.weight.cpu(), model.weight.cpu())


def test_copying_keeps_ties() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to("pjrt")
    model[1].weight = model[0].weight
    twin = copy.deepcopy(model)
    assert twin[0].weight is twin[1].weight
    storages = {p.untyped_storage().data_ptr() for m in (model, twin) for p in m.parameters()}
    assert len(storages) == 6


def test_autocast() -> None:
    x = torch.randn(3, 2)
    model = nn.Linear(2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted = model(x)
    model.to("pjrt")
    with torch.autocast("pjrt", dtype=torch.bfloat16):
        got = model(x.to("pjrt"))
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.cpu(), wanted, rtol=2e-2, atol=2e-2)


def test_transforms_and_checkpoints() -> None:
    def gradient(v: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda u: (u**2).sum())(v)

    x = torch.randn(2, 3, device="pjrt")
    assert torch.allclose(torch.func.vmap(gradient)(x).cpu(), 2 * x.cpu())
    for reentrant in (True, False):
        w = torch.ones(3, device="pjrt", requires_grad=True)
        checkpoint(lambda v: (v * v).sin(), w, use_reentrant=reentrant).sum().backward()
        assert w.grad is not None
        assert torch.allclose(w.grad.cpu(), torch.full((3,), 2 * torch.tensor(1.0).cos().item()))


def test_threads() -> None:
    results: dict[int, list[float]] = {}

    def work(k: int) -> None:
        x = torch.full((4,), float(k), device="pjrt", requires_grad=True)
        for _ in range(5):
            (x * x).sum().backward()
        assert x.grad is not None
        results[k] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: [10.0 * k] * 4 for k in range(4)}
