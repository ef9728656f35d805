"""Architectures of the transformers library: small models with random weights, and their calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as T


@dataclass(frozen=True)
class Example:
    """A model and the arguments of a call. `labels`: what a call that trains it takes too, which
    makes it give its loss; {} if it has none. `generates`: whether it makes tokens greedily with a
    cache of fixed size."""

    model: torch.nn.Module
    inputs: dict[str, torch.Tensor]
    labels: dict[str, Any] = field(default_factory=dict)
    generates: bool = False


SIZES: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
IMAGES: dict[str, Any] = {"image_size": 32, "patch_size": 8}


def _text(length: int = 13) -> torch.Tensor:
    return torch.randint(3, 90, (2, length))


def _padded() -> dict[str, torch.Tensor]:
    mask = torch.ones(2, 13, dtype=torch.long)
    mask[1, 9:] = 0
    return {"input_ids": _text(), "attention_mask": mask}


def _images() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


def _classes() -> dict[str, torch.Tensor]:
    return {"labels": torch.tensor([0, 1])}


def _bert() -> Example:
    config = T.BertConfig(**SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return Example(T.BertForMaskedLM(config), _padded(), {"labels": _text()})


def _gpt2() -> Example:
    config = T.GPT2Config(
        vocab_size=100,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=1,
        eos_token_id=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = T.GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # the default, of which it would warn
    return Example(model, _padded(), {"labels": _text()}, generates=True)


def _llama() -> Example:
    config = T.LlamaConfig(**SIZES, num_key_value_heads=2)
    return Example(T.LlamaForCausalLM(config), _padded(), {"labels": _text()}, generates=True)


def _mistral() -> Example:
    config = T.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=4)
    inputs = {"input_ids": _text()}
    return Example(T.MistralForCausalLM(config), inputs, {"labels": _text()}, generates=True)


def _t5() -> Example:
    config = T.T5Config(
        vocab_size=100,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    inputs = {"input_ids": _text(), "decoder_input_ids": _text(7)}
    model = T.T5ForConditionalGeneration(config)
    return Example(model, inputs, {"labels": _text(7)}, generates=True)


def _whisper() -> Example:
    config = T.WhisperConfig(
        vocab_size=100,
        num_mel_bins=8,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        d_model=32,
        max_source_positions=10,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        dropout=0.0,
    )
    inputs = {"input_features": torch.randn(2, 8, 20), "decoder_input_ids": _text(5)}
    model = T.WhisperForConditionalGeneration(config)
    return Example(model, inputs, {"labels": _text(5)}, generates=True)


def _clip() -> Example:
    text = T.CLIPTextConfig(**SIZES, bos_token_id=1, eos_token_id=2).to_dict()
    vision = T.CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        **IMAGES,
    ).to_dict()
    config = T.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    return Example(T.CLIPModel(config), {**_padded(), **_images()}, {"return_loss": True})


def _vit() -> Example:
    config = T.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        **IMAGES,
    )
    return Example(T.ViTForImageClassification(config), _images(), _classes())


def _mamba() -> Example:
    config = T.MambaConfig(
        vocab_size=100, hidden_size=32, state_size=4, num_hidden_layers=2, use_cache=False
    )
    return Example(T.MambaForCausalLM(config), {"input_ids": _text()}, {"labels": _text()})


def _convnext() -> Example:
    config = T.ConvNextConfig(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], image_size=32)
    return Example(T.ConvNextForImageClassification(config), _images(), _classes())


def _deberta() -> Example:
    config = T.DebertaV2Config(
        **SIZES,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return Example(T.DebertaV2ForMaskedLM(config), _padded(), {"labels": _text()})


def _swin() -> Example:
    config = T.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    config.drop_path_rate = 0.0
    return Example(T.SwinForImageClassification(config), _images(), _classes())


def _segformer() -> Example:
    config = T.SegformerConfig(
        hidden_sizes=[8, 16, 16, 32],
        num_attention_heads=[1, 1, 2, 2],
        depths=[1, 1, 1, 1],
        decoder_hidden_size=16,
    )
    images = {"pixel_values": torch.randn(1, 3, 64, 64)}
    return Example(T.SegformerForSemanticSegmentation(config), images)


def _wav2vec2() -> Example:
    config = T.Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    return Example(T.Wav2Vec2Model(config), {"input_values": torch.randn(2, 400)})


ARCHITECTURES: dict[str, Callable[[], Example]] = {
    "BERT": _bert,
    "GPT-2": _gpt2,
    "Llama": _llama,
    "Mistral": _mistral,
    "T5": _t5,
    "Whisper": _whisper,
    "CLIP": _clip,
    "ViT": _vit,
    "Mamba": _mamba,
    "ConvNext": _convnext,
}
# These are compared in inference alone.
FURTHER: dict[str, Callable[[], Example]] = {
    "DeBERTa": _deberta,
    "Swin": _swin,
    "SegFormer": _segformer,
    "wav2vec 2.0": _wav2vec2,
}


def example(name: str) -> Example:
    """The same at each call."""
    torch.manual_seed(0)
    return (ARCHITECTURES | FURTHER)[name]()
