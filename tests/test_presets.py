"""Presets are the published models, and a table of parameters adds up to what others count."""

import pytest
import torch
import transformers

import glassformer as gf
from glassformer.checkpoint import ARCHITECTURES
from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import CheckpointError, ConfigError
from glassformer.presets import PRESETS
from glassformer.sizes import Part, measure
from glassformer.tasks import outline

BARE = {  # as published: BertModel, GPT2Model, MarianModel, T5Model, ModernBertModel, LlamaModel
    "bert-tiny": 4_385_920,
    "bert-mini": 11_170_560,
    "bert-small": 28_763_648,
    "bert-medium": 41_373_184,
    "bert-base-uncased": 109_482_240,
    "bert-base-cased": 108_310_272,
    "bert-base-chinese": 102_267_648,
    "bert-base-multilingual-cased": 177_853_440,
    "bert-large-uncased": 335_141_888,
    "mpnet-base": 109_486_464,
    "albert-base-v2": 11_683_584,
    "albert-xxlarge-v2": 222_595_584,
    "deberta-v3-xsmall": 70_682_112,
    "deberta-v3-base": 183_831_552,
    "deberta-v3-large": 434_012_160,
    "mdeberta-v3-base": 278_218_752,
    "nomic-embed-text-v1.5": 136_731_648,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "marian-base": 73_886_208,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "modernbert-base": 149_014_272,
    "smollm2-135m": 134_515_008,
    "llama-3.2-1b": 1_235_814_400,
    "qwen2.5-0.5b": 494_032_768,
    "qwen3-0.6b": 596_049_920,
    "gemma-2-2b": 2_614_341_888,
    "gemma-3-270m": 268_098_176,
    "gemma-3-1b": 999_885_952,
    "smollm3-3b": 3_075_098_624,
    "mbart-large-50": 610_879_488,
    "m2m100-418m": 483_905_536,
    "nllb-200-distilled-600m": 615_073_792,
}
WITH_HEAD = {  # as published of those with an output matrix of their own
    "pythia-70m": 70_426_624,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1.4b": 1_414_647_808,
    "llama-3.1-8b": 8_030_261_248,
    "mistral-7b": 7_241_732_096,
    "olmo-2-1b": 1_484_916_736,
    "phi-3-mini-4k": 3_821_079_552,
    "mt5-small": 300_176_768,
    "mt5-base": 582_401_280,
}
COUNTED = ("umt5-small", "t5gemma-2b-2b")  # as transformers does
DEFAULTS = {"bert-base-uncased": "bert", "gpt2": "gpt2", "t5-small": "t5"}
DEFAULTS |= {"modernbert-base": "modernbert"}


def sizes(name):
    return measure(PRESETS[name].model, PRESETS[name].task)


def count(model):
    """What is learnt: Marian has sinusoids as parameters, and the bias of words is a buffer."""
    waves = isinstance(model, transformers.MarianPreTrainedModel)
    learnt = dict(model.named_parameters())
    learnt = {n: each for n, each in learnt.items() if not waves or "embed_positions" not in n}
    learnt |= {n: each for n, each in model.named_buffers() if n.endswith("final_logits_bias")}
    assert all(parameter.is_meta for parameter in learnt.values())
    return sum(parameter.numel() for parameter in learnt.values())


def architecture(name):
    bare = PRESETS[name].reference[0]
    return next(each for each in ARCHITECTURES.values() if bare in each.heads)


def part(table, group, name, stack="encoder"):
    (part,) = [p for p in table.parts if (p.stack, p.group, p.name) == (stack, group, name)]
    return part


# the presets themselves


@pytest.mark.parametrize("name", BARE)
def test_count_is_the_published_one(name):
    assert sizes(name).bare == BARE[name]


@pytest.mark.parametrize("name", WITH_HEAD)
def test_count_with_the_output_matrix_is_the_published_one(name):
    assert sizes(name).with_head == WITH_HEAD[name]


