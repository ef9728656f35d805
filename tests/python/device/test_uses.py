"""What programs do with a device beside computing: files, loaders, hooks, long loops."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torch_pjrt

transformers = pytest.importorskip("transformers")
safetensors_torch = pytest.importorskip("safetensors.torch")


def tied_model() -> Any:
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.BertForMaskedLM(config).eval()


def test_save_pretrained_of_tied_weights(tmp_path: Path) -> None:
    model = tied_model()
    tokens = torch.arange(6).view(2, 3)
    with torch.no_grad():
        wanted = model(tokens).logits
        model.to("pjrt")
        assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
        model.save_pretrained(tmp_path)
        loaded = transformers.BertForMaskedLM.from_pretrained(tmp_path).eval()
        assert torch.allclose(loaded(tokens).logits, wanted, atol=1e-5)
        loaded.to("pjrt")
        decoder, embedding = loaded.get_output_embeddings(), loaded.get_input_embeddings()
        assert decoder.weight is embedding.weight
        assert torch.allclose(loaded(tokens.to("pjrt")).logits.cpu(), wanted, atol=1e-4)


def tied_layers() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


def test_ties_outlive_a_move() -> None:
    model = tied_layers()
    for device in ("pjrt", "cpu", "pjrt"):
        model.to(device)
        assert model[1].weight is model[0].weight
        assert model[0].weight.device.type == device
        assert model[1].bias is not model[0].bias
    nn.Sequential(nn.ReLU(), model).double()
    assert model[1].weight is model[0].weight
    model(torch.ones(1, 3, dtype=torch.float64, device="pjrt")).sum().backward()
    assert len(list(model.parameters())) == 3


def test_safetensors(tmp_path: Path) -> None:
    file = str(tmp_path / "m.safetensors")
    layer = nn.Linear(3, 3).to("pjrt")
    safetensors_torch.save_file(layer.state_dict(), file)
    other = nn.Linear(3, 3).to("pjrt")
    safetensors_torch.load_model(other, file)
    assert torch.equal(other.weight.cpu(), layer.weight.cpu())
    model, twin = tied_layers().to("pjrt"), tied_layers().to("pjrt")
    safetensors_torch.save_model(model, file)
    assert len(safetensors_torch.load_file(file)) == 3
    safetensors_torch.load_model(twin, file)
    for name, value in model.state_dict().items():
        assert torch.equal(twin.state_dict()[name].cpu(), value.cpu())


def test_loading_to_the_device() -> None:
    file = io.BytesIO()
    torch.save({"a": torch.arange(3.0), "n": 2}, file)
    file.seek(0)
    loaded = torch.load(file, map_location="pjrt")
    assert loaded["a"].device.type == "pjrt"
    assert loaded["a"].tolist() == [0, 1, 2]
    optimizer = torch.optim.AdamW([nn.Parameter(loaded["a"])])
    optimizer.param_groups[0]["params"][0].sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    again = torch.optim.AdamW([nn.Parameter(torch.zeros(3, device="pjrt"))])
    again.load_state_dict(state)
    average = again.state_dict()["state"][0]["exp_avg"]
    assert average.device.type == "pjrt"
    assert torch.allclose(average.cpu(), state["state"][0]["exp_avg"].cpu())


def test_batches_of_a_loader() -> None:
    x = torch.arange(12.0).view(6, 2)
    loader = DataLoader(TensorDataset(x, x[:, 0].long()), batch_size=2, pin_memory=True)
    total = torch.zeros(2, device="pjrt")
    for batch, label in loader:
        total += batch.to("pjrt", non_blocking=True).sum(0) + label.to("pjrt", non_blocking=True)[0]
    assert total.tolist() == [30 + 12, 36 + 12]


def test_hooks() -> None:
    seen: list[Any] = []
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).to("pjrt")
    model[0].register_forward_hook(lambda m, i, o: o * 2)
    model[1].register_full_backward_hook(lambda m, i, o: seen.append(o[0].device.type))
    x = torch.ones(3, 2, device="pjrt", requires_grad=True)
    y = model(x)
    y.register_hook(lambda g: g * 3)
    y.sum().backward()
    twin = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    twin.load_state_dict(model.state_dict())
    z = torch.ones(3, 2, requires_grad=True)
    (twin[1](twin[0](z) * 2).sum() * 3).backward()
    assert x.grad is not None
    assert z.grad is not None
    assert torch.allclose(x.grad.cpu(), z.grad)
    assert seen == ["pjrt"]


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_loop_without_end_neither_grows_nor_overflows() -> None:
    x = torch.zeros(3, device="pjrt")
    before = torch.pjrt.memory_allocated()
    for _ in range(100_000):
        x += 1
    assert x.tolist() == [100_000] * 3
    assert torch.pjrt.memory_allocated() < before + 10_000


@pytest.mark.full
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("form", [{"foreach": True}, {"fused": True}, {"foreach": False}])
def test_fifty_steps_compile_nothing_after_the_third(make: Any, form: dict[str, bool]) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to("pjrt")
    if make is torch.optim.SGD:
        if "fused" in form:
            pytest.skip("no fused SGD for this device")
        form = form | {"momentum": 0.9}
    optimizer = make(model.parameters(), 1e-2, **form)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    average = [p.detach().clone() for p in model.parameters()]
    x = torch.randn(5, 4, device="pjrt")
    compiles = []
    for k in range(50):
        optimizer.zero_grad()
        (model(x).square().mean() * (1 + k / 10)).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for mean, p in zip(average, model.parameters(), strict=True):
                mean.lerp_(p, 0.1 + k / 100)
        torch.pjrt.mark_step()
        stats = torch_pjrt.stats()
        compiles.append(stats["compiles"] + stats["disk_hits"])
    assert compiles[3] == compiles[-1]
