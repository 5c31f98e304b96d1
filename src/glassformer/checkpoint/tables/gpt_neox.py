"""GPT-NeoX and Pythia: attention and MLP side by side, and heads that turn in part."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.llama import SCALING, one_group

THEIRS, OURS = "layers.{}.", "backbone.decoder.blocks.{}."
TOKENS = "backbone.decoder.embedding.token.weight"
QKV = tuple(OURS + f"attention.{part}.*" for part in ("query", "key", "value"))

GPT_NEOX = Architecture(
    model_type="gpt_neox",
    prefix="gpt_neox.",
    rows=(
        Row("embed_in.weight", TOKENS),
        Row(THEIRS + "input_layernorm.*", OURS + "attention_norm.*"),
        Row(THEIRS + "attention.query_key_value.*", QKV, by_head=True),
        Row(THEIRS + "attention.dense.*", OURS + "attention.output.*"),
        Row(THEIRS + "post_attention_layernorm.*", OURS + "mlp_norm.*"),
        Row(THEIRS + "mlp.dense_h_to_4h.*", OURS + "mlp.up.*"),
        Row(THEIRS + "mlp.dense_4h_to_h.*", OURS + "mlp.down.*"),
        Row("final_layer_norm.*", "backbone.decoder.norm.*"),
    ),
    heads={
        "GPTNeoXModel": Head("features"),
        "GPTNeoXForCausalLM": Head(
            "causal_lm",
            (
                Row("embed_out.weight", "lm_head.weight"),
                Row("embed_out.weight", TOKENS, tied=True),
            ),
            {"bias": False},
        ),
        "GPTNeoXForSequenceClassification": Head(
            "classification", (Row("score.*", "labels.linear.*"),), {"bias": False, "pool": "last"}
        ),
        "GPTNeoXForTokenClassification": Head(
            "token_classification",
            (Row("classifier.*", "labels.linear.*"),),
            dropout=("classifier_dropout",),
            default_dropout=0.1,
        ),
        "GPTNeoXForQuestionAnswering": Head(
            "question_answering", (Row("qa_outputs.*", "labels.linear.*"),)
        ),
    },
    keys=(
        Key("vocab_size", "vocab_size", 50432),
        Key("hidden_size", "width", 6144),
        Key("num_hidden_layers", "depth", 44),
        Key("num_attention_heads", "heads", 64),
        Key("intermediate_size", "mlp_width", 24576),
        Key("max_position_embeddings", "max_length", 2048),
        Key("layer_norm_eps", "norm_eps", 1e-5),
        Key("hidden_act", "activation", "gelu", ACTIVATIONS),
        Key("use_parallel_residual", "parallel", True),
        Key(("rope_parameters.rope_theta", "rotary_emb_base"), "rotary_base", 10_000.0),
        Key(("rope_parameters.partial_rotary_factor", "rotary_pct"), "rotary_fraction", 0.25),
        *SCALING,
        Key("attention_bias", ("attention_bias", "output_bias"), True),
        Key("attention_dropout", "dropout.attention", 0.0),
        Key("hidden_dropout", ("dropout.embedding", "dropout.residual"), 0.0),
        Key("initializer_range", "init_std", 0.02),
        Key("tie_word_embeddings", "tied", False),
        Key("bos_token_id", "ids.start", 0),
        Key("eos_token_id", "ids.end", 2, first=True),
        Key("pad_token_id", "ids.pad", None),
    ),
    constants={"family": "decoder", "position": "rotary", "norm": "layer", "norm_place": "pre"},
    fixed={"is_decoder": False},
    rule=one_group,
    inert=(
        "layers.{}.attention.bias",
        "layers.{}.attention.masked_bias",
        "layers.{}.attention.rotary_emb.inv_freq",
    ),
)
