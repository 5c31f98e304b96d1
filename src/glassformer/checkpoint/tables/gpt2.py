"""GPT-2: a pre-norm decoder with learned positions. Its matrices are stored (in, out)."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Key
from glassformer.checkpoint.rows import Row

THEIRS, OURS = "h.{}.", "backbone.decoder.blocks.{}."
QKV = tuple(OURS + f"attention.{part}.*" for part in ("query", "key", "value"))

BODY = (
    Row("wte.weight", "backbone.decoder.embedding.token.weight"),
    Row("wpe.weight", "backbone.decoder.embedding.position.weight"),
    Row(THEIRS + "ln_1.*", OURS + "attention_norm.*"),
    Row(THEIRS + "attn.c_attn.*", QKV, transpose=True),
    Row(THEIRS + "attn.c_proj.*", OURS + "attention.output.*", transpose=True),
    Row(THEIRS + "ln_2.*", OURS + "mlp_norm.*"),
    Row(THEIRS + "mlp.c_fc.*", OURS + "mlp.up.*", transpose=True),
    Row(THEIRS + "mlp.c_proj.*", OURS + "mlp.down.*", transpose=True),
    Row("ln_f.*", "backbone.decoder.norm.*"),
)
WORDS = (
    Row("lm_head.weight", "lm_head.weight"),
    Row("lm_head.weight", "backbone.decoder.embedding.token.weight", tied=True),
)

GPT2 = Architecture(
    model_type="gpt2",
    prefix="transformer.",
    rows=BODY,
    heads={
        "GPT2Model": Head("features"),
        "GPT2LMHeadModel": Head("causal_lm", WORDS, {"bias": False}),
        "GPT2ForSequenceClassification": Head(
            "classification", (Row("score.*", "labels.linear.*"),), {"bias": False, "pool": "last"}
        ),
        "GPT2ForTokenClassification": Head(
            "token_classification",
            (Row("classifier.*", "labels.linear.*"),),
            dropout=("classifier_dropout", "hidden_dropout"),
            default_dropout=0.1,
        ),
        "GPT2ForQuestionAnswering": Head(
            "question_answering", (Row("qa_outputs.*", "labels.linear.*"),)
        ),
    },
    keys=(
        Key("vocab_size", "vocab_size", 50257),
        Key("n_embd", "width", 768),
        Key("n_layer", "depth", 12),
        Key("n_head", "heads", 12),
        Key("n_inner", "mlp_width", lambda foreign: 4 * (foreign.get("n_embd") or 768)),
        Key("n_positions", "max_length", 1024),
        Key("layer_norm_epsilon", "norm_eps", 1e-5),
        Key("activation_function", "activation", "gelu_tanh", ACTIVATIONS),
        Key("scale_attn_weights", "scaled", True),
        Key("embd_pdrop", "dropout.embedding", 0.1),
        Key("resid_pdrop", "dropout.residual", 0.1),
        Key("attn_pdrop", "dropout.attention", 0.1),
        Key("initializer_range", "init_std", 0.02),
        Key("tie_word_embeddings", "tied", True),
        Key("bos_token_id", "ids.start", None),
        Key("eos_token_id", "ids.end", None),
        Key("pad_token_id", "ids.pad", None),
    ),
    constants={
        "family": "decoder",
        "position": "learned",
        "norm_place": "pre",
        "final_norm": True,
    },
    fixed={
        "add_cross_attention": False,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
    },
    inert=("h.{}.attn.bias", "h.{}.attn.masked_bias"),
)
