"""Name -> Spec for the ten models of the published tables and the null device's small ones.

Imports torch only when one is built.
"""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn

    Inputs = tuple[torch.Tensor, ...]
    MakeInputs = Callable[[int, torch.Generator], Inputs]

TOKENS = 128
IMAGE_SIZE = 224
VOCABULARY = 30522


@dataclass(frozen=True)
class Spec:
    """A model and how it is run.

    make() gives the freshly initialised module (in training mode) from torch's default generator.
    inputs(batch, generator) gives its positional arguments, CPU tensors. parameters is the count
    that was published for the architecture. batch_size keeps one eager call on two CPU cores well
    under a second. published_once is the speed-up in R1's table (on a GPU), None if it has no row,
    published_on_device that in R2's, and published_training that in R3's. any_image_size: whether
    it takes other images than 224². requires names the packages beyond torch that make() imports.
    in_table: whether it runs unless others are asked for; in_null_device: the same with
    --null-device.
    """

    name: str
    family: str
    make: Callable[[], nn.Module]
    inputs: MakeInputs
    parameters: int
    batch_size: int
    published_once: float | None = None
    published_on_device: float | None = None
    published_training: float | None = None
    any_image_size: bool = False
    requires: tuple[str, ...] = ()
    in_table: bool = True
    in_null_device: bool = False

    def build(self, seed: int) -> nn.Module:
        """The model in eval mode, the same for the same seed; torch's generator is left as it was.

        Batch norms get random running statistics, so that no layer is an identity. Under
        `torch.device("meta")` nothing is allocated.
        """
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.make()
            _randomize_running_statistics(model)
        return model.eval()

    def with_images_of(self, size: int) -> Spec:
        """The same on square images of another size, where the model takes them."""
        if not self.any_image_size:
            return self
        return replace(self, inputs=functools.partial(_images, size=size))


def _randomize_running_statistics(model: nn.Module) -> None:
    from torch import nn

    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0.0, 0.2)
            module.running_var.uniform_(0.5, 2.0)


def _images(batch: int, generator: torch.Generator, size: int = IMAGE_SIZE) -> Inputs:
    """One float32 tensor [batch, 3, size, size], standard normal."""
    import torch

    return (torch.randn(batch, 3, size, size, generator=generator),)


def _tokens(batch: int, generator: torch.Generator) -> Inputs:
    """One int64 tensor [batch, 128] of token ids."""
    import torch

    return (torch.randint(0, VOCABULARY, (batch, TOKENS), generator=generator),)


def _features(batch: int, generator: torch.Generator) -> Inputs:
    """One float32 tensor [batch, 16], standard normal."""
    import torch

    return (torch.randn(batch, 16, generator=generator),)


def _definition(module: str, function: str) -> Callable[[], nn.Module]:
    """A call of models.<module>.<function>, which is imported at the call."""

    def make() -> nn.Module:
        found = importlib.import_module(f"{__package__}.{module}")
        built: nn.Module = getattr(found, function)()
        return built

    return make


def _vision(
    name: str,
    module: str,
    parameters: int,
    batch_size: int,
    published_once: float,
    published_on_device: float,
    published_training: float | None,
) -> Spec:
    return Spec(
        name=name,
        family=module,
        make=_definition(module, name),
        inputs=_images,
        parameters=parameters,
        batch_size=batch_size,
        published_once=published_once,
        published_on_device=published_on_device,
        published_training=published_training,
        any_image_size=module != "vit",
    )


def _small(name: str, parameters: int) -> Spec:
    return Spec(
        name=name,
        family="small",
        make=_definition("small", name),
        inputs=_features,
        parameters=parameters,
        batch_size=4,
        in_table=False,
        in_null_device=True,
    )


_ALL = (
    _vision("resnet18", "resnet", 11_689_512, 4, 1.346, 1.38, 0.91),
    _vision("resnet50", "resnet", 25_557_032, 4, 1.153, 1.227, 0.917),
    _vision("resnext50_32x4d", "resnet", 25_028_904, 4, 1.381, 1.544, 0.912),
    _vision("alexnet", "plain", 61_100_840, 8, 1.045, 1.085, 1.038),
    _vision("mobilenet_v2", "mobile", 3_504_872, 8, 1.562, 2.028, 0.881),
    _vision("mnasnet1_0", "mobile", 4_383_312, 8, 1.303, 1.516, 0.903),
    _vision("squeezenet1_1", "plain", 1_235_496, 8, 1.278, 0.868, None),
    _vision("vgg16", "plain", 138_357_544, 1, 1.076, 1.099, 0.914),
    Spec(
        name="BERT_pytorch",
        family="bert",
        make=_definition("bert", "bert_base"),
        inputs=_tokens,
        parameters=109_482_240,
        batch_size=1,
        published_once=2.224,
        published_on_device=3.26,
        published_training=1.359,
        requires=("transformers",),
        in_null_device=True,
    ),
    _vision("timm_vision_transformer", "vit", 22_050_664, 4, 1.81, 2.182, 1.288),
    _small("mlp_3_layers", 3 * (16 * 16 + 16)),
    _small("mlp_200_parameters", 100 * (16 * 16 + 16)),
)

MODELS: Mapping[str, Spec] = {spec.name: spec for spec in _ALL}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name` whatever the case, or None if none is at all like it."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.4)
    return by_lower[found[0]] if found else None
