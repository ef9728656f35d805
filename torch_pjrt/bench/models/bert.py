"""BERT-base (Devlin et al. 2018), from the configuration and the model class of transformers."""

from __future__ import annotations

import torch
from torch import nn
from transformers import BertConfig, BertModel

from .registry import VOCABULARY


class BertEncoder(nn.Module):
    """int64 token ids [n, t] -> (last hidden state [n, t, 768], pooled output [n, 768]), float32.

    The plain module around BertModel keeps the decorators of its forward, and its output class,
    out of the captured function.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, pooled = self.bert(tokens, return_dict=False)[:2]
        return hidden, pooled


def bert_base() -> nn.Module:
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        max_position_embeddings=512,
    )
    model = BertEncoder(config)
    _randomize_neutral_parameters(model)
    return model


def _randomize_neutral_parameters(model: nn.Module) -> None:
    """Biases (initially 0) and norms' weights (initially 1): one that is lost must show."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight, mean=1.0, std=0.1)
            nn.init.normal_(module.bias, std=0.05)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.bias, std=0.05)