@pytest.mark.parametrize("name", [*BARE, *WITH_HEAD, *COUNTED])
def test_transformers_counts_the_same_bare_and_with_head(name):
    """Their model of the config that ours is written as, on the meta device too."""
    preset, ours = PRESETS[name], sizes(name)
    config = transformers.AutoConfig.for_model(
        **architecture(name).write(preset.model, preset.task, {})
    )
    with torch.device("meta"):
        bare, headed = (getattr(transformers, each)(config) for each in preset.reference)
    missing = 0
    if config.tie_word_embeddings and not preset.model.tied:  # mT5's config always ties them
        missing = headed.lm_head.weight.numel()
    assert (count(bare), count(headed) + missing) == (ours.bare, ours.with_head)


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_field_is_the_reference_s_own(name):
    """The defaults of their config are this very model. Only attention's dropout is ours."""
    theirs = transformers.AutoConfig.for_model(DEFAULTS[name]).to_dict()
    theirs["architectures"] = [PRESETS[name].reference[1]]
    model, task = architecture(name).read(theirs, name)
    ours = PRESETS[name].model
    rates = model.dropout.model_copy(update={"attention": ours.dropout.attention})
    assert model.model_copy(update={"dropout": rates}) == ours
    assert task == PRESETS[name].task
    assert ours.dropout.attention == (0.1 if name == "t5-small" else 0.0)


def test_marian_is_what_opus_mt_en_de_says():
    theirs = {
        "model_type": "marian", "architectures": ["MarianMTModel"], "activation_function": "swish",
        "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
        "max_position_embeddings": 512, "scale_embedding": True, "vocab_size": 58101,
        "dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0, "init_std": 0.02,
        "decoder_start_token_id": 58100, "pad_token_id": 58100, "eos_token_id": 0,
        "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
        "static_position_embeddings": True, "is_encoder_decoder": True,
    }  # fmt: skip
    model, task = ARCHITECTURES["marian"].read(theirs, "opus-mt-en-de")
    assert (model, task) == (PRESETS["marian-base"].model, PRESETS["marian-base"].task)


