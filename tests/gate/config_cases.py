"""Classes of spoilt config.json: its syntax, types, sizes, arithmetic, labels."""

import json
from itertools import product

from folders import KINDS
from folders import SIZES as WHOLE
from gate.damage import Case, Table, config, content
from gate.wholes import (
    ALBERT,
    BERT,
    CLASSIFY,
    DEBERTA,
    GEMMA3,
    GPT2,
    LLAMA,
    M2M100,
    MARIAN,
    MISTRAL,
    MODERN,
    MPNET,
    NEOX,
    NOMIC,
    PHI3,
    ROBERTA,
    SMOL,
    T5GEMMA,
)
from glassformer.checkpoint import ARCHITECTURES
from glassformer.checkpoint.tables.nomic_bert import OWN_CODE

CONFIG = "config.json"


def text(data: bytes | str, *words: str) -> Case:
    return content(CONFIG, data, *words)


SYNTAX: Table = {
    "empty": text("", "line 1"),
    "white space": text(" \n ", "line 2"),
    "open": text('{"model_type": "bert",', "line 1"),
    "unclosed text": text('{"model_type": "bert', "line 1"),
    "single quotes": text("{'model_type': 'bert'}", "line 1"),
    "a comment": text('{"a": 1} // b', "line 1"),
    "a comma at the end": text('{\n"a": 1,\n}', "line 3"),
    "two documents": text("{}{}", "line 1"),
    "a control character": text('{"a": "\x1b[31m"}', "line 1"),
    "NUL": text("{}\0", "line 1"),
    "NaN": text('{"layer_norm_eps": NaN}', "'layer_norm_eps'", "NaN"),
    "infinity": text('{"hidden_size": Infinity}', "'hidden_size'", "Infinity"),
    "minus infinity": text('{"a": 1, "x": -Infinity}', "'x'", "-Infinity"),
    "NaN in a list": text('{"many": [NaN]}', "'many'", "NaN"),
    "too large to be finite": text('{"hidden_size": 1e999}', "'hidden_size'", "1e999"),
    "a key twice": text('{"vocab_size": 1, "vocab_size": 2}', "'vocab_size'", "twice"),
    "a key twice inside": text('{"a": {"b": 1, "c": 2, "b": 1}}', "'b'", "twice"),
    "a key twice, spelt otherwise": text('{"a": 1, "\\u0061": 2}', "'a'", "twice"),
    "a byte order mark": text("\ufeff{}", "byte order mark"),
    "UTF-16": text("{}".encode("utf-16"), "UTF-8"),
    "UTF-16 without a mark": text('{"a": 1}'.encode("utf-16-le"), "line 1"),
    "Latin-1": text('{"a": "é"}'.encode("latin-1"), "UTF-8"),
    "half a letter": text('{"author": "\\ud800"}', "author", "half a character"),
    "half a letter in a name": text('{"\\udfff": 1}', "half a character"),
    "a raw half of a letter": text('{"a": "\ud800"}', "UTF-8"),
    "a list": text("[]", "list"),
    "a number": text("7", "int"),
    "a text": text('"bert"', "str"),
    "null": text("null", "NoneType"),
    "65 lists": text('{"a": ' + "[" * 64 + "]" * 64 + "}", "64 levels"),
    "100,000 lists": text('{"a": ' + "[" * 100_000, "64 levels"),
    "100,000 objects": text('{"a": ' * 100_000, "100,000 of them objects"),
    "41 digits": text('{"vocab_size": ' + "1" * 41 + "}", "'vocab_size'", "41 digits"),
    "a million digits": text('{"vocab_size": ' + "1" * 10**6 + "}", "'vocab_size'", "digits"),
    "a million decimals": text('{"x": 0.' + "1" * 10**6 + "}", "'x'", "digits"),
}

BERT_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
              "num_attention_heads", "type_vocab_size", "max_position_embeddings")  # fmt: skip
