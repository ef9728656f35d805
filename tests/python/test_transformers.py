"""Small models of the transformers library, with random weights, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as T

Example = tuple[torch.nn.Module, dict[str, torch.Tensor]]

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
    return torch.randint(0, 90, (2, length))


def _padded() -> dict[str, torch.Tensor]:
    mask = torch.ones(2, 13, dtype=torch.long)
    mask[1, 9:] = 0
    return {"input_ids": _text(), "attention_mask": mask}


def _gpt2() -> Example:
    config = T.GPT2Config(
        vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False
    )
    return T.GPT2LMHeadModel(config), _padded()


def _llama() -> Example:
    config = T.LlamaConfig(**SIZES, num_key_value_heads=2, use_cache=False)
    return T.LlamaForCausalLM(config), _padded()


def _mistral() -> Example:
    config = T.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=4, use_cache=False)
    return T.MistralForCausalLM(config), {"input_ids": _text()}


def _t5() -> Example:
    config = T.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False
    )
    inputs = {"input_ids": _text(), "decoder_input_ids": _text(7)}
    return T.T5ForConditionalGeneration(config), inputs


def _deberta() -> Example:
    config = T.DebertaV2Config(**SIZES, relative_attention=True, pos_att_type=["p2c", "c2p"])
    return T.DebertaV2Model(config), _padded()


def _mamba() -> Example:
    config = T.MambaConfig(
        vocab_size=100, hidden_size=32, state_size=4, num_hidden_layers=2, use_cache=False
    )
    return T.MambaForCausalLM(config), {"input_ids": _text()}


def _vit() -> Example:
    config = T.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        **IMAGES,
    )
    return T.ViTForImageClassification(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def _convnext() -> Example:
    config = T.ConvNextConfig(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], image_size=32)
    return T.ConvNextForImageClassification(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def _swin() -> Example:
    config = T.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return T.SwinForImageClassification(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def _segformer() -> Example:
    config = T.SegformerConfig(
        hidden_sizes=[8, 16, 16, 32],
        num_attention_heads=[1, 1, 2, 2],
        depths=[1, 1, 1, 1],
        decoder_hidden_size=16,
    )
    images = {"pixel_values": torch.randn(1, 3, 64, 64)}
    return T.SegformerForSemanticSegmentation(config), images


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
        max_target_positions=20,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    inputs = {"input_features": torch.randn(2, 8, 20), "decoder_input_ids": _text(5)}
    return T.WhisperForConditionalGeneration(config), inputs


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
    return T.Wav2Vec2Model(config), {"input_values": torch.randn(2, 400)}


OFTEN: list[Callable[[], Example]] = [_gpt2, _llama]
SELDOM: list[Callable[[], Example]] = [
    _mistral,
    _t5,
    _deberta,
    _mamba,
    _vit,
    _convnext,
    _swin,
    _segformer,
    _whisper,
    _wav2vec2,
]


@pytest.mark.parametrize(
    "example",
    [*OFTEN, *(pytest.param(e, marks=pytest.mark.full) for e in SELDOM)],
    ids=lambda e: e.__name__,
)
def test_model_equals_eager(example: Callable[[], Example], fresh: None) -> None:
    torch.manual_seed(0)
    model, inputs = example()
    model.eval()
    with torch.no_grad():
        want = model(**inputs)[0]
        got = torch.compile(model, backend="pjrt")(**inputs)[0]
    scale = want.abs().max()
    assert scale > 0
    torch.testing.assert_close(got / scale, want / scale, rtol=0, atol=1e-4)
