"""Vision Transformer, small, 16-pixel patches (Dosovitskiy et al. 2020; Touvron et al. 2020)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .registry import IMAGE_SIZE

CLASSES = 1000
PATCH = 16
WIDTH = 384
DEPTH = 12
HEADS = 6
NORM_EPSILON = 1e-6


class Attention(nn.Module):
    """Self-attention of every token to every token: [n, t, width] -> [n, t, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = self.project_in(x).unflatten(-1, (3, self.heads, -1))  # [n, t, 3, heads, d]
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)  # [n, heads, t, d] each
        mixed = F.scaled_dot_product_attention(query, key, value)
        merged: torch.Tensor = self.project_out(mixed.transpose(1, 2).flatten(2))
        return merged


class Block(nn.Module):
    """Attention, then two linear layers, each on a normalised copy that is added back."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(width, NORM_EPSILON), Attention(width, heads))
        self.transform = nn.Sequential(
            nn.LayerNorm(width, NORM_EPSILON),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(x)
        return x + self.transform(x)


class VisionTransformer(nn.Module):
    """float32 [n, 3, 224, 224] -> [n, 1000], read from the class token."""

    def __init__(self) -> None:
        super().__init__()
        tokens = (IMAGE_SIZE // PATCH) ** 2 + 1
        self.embed = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.empty(1, tokens, WIDTH))
        self.blocks = nn.Sequential(*[Block(WIDTH, HEADS) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH, NORM_EPSILON)
        self.head = nn.Linear(WIDTH, CLASSES)
        self._initialize()

    def _initialize(self) -> None:
        nn.init.normal_(self.class_token, std=0.02)
        nn.init.normal_(self.positions, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.normal_(module.bias, std=0.05)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = self.embed(images).flatten(2).transpose(1, 2)  # [n, 196, width]
        first = self.class_token.expand(images.shape[0], -1, -1)
        x = torch.cat([first, patches], dim=1) + self.positions
        logits: torch.Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return logits


def timm_vision_transformer() -> nn.Module:
    return VisionTransformer()