WRONG_TYPES = {
    "a text": "53", "true": True, "a fraction": 53.5, "a list": [53], "an object": {"a": 53},
    "a float": 53.0,
}  # fmt: skip
TYPES: Table = {
    f"{key} is {name}": config(CONFIG, key, **{key: value})
    for key, (name, value) in product(BERT_SIZES, WRONG_TYPES.items())
} | {
    "dropout is a text": config(CONFIG, "hidden_dropout_prob", hidden_dropout_prob="0.1"),
    "dropout is 2": config(CONFIG, "hidden_dropout_prob", hidden_dropout_prob=2),
    "epsilon is negative": config(CONFIG, "layer_norm_eps", layer_norm_eps=-1.0),
    "epsilon is a list": config(CONFIG, "layer_norm_eps", layer_norm_eps=[1e-12]),
    "pad is a text": config(CONFIG, "pad_token_id", pad_token_id="[PAD]"),
    "theta is a text": config(CONFIG, "rope_theta", base=LLAMA, rope_parameters=None,
                              rope_theta="10000"),
    "window is a fraction": config(CONFIG, "local_attention", base=MODERN, local_attention=1.5),
    "scale is a number": config(CONFIG, "scale_attn_weights", base=GPT2, scale_attn_weights=1),
}  # fmt: skip

HUGE = {"0": 0, "-1": -1, "a billion": 10**9, "2^31": 1 << 31, "2^63": 1 << 63, "1e38": 10**38}
OTHER_SIZES = ((GPT2, "n_embd"), (GPT2, "n_layer"), (GPT2, "n_inner"), (GPT2, "n_positions"),
               (MARIAN, "d_model"), (MARIAN, "decoder_layers"), (MARIAN, "encoder_ffn_dim"),
               (MARIAN, "max_position_embeddings"), (LLAMA, "head_dim"),
               (LLAMA, "num_key_value_heads"), (LLAMA, "max_position_embeddings"),
               (MODERN, "local_attention"), (MODERN, "num_hidden_layers"))  # fmt: skip
SIZES: Table = {
    f"{base}: {key} is {name}": config(CONFIG, key, base=base, **{key: value})
    for (base, key), (name, value) in product(
        (*((BERT, key) for key in BERT_SIZES), *OTHER_SIZES), HUGE.items()
    )
    if (key, value) != ("type_vocab_size", 0) and (key != "local_attention" or value > 1 << 31)
} | {
    "one table of 2^62": config(CONFIG, "vocab_size", vocab_size=2**31 - 1),
    "a table a little too long": config(
        CONFIG, "max_position_embeddings", base=MARIAN, max_position_embeddings=10**5
    ),
    "a rotary table": config(
        CONFIG, "max_position_embeddings", base=LLAMA, max_position_embeddings=2**31 - 1
    ),
    "layers listed, a billion": config(
        CONFIG, "num_hidden_layers", base=MODERN, num_hidden_layers=10**9, layer_types=[]
    ),
    "a shared block, 161 times": config(
        CONFIG, "num_hidden_layers", base=ALBERT, num_hidden_layers=161
    ),
    "161 layers": config(CONFIG, "num_hidden_layers", num_hidden_layers=161),
    "81 layers to write with": config(CONFIG, "decoder_layers", base=MARIAN, decoder_layers=81),
    "more layers than tensors": config(CONFIG, "num_hidden_layers", num_hidden_layers=99),
    "heads that do not divide": config(CONFIG, "num_attention_heads", num_attention_heads=5),
}


def nested(name: str, value: object) -> dict[str, object]:
    first, _, rest = name.partition(".")
    return {first: nested(rest, value) if rest else value}


BANDS = {
    "factor": 8.0, "original_max_position_embeddings": 16, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}  # fmt: skip
