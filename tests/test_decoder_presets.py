"""Decoders and encoder-decoders are what their published config.json files say."""

import pytest

from published import check_published

GEMMA3 = {
    "model_type": "gemma3_text", "vocab_size": 262144, "head_dim": 256, "num_attention_heads": 4,
    "num_key_value_heads": 1, "max_position_embeddings": 32768, "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_local_base_freq": 10000,
    "rope_scaling": None, "sliding_window": 512, "hidden_activation": "gelu_pytorch_tanh",
    "attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": False,
}  # fmt: skip
BART = {
    "model_type": "bart", "architectures": ["BartForConditionalGeneration"],
    "activation_function": "gelu", "d_model": 768, "encoder_layers": 6, "decoder_layers": 6,
    "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072, "max_position_embeddings": 1024, "scale_embedding": False,
    "vocab_size": 50265, "dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1,
    "init_std": 0.02, "decoder_start_token_id": 2, "bos_token_id": 0, "eos_token_id": 2,
    "pad_token_id": 1, "normalize_before": False, "normalize_embedding": True,
    "add_final_layer_norm": False, "is_encoder_decoder": True,
}  # fmt: skip
PUBLISHED = {  # in the spelling of their published files, old and new
    "bart-base": BART,
    "bart-large": BART | {
        "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12,
        "encoder_attention_heads": 16, "decoder_attention_heads": 16, "encoder_ffn_dim": 4096,
        "decoder_ffn_dim": 4096,
    },
    "marian-base": {
        "model_type": "marian", "architectures": ["MarianMTModel"], "activation_function": "swish",
        "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
        "max_position_embeddings": 512, "scale_embedding": True, "vocab_size": 58101,
        "dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0, "init_std": 0.02,
        "decoder_start_token_id": 58100, "pad_token_id": 58100, "eos_token_id": 0,
        "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
        "static_position_embeddings": True, "is_encoder_decoder": True,
    },  # of opus-mt-en-de
    "pythia-70m": {
        "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0,
        "eos_token_id": 0, "hidden_act": "gelu", "hidden_size": 512, "intermediate_size": 2048,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 2048, "num_attention_heads": 8,
        "num_hidden_layers": 6, "rotary_emb_base": 10000, "rotary_pct": 0.25,
        "tie_word_embeddings": False, "use_parallel_residual": True, "vocab_size": 50304,
    },
    "llama-3.2-1b": {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": False,
        "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 131072,
        "mlp_bias": False, "num_attention_heads": 32, "num_hidden_layers": 16,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3",
        },
        "tie_word_embeddings": True, "vocab_size": 128256,
    },
    "mistral-7b": {
        "model_type": "mistral", "architectures": ["MistralForCausalLM"], "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "sliding_window": 4096, "tie_word_embeddings": False, "vocab_size": 32000,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "attention_bias": False,
        "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960,
        "max_window_layers": 28, "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-6, "rope_scaling": None,
        "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True,
        "use_sliding_window": False, "vocab_size": 151936,
    },
    "olmo-2-1b": {
        "model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], "attention_bias": False,
        "eos_token_id": 100257, "pad_token_id": 100277, "hidden_act": "silu", "hidden_size": 2048,
        "intermediate_size": 8192, "max_position_embeddings": 4096, "num_attention_heads": 16,
        "num_hidden_layers": 16, "num_key_value_heads": 16, "rms_norm_eps": 1e-6,
        "rope_scaling": None, "rope_theta": 500000, "tie_word_embeddings": False,
        "vocab_size": 100352,
    },
    "gemma-2-2b": {
        "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "attention_bias": False,
        "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid",
        "eos_token_id": 1, "final_logit_softcapping": 30.0, "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 2304, "intermediate_size": 9216, "max_position_embeddings": 8192,
        "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4,
        "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 256000,
    },
    "gemma-3-1b": {
        **GEMMA3, "architectures": ["Gemma3ForCausalLM"], "hidden_size": 1152,
        "intermediate_size": 6912, "num_hidden_layers": 26, "sliding_window_pattern": 6,
        "eos_token_id": [1, 106], "bos_token_id": 2, "pad_token_id": 0,
    },
    "gemma-3-270m": {
        **GEMMA3, "architectures": ["Gemma3ForCausalLM"], "hidden_size": 640,
        "intermediate_size": 2048, "num_hidden_layers": 18, "_sliding_window_pattern": 6,
        "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 3,
    },
    "smollm3-3b": {
        "model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "bos_token_id": 128000,
        "eos_token_id": 128012, "pad_token_id": 128004, "attention_bias": False,
        "hidden_size": 2048, "intermediate_size": 11008, "max_position_embeddings": 65536,
        "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 4,
        "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0] * 9,
        "layer_types": ["full_attention"] * 36, "rope_scaling": None, "rope_theta": 5000000.0,
        "sliding_window": None, "use_sliding_window": False, "vocab_size": 128256,
    },
    "phi-3-mini-4k": {
        "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "bos_token_id": 1,
        "eos_token_id": 32000, "pad_token_id": 32000, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
        "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
        "max_position_embeddings": 4096, "original_max_position_embeddings": 4096,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 10000.0, "sliding_window": 2047,
        "tie_word_embeddings": False, "vocab_size": 32064,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_is_what_its_file_says(name):
    check_published(name, PUBLISHED[name])
