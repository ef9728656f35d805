"""Every loss of torch.nn, with all its reductions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from .conftest import Compare

pytestmark = pytest.mark.plugin

CLASSES = torch.tensor([1, 0, 3, 2])
IGNORED = torch.tensor([1, 4, 3, 4])
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0])
LABELS = torch.tensor([[3, 0, -1, 1, 2], [0, -1, 2, 1, 3], [0, 1, 2, 3, 4], [-1, 0, 1, 2, 3]])
generator = torch.Generator().manual_seed(5)
WEIGHT = torch.rand(5, generator=generator)
SHARES = torch.rand(4, 5, generator=generator).softmax(1)
OTHER = torch.randn(4, 5, generator=generator)
THIRD = torch.randn(4, 5, generator=generator)
IMAGE_CLASSES = torch.randint(5, (4, 3, 2), generator=generator)
ONE_HOT = (SHARES > 0.2).float()

# Loss with its reduction -> its value for x of dims [4, 5].
Loss = Callable[[str, Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "l1": lambda r, x: nn.L1Loss(reduction=r)(x, OTHER),
    "mse": lambda r, x: nn.MSELoss(reduction=r)(x, OTHER),
    "smooth l1": lambda r, x: nn.SmoothL1Loss(reduction=r, beta=0.7)(x, OTHER),
    "huber": lambda r, x: nn.HuberLoss(reduction=r, delta=0.7)(x, OTHER),
    "cross entropy": lambda r, x: nn.CrossEntropyLoss(
        WEIGHT, ignore_index=4, label_smoothing=0.1, reduction=r
    )(x, IGNORED),
    "cross entropy of shares": lambda r, x: nn.CrossEntropyLoss(
        WEIGHT, label_smoothing=0.1, reduction=r
    )(x, SHARES),
    "cross entropy of images": lambda r, x: nn.CrossEntropyLoss(WEIGHT, reduction=r)(
        x[:, :, None, None] * torch.ones(3, 2), IMAGE_CLASSES
    ),
    "nll": lambda r, x: nn.NLLLoss(WEIGHT, ignore_index=4, reduction=r)(x, IGNORED),
    "nll of images": lambda r, x: nn.NLLLoss(reduction=r)(
        x[:, :, None, None] * torch.ones(3, 2), IMAGE_CLASSES
    ),
    "poisson nll": lambda r, x: nn.PoissonNLLLoss(full=True, reduction=r)(x, SHARES * 9),
    "gaussian nll": lambda r, x: nn.GaussianNLLLoss(full=True, reduction=r)(x, OTHER, SHARES),
    "kl": lambda r, x: nn.KLDivLoss(reduction=r)(x.log_softmax(1), SHARES),
    "kl of logarithms": lambda r, x: nn.KLDivLoss(reduction=r, log_target=True)(
        x.log_softmax(1), SHARES.log()
    ),
    "bce": lambda r, x: nn.BCELoss(SHARES, reduction=r)(x.sigmoid(), ONE_HOT),
    "bce with logits": lambda r, x: nn.BCEWithLogitsLoss(
        SHARES, reduction=r, pos_weight=WEIGHT * 3
    )(x, ONE_HOT),
    "margin ranking": lambda r, x: nn.MarginRankingLoss(0.3, reduction=r)(x[:, 0], x[:, 1], SIGNS),
    "hinge embedding": lambda r, x: nn.HingeEmbeddingLoss(0.8, reduction=r)(
        x, SIGNS[:, None].expand(4, 5)
    ),
    "multi-label margin": lambda r, x: nn.MultiLabelMarginLoss(reduction=r)(x, LABELS),
    "soft margin": lambda r, x: nn.SoftMarginLoss(reduction=r)(x, ONE_HOT * 2 - 1),
    "multi-label soft margin": lambda r, x: nn.MultiLabelSoftMarginLoss(WEIGHT, reduction=r)(
        x, ONE_HOT
    ),
    "cosine embedding": lambda r, x: nn.CosineEmbeddingLoss(0.2, reduction=r)(x, OTHER, SIGNS),
    "multi margin": lambda r, x: nn.MultiMarginLoss(p=2, margin=0.7, weight=WEIGHT, reduction=r)(
        x, CLASSES
    ),
    "triplet": lambda r, x: nn.TripletMarginLoss(swap=True, reduction=r)(x, OTHER, THIRD),
    "triplet by distance": lambda r, x: nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: (a - b).abs().sum(1), reduction=r
    )(x, OTHER, THIRD),
}


@pytest.mark.parametrize(
    "reduction",
    [
        "none",
        pytest.param("mean", marks=pytest.mark.full),
        pytest.param("sum", marks=pytest.mark.full),
    ],
)
def test_losses(same_gradients: Compare, reduction: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(len(LOSSES), 4, 5, requires_grad=True)
    same_gradients(lambda t: [f(reduction, t[k]) for k, f in enumerate(LOSSES.values())], x)


def test_labels_of_one_row(same_gradients: Compare) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, requires_grad=True)
    same_gradients(lambda t: nn.functional.multilabel_margin_loss(t, LABELS[0]), x)


def test_classes_that_are_all_ignored(same_gradients: Compare) -> None:
    """0 / 0: NaN, as in eager."""
    nothing = torch.full((4,), -100)
    torch.manual_seed(0)
    same_gradients(
        lambda x: nn.functional.cross_entropy(x, nothing), torch.randn(4, 5, requires_grad=True)
    )


def test_adaptive_softmax(same_gradients: Compare) -> None:
    class Adaptive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.AdaptiveLogSoftmaxWithLoss(6, 20, [5, 10])

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.inner(x, y).loss  # type: ignore[no-any-return]

    torch.manual_seed(0)
    same_gradients(Adaptive(), torch.randn(4, 6, requires_grad=True), torch.tensor([1, 7, 15, 3]))


def test_ctc(same_gradients: Compare) -> None:
    """Dynamo leaves its backward's kernel to eager, or it is in the graph: values must agree."""

    def loss(x: Tensor) -> Tensor:
        lengths, targets = torch.tensor([6, 5]), torch.tensor([[1, 2, 2], [3, 1, 0]])
        return nn.functional.ctc_loss(x.log_softmax(2), targets, lengths, torch.tensor([3, 2]))

    torch.manual_seed(0)
    same_gradients(loss, torch.randn(6, 2, 5, requires_grad=True))
