"""Encoders are what their published config.json files say."""

import pytest

from glassformer.checkpoint import ARCHITECTURES
from glassformer.presets import PRESETS

COMMON = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
}  # fmt: skip
PUBLISHED = {
    "mpnet-base": COMMON | {
        "model_type": "mpnet", "architectures": ["MPNetModel"], "bos_token_id": 0,
        "eos_token_id": 2, "pad_token_id": 1, "hidden_size": 768, "intermediate_size": 3072,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "num_attention_heads": 12,
        "num_hidden_layers": 12, "relative_attention_num_buckets": 32, "vocab_size": 30527,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_encoder_is_what_its_file_says(name):
    """Only attention's dropout is ours: the fast kernel has none."""
    theirs, preset = PUBLISHED[name], PRESETS[name]
    model, task = ARCHITECTURES[theirs["model_type"]].read(theirs, name)
    rates = model.dropout.model_copy(update={"attention": 0.0})
    assert model.model_copy(update={"dropout": rates}) == preset.model
    assert task == preset.task