GEMMA3 = {
    "model_type": "gemma3_text", "vocab_size": 262144, "head_dim": 256, "num_attention_heads": 4,
    "num_key_value_heads": 1, "max_position_embeddings": 32768, "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_local_base_freq": 10000,
    "rope_scaling": None, "sliding_window": 512, "hidden_activation": "gelu_pytorch_tanh",
    "attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": False,
}  # fmt: skip
PUBLISHED = {  # in the spelling of their published files, old and new
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
def test_decoders_are_what_their_files_say(name):
    theirs, preset = PUBLISHED[name], PRESETS[name]
    model, task = ARCHITECTURES[theirs["model_type"]].read(theirs, name)
    assert (model, task) == (preset.model, preset.task)


@pytest.mark.parametrize(
    ("name", "paper"), [("transformer-base", 65e6), ("transformer-big", 213e6)]
)
def test_the_original_transformer_is_about_what_the_paper_says(name, paper):
    """Not exactly: 65M needs 40,900 pieces and 213M 35,900, where the paper says "about 37,000"."""
    table, width = sizes(name), PRESETS[name].model.width
    attention, mlp, norm = 4 * width**2, 8 * width**2 + 5 * width, 2 * width
    encoder, decoder = attention + mlp + 2 * norm, 2 * attention + mlp + 3 * norm
    assert table.per_block == {"encoder": encoder, "decoder": decoder}
    assert table.bare == table.with_head == 37_000 * width + 6 * (encoder + decoder)
    assert table.bare == {512: 63_045_632, 1024: 214_171_648}[width]
    assert table.bare == pytest.approx(paper, rel=0.031)
    pieces = (paper - 6 * (encoder + decoder)) / width
    assert pieces == pytest.approx({512: 40_900, 1024: 35_900}[width], abs=100)


def test_no_layout_holds_the_original_transformer_yet():
    """Marian's is nearest, and has biases in attention. All others have been written above."""
    preset = PRESETS["transformer-base"]
    for each in ARCHITECTURES.values():
        with pytest.raises(CheckpointError):
            each.write(preset.model, preset.task, {})


@pytest.mark.parametrize("name", ARCHITECTURES["bert"].heads)
def test_other_heads_on_a_preset_count_as_in_transformers(name):
    bert, tiny = ARCHITECTURES["bert"], PRESETS["bert-tiny"]
    written = bert.write(tiny.model, tiny.task, {}) | {"architectures": [name]}
    with torch.device("meta"):
        theirs = getattr(transformers, name)(transformers.AutoConfig.for_model(**written))
    assert measure(*bert.read(written, name)).with_head == count(theirs)


def test_a_preset_is_built_and_answers():
    preset = gf.PRESETS["bert-tiny"]
    model = gf.build_task(preset.model, preset.task).eval()
    (logits,) = model.logits([[101, 7592, 102]])
    assert logits.shape == (3, 30_522)


# the table


@pytest.mark.parametrize("name", PRESETS)
def test_table_adds_up_to_the_model(name):
    """Each number of the model is in one row, and none twice."""
    preset, table = PRESETS[name], sizes(name)
    model = outline(preset.model, preset.task)
    assert table.with_head == count(model)
    assert sum(p.count for parts in table.groups().values() for p in parts) == count(model)
    head = [m for child, m in model.named_children() if child not in ("backbone", "pooler")]
    assert table.with_head - table.bare == sum(map(count, head))
    for stack, one in table.per_block.items():
        blocks = getattr(model.backbone, stack).blocks
        assert one == count(blocks[-1])
        in_blocks = [p for p in table.parts if p.stack == stack and p.per != "model"]
        assert sum(p.count for p in in_blocks) == count(blocks)


def test_bert_base_by_hand():
    """A head: three maps 768 → 64 with bias; a block: 12 heads, output, MLP, two norms."""
    table = sizes("bert-base-uncased")
    assert part(table, "attention", "query") == Part(
        "encoder", "attention", "query", "head", (768, 64), 64, heads=12, blocks=12
    )
    assert table.per_head == 3 * (768 * 64 + 64) == 147_648
    output, up, down = 768 * 768 + 768, 768 * 3072 + 3072, 3072 * 768 + 768
    assert table.per_block == {"encoder": 12 * 147_648 + output + up + down + 4 * 768}
    tables = (30_522 + 512 + 2) * 768 + 2 * 768
    assert sum(p.count for p in table.groups()["encoder", "embeddings"]) == tables
    assert table.bare == tables + 12 * table.per_block["encoder"] + output
    assert table.with_head == table.bare + output + 2 * 768 + 30_522 + (2 * 768 + 2)


def test_the_lecture_s_table():
    """W_Q and W_K 100 × 37, W_V 100 × 100, MLP 100 → 512 → 100, once 32,000 × 100."""
    config = ModelConfig(
        family="encoder", vocab_size=32_000, width=100, depth=3, heads=1, head_width=37,
        value_width=100, mlp_width=512, max_length=7, attention_bias=False, mlp_bias=False,
        position="sinusoidal",
    )  # fmt: skip
    table = measure(config, TaskConfig())
    parts = {(p.name, p.per): (p.shape, p.count) for p in table.parts if p.name != "norm"}
    assert parts == {
        ("token", "model"): ((32_000, 100), 3_200_000),
        ("query", "head"): ((100, 37), 3 * 3_700),
        ("key", "head"): ((100, 37), 3 * 3_700),
        ("value", "head"): ((100, 100), 3 * 10_000),
        ("output", "block"): ((100, 100), 3 * 10_000),
        ("up", "block"): ((100, 512), 3 * 51_200),
        ("down", "block"): ((512, 100), 3 * 51_200),
        ("attention_norm", "block"): ((100,), 3 * 200),
        ("mlp_norm", "block"): ((100,), 3 * 200),
    }
    assert table.per_head == 17_400


def test_grouped_heads_and_a_missing_norm_are_counted_as_they_are():
    llama, modern = sizes("smollm2-135m"), sizes("modernbert-base")
    heads = {name: part(llama, "attention", name, "decoder").heads for name in ("query", "key")}
    assert heads == {"query": 9, "key": 3}
    assert part(modern, "norms", "attention_norm").blocks == 21
    assert part(modern, "norms", "mlp_norm").blocks == 22


def test_tied_words_count_once_and_others_twice():
    preset = PRESETS["gpt2"]
    untied = measure(preset.model.model_copy(update={"tied": False}), preset.task)
    assert sizes("gpt2").with_head == sizes("gpt2").bare == untied.bare
    assert untied.with_head - untied.bare == 50_257 * 768


def test_a_pooler_is_no_head():
    labels = TaskConfig(kind="classification", labels=("no", "yes"), pooler="tanh")
    table = measure(PRESETS["bert-tiny"].model, labels)
    assert table.bare == BARE["bert-tiny"]
    assert table.with_head - table.bare == 128 * 2 + 2


# a config from anybody's folder


def changed(**changes):
    return PRESETS["smollm2-135m"].model.model_copy(update=changes)


def test_positions_that_are_computed_take_no_memory():
    """A real table of rotations would have 8 GiB here."""
    assert measure(changed(max_length=1 << 25), TaskConfig()).bare == BARE["smollm2-135m"]


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 10**30},
        {"width": 1 << 40},
        {"mlp_width": 1 << 62},
        {"head_width": 1 << 62},
        {"max_length": 1 << 62, "position": "learned"},
    ],
)
def test_sizes_no_model_has_are_refused(changes):
    with pytest.raises(ConfigError, match=r"a matrix of .* elements, more than .*: look for"):
        measure(changed(**changes), TaskConfig())
