"""The ten models: size, outputs, and the same weights for the same seed."""

from __future__ import annotations

import pytest
import torch

from torch_pjrt.bench.models.registry import MODELS, Spec, nearest

# The numbers that were published for the architectures, not read from the registry.
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnext50_32x4d": 25_028_904,
    "alexnet": 61_100_840,
    "mobilenet_v2": 3_504_872,
    "mnasnet1_0": 4_383_312,
    "squeezenet1_1": 1_235_496,
    "vgg16": 138_357_544,
    "BERT_pytorch": 109_482_240,
    "timm_vision_transformer": 22_050_664,
}
R1_GEOMEAN = 1.381

TEN = {name: spec for name, spec in MODELS.items() if spec.in_table}
every_model = pytest.mark.parametrize("spec", TEN.values(), ids=TEN)


def outputs(spec: Spec, model: torch.nn.Module, batch: int, seed: int) -> list[torch.Tensor]:
    with torch.no_grad():
        result = model(*spec.inputs(batch, torch.Generator().manual_seed(seed)))
    return list(result) if isinstance(result, tuple) else [result]


def test_the_ten_models_of_the_tables_are_there() -> None:
    assert list(TEN) == list(PARAMETERS)


def test_published_column_has_the_published_geomean() -> None:
    published = torch.tensor([spec.published_once for spec in TEN.values()])
    assert round(float(published.log().mean().exp()), 3) == R1_GEOMEAN


@every_model
def test_parameter_count_is_the_published_one(spec: Spec) -> None:
    with torch.device("meta"):
        model = spec.build(seed=0)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == spec.parameters == PARAMETERS[spec.name]


@every_model
def test_outputs(spec: Spec) -> None:
    model = spec.build(seed=0)
    assert not any(module.training for module in model.modules())
    first = outputs(spec, model, batch=1, seed=1)
    second = outputs(spec, model, batch=1, seed=2)
    shapes = [[1, 128, 768], [1, 768]] if spec.family == "bert" else [[1, 1000]]
    assert [list(output.shape) for output in first] == shapes
    for one, other in zip(first, second, strict=True):
        assert one.dtype == torch.float32
        assert one.isfinite().all()
        # Far above the accuracy rule's 1e-4: a program that ignored its input would be caught.
        assert (one - other).abs().max() > 5e-3 * one.abs().max()


@every_model
def test_weights_depend_on_the_seed_alone(spec: Spec) -> None:
    before = torch.get_rng_state()
    model = spec.build(seed=3)
    torch.rand(7)
    again = spec.build(seed=3).state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(value, again[name]), name
    torch.set_rng_state(before)


def test_another_seed_gives_other_weights() -> None:
    one, other = (MODELS["resnet18"].build(seed).state_dict() for seed in (3, 4))
    assert not torch.equal(one["0.weight"], other["0.weight"])
    assert not torch.equal(one["1.running_var"], other["1.running_var"])


def test_build_leaves_the_random_generator_alone() -> None:
    before = torch.get_rng_state()
    MODELS["squeezenet1_1"].build(seed=3)
    assert torch.equal(before, torch.get_rng_state())


def test_batch_norms_are_not_identities() -> None:
    model = MODELS["mobilenet_v2"].build(seed=0)
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert len(norms) == 52
    for norm in norms:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.running_mean.std() > 0.05
        assert norm.running_var.min() > 0.4
        assert norm.running_var.std() > 0.1


def test_inputs_have_the_batch_size_and_follow_the_generator() -> None:
    for spec in (MODELS["resnet18"], MODELS["BERT_pytorch"]):
        generator = torch.Generator().manual_seed(0)
        (one,), (other,) = spec.inputs(3, generator), spec.inputs(3, generator)
        assert one.shape[0] == 3
        assert not torch.equal(one, other)
        assert torch.equal(one, spec.inputs(3, torch.Generator().manual_seed(0))[0])


def test_nearest_name() -> None:
    assert nearest("ResNet-18", MODELS) == "resnet18"
    assert nearest("bert_pytorch", MODELS) == "BERT_pytorch"
    assert nearest("zzzz", MODELS) is None
