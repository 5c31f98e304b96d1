"""Encoders are what their published config.json files say."""

import pytest

from published import check_published

COMMON = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
}  # fmt: skip
ROBERTA = COMMON | {
    "bos_token_id": 0, "eos_token_id": 2, "hidden_size": 768, "intermediate_size": 3072,
    "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "num_attention_heads": 12,
    "num_hidden_layers": 12, "pad_token_id": 1, "type_vocab_size": 1,
}  # fmt: skip
PUBLISHED = {
    "roberta-base": ROBERTA | {
        "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": 50265,
    },
    "xlm-roberta-base": ROBERTA | {
        "model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"],
        "output_past": True, "position_embedding_type": "absolute", "vocab_size": 250002,
    },
    "camembert-base": ROBERTA | {
        "model_type": "camembert", "architectures": ["CamembertForMaskedLM"], "bos_token_id": 5,
        "eos_token_id": 6, "output_past": True, "vocab_size": 32005,
    },
    "mpnet-base": COMMON | {
        "model_type": "mpnet", "architectures": ["MPNetModel"], "bos_token_id": 0,
        "eos_token_id": 2, "pad_token_id": 1, "hidden_size": 768, "intermediate_size": 3072,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 514, "num_attention_heads": 12,
        "num_hidden_layers": 12, "relative_attention_num_buckets": 32, "vocab_size": 30527,
    },
    "albert-base-v2": {
        "model_type": "albert", "architectures": ["AlbertForPreTraining"], "bos_token_id": 2,
        "attention_probs_dropout_prob": 0, "classifier_dropout_prob": 0.1, "down_scale_factor": 1,
        "embedding_size": 128, "eos_token_id": 3, "gap_size": 0, "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0, "hidden_size": 768, "initializer_range": 0.02,
        "inner_group_num": 1, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "net_structure_type": 0, "num_attention_heads": 12,
        "num_hidden_groups": 1, "num_hidden_layers": 12, "num_memory_blocks": 0,
        "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": 30000,
    },
    "deberta-v3-base": COMMON | {
        "model_type": "deberta-v2", "architectures": ["DebertaV2ForMaskedLM"],
        "hidden_size": 768, "intermediate_size": 3072, "max_position_embeddings": 512,
        "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
        "share_att_key": True, "pos_att_type": "p2c|c2p", "layer_norm_eps": 1e-7,
        "max_relative_positions": -1, "position_biased_input": False, "num_attention_heads": 12,
        "num_hidden_layers": 12, "type_vocab_size": 0, "vocab_size": 128100,
    },
    "nomic-embed-text-v1.5": {  # in the words of its own code
        "model_type": "nomic_bert", "architectures": ["NomicBertModel"], "attn_pdrop": 0.0,
        "activation_function": "swiglu", "embd_pdrop": 0.0, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-12, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "n_embd": 768,
        "n_head": 12, "n_inner": 3072, "n_layer": 12, "n_positions": 8192, "prenorm": False,
        "parallel_block": False, "qkv_proj_bias": False, "resid_pdrop": 0.0,
        "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "type_vocab_size": 2,
        "scale_attn_weights": True, "use_rms_norm": False, "vocab_size": 30528,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_encoder_is_what_its_file_says(name):
    check_published(name, PUBLISHED[name])