ARITHMETIC: Table = {
    f"{base}: {name} is {value!r}": config(
        CONFIG, name, base=base, **nested(name, value)
    )
    for base in (BERT, MPNET, ALBERT, DEBERTA, GPT2, MARIAN, LLAMA, MODERN, NEOX, GEMMA3, SMOL,
                 PHI3, M2M100, T5GEMMA)
    for name in ARCHITECTURES[KINDS[base]].fixed
    for value in ("evil", 7)
} | {
    f"{base}: {key} is {value!r}": config(CONFIG, key, base=base, **{key: value})
    for base, key in ((BERT, "hidden_act"), (GPT2, "activation_function"),
                      (MARIAN, "activation_function"), (LLAMA, "hidden_act"))
    for value in ("tanh", "__import__('os')", ["gelu"], 1, {"a": "b"})
} | {
    f"{base}: {group} is {value!r}": config(
        CONFIG, group, base=base, **nested(group, value)
    )
    for base, group in ((LLAMA, "rope_parameters"), (MODERN, "rope_parameters.full_attention"))
    for value in ("evil", 7, True, [])
} | {
    "two vocabularies for one table": config(
        CONFIG, "decoder_vocab_size", base=MARIAN, decoder_vocab_size=7
    ),
    "RoBERTa's positions begin elsewhere": config(
        CONFIG, "pad_token_id = 0", base=ROBERTA, pad_token_id=0
    ),
    "MPNet's positions begin elsewhere": config(
        CONFIG, "pad_token_id = 7", base=MPNET, pad_token_id=7
    ),
    "a convolution beside the first layer": config(
        CONFIG, "conv_kernel_size = 3 is not supported", base=DEBERTA, conv_kernel_size=3
    ),
    "distances without buckets": config(
        CONFIG, "position_buckets", base=DEBERTA, position_buckets=-1
    ),
    "more buckets than distances": config(
        CONFIG, "position_buckets", "max_relative_positions", base=DEBERTA, position_buckets=20
    ),
    "a table of all distances": config(
        CONFIG, "max_relative_positions", base=DEBERTA, max_relative_positions=2**31 - 1
    ),
    "several groups of layers": config(
        CONFIG, "num_hidden_groups = 2 is not supported", base=ALBERT, num_hidden_groups=2
    ),
    "several layers in a group": config(
        CONFIG, "inner_group_num = 2 is not supported", base=ALBERT, inner_group_num=2
    ),
    "word vectors as wide as the layers": config(
        CONFIG, "embedding_size", "hidden_size", base=ALBERT, embedding_size=12
    ),
    "another layer looks nearby": config(
        CONFIG, "layer_types", base=MODERN, layer_types=["full_attention"] * 2
    ),
    "another layer sees all": config(
        CONFIG, "layer_types", base=GEMMA3, layer_types=["full_attention"] * 2
    ),
    "another layer turns": config(CONFIG, "no_rope_layers", base=SMOL, no_rope_layers=[0, 1]),
    "layers that turn, by words": config(CONFIG, "no_rope_layers", base=SMOL, no_rope_layers="a"),
    "two groups of one meaning": config(
        CONFIG, "rope_parameters", base=LLAMA, rope_scaling={"rope_type": "linear", "factor": 2.0}
    ),
    "two groups that agree": config(
        CONFIG, "rope_parameters", "rope_scaling", base=LLAMA, rope_scaling={"rope_type": "default"}
    ),
} | {
    f"{key} is {value!r}": config(CONFIG, key, base=base, **{key: value})
    for base, key in ((MISTRAL, "sliding_window"), (NEOX, "use_parallel_residual"),
                      (SMOL, "no_rope_layer_interval"), (GEMMA3, "query_pre_attn_scalar"),
                      (GEMMA3, "final_logit_softcapping"))
    for value in ("evil", -1, [2], 0)
} | {
    f"M2M100: {key} is {value!r}": config(CONFIG, key, base=M2M100, **{key: value})
    for key in ("decoder_attention_heads", "decoder_ffn_dim", "pad_token_id")
    for value in ("evil", -7, [2], 10**12)
} | {
    f"T5Gemma: {side} is {value!r}": config(CONFIG, side, base=T5GEMMA, **{side: value})
    for side in ("encoder", "decoder")
    for value in ("evil", 7, True, [])
} | {
    f"T5Gemma: {side}.{key} is {value!r}": config(
        CONFIG, f"{side}.{key}", base=T5GEMMA, **{side: {**WHOLE["t5gemma"][side], key: value}}
    )
    for side in ("encoder", "decoder")
    for key in ("hidden_size", "num_attention_heads", "sliding_window", "layer_types")
    for value in ("evil", -1, 0, [2])
} | {
    f"DeBERTa: {key} is {value!r}": config(CONFIG, key, base=DEBERTA, **{key: value})
    for key in ("relative_attention", "share_att_key", "norm_rel_ebd", "pos_att_type",
                "position_biased_input", "embedding_size", "attention_head_size")
    for value in ("evil", 7, ["c2p"], {})
} | {
    f"DeBERTa without {key}": config(CONFIG, key, base=DEBERTA, **{key: None})
    for key in ("relative_attention", "share_att_key", "norm_rel_ebd", "pos_att_type",
                "position_buckets")
} | {
    f"the code of NomicBERT: {key} is {value!r}": config(CONFIG, key, base=NOMIC, **{key: value})
    for key in OWN_CODE
    for value in ("evil", [7])
} | {
    f"scaled positions: {json.dumps(value)[:60]}": config(
        CONFIG, "rope_parameters", base=LLAMA, rope_parameters={"rope_theta": 1e4, **value}
    )
    for value in (
        {"rope_type": "yarn", "factor": 4.0}, {"rope_type": "evil"}, {"rope_type": 7},
        {"rope_type": "default", "factor": 8.0}, {"rope_type": "linear", "factor": "8"},
        {"rope_type": "linear", "factor": 0.0},
        {"rope_type": "llama3", "factor": 8.0}, {"rope_type": "llama3", **BANDS, "factor": -1.0},
        {"rope_type": "llama3", **BANDS, "high_freq_factor": 1.0},
        {"rope_type": "llama3", **BANDS, "low_freq_factor": 0.0},
        {"rope_type": "llama3", **BANDS, "original_max_position_embeddings": 0},
        {"rope_type": "linear", **BANDS},
    )
}  # fmt: skip

LABELS: Table = {
    f"id2label is {json.dumps(value)[:40]}": config(
        CONFIG, "id2label", base=CLASSIFY, id2label=value
    )
    for value in (
        {}, [], "yes", 7, True, [["a"]], {"a": "b"}, {"1": "a", "2": "b"}, {"0": "a", "2": "b"},
        {"0": None}, {"0": ["a"]}, {"0": {"a": "b"}}, {"00": "a"}, {"-1": "a"}, {"٠": "a"},
        {str(i): "x" for i in range(100_001)},
    )
} | {
    f"num_labels is {value!r}": config(
        CONFIG, "num_labels", base=CLASSIFY, id2label=None, num_labels=value
    )
    for value in (0, -1, "2", 2.5, True, [2], 10**6, 10**30)
} | {
    f"architectures is {value!r}": config(CONFIG, "architectures", architectures=value)
    for value in ("BertModel", ["Evil"], ["GPT2Model"], [["BertModel"]], [7], {"a": 1}, True,
                  ["os.system"], ["BertForMaskedLM\n"], ["__class__"])
} | {
    f"model_type is {value!r}": config(CONFIG, "model_type", model_type=value)
    for value in ("mamba", "", None, 7, ["bert"], {"bert": 1}, "BERT", "bert\0", "../bert", True)
}  # fmt: skip

CLASSES = {
    "config syntax": SYNTAX,
    "config types": TYPES,
    "config sizes": SIZES,
    "config arithmetic": ARITHMETIC,
    "labels and classes": LABELS,
}
