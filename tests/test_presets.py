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
from sampling import every_nth

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
    "distilbert-base-uncased": 66_362_880,
    "distilbert-base-cased": 65_190_912,
    "electra-small": 13_483_008,
    "electra-base": 108_891_648,
    "electra-large": 334_092_288,
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
    "bart-base": 139_420_416,
    "bart-large": 406_291_456,
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
WITH_POOLER = {  # as published of those whose masked words need none
    "distilroberta-base": 82_118_400,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "xlm-roberta-base": 278_043_648,
    "xlm-roberta-large": 559_890_432,
    "camembert-base": 110_621_952,
}
COUNTED = ("umt5-small", "t5gemma-2b-2b")  # as transformers does
DEFAULTS = {"bert-base-uncased": "bert", "gpt2": "gpt2", "t5-small": "t5"}
DEFAULTS |= {"modernbert-base": "modernbert", "electra-small": "electra"}
DEFAULTS |= {"distilbert-base-uncased": "distilbert"}


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


def with_pooler(name):
    return measure(PRESETS[name].model, TaskConfig(pooler="tanh")).bare


@pytest.mark.parametrize("name", WITH_POOLER)
def test_count_with_the_pooler_is_the_published_one(name):
    assert with_pooler(name) == WITH_POOLER[name]


@pytest.mark.parametrize("name", every_nth([*BARE, *WITH_HEAD, *WITH_POOLER, *COUNTED], 6))
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
    own = with_pooler(name) if name in WITH_POOLER else ours.bare
    assert (count(bare), count(headed) + missing) == (own, ours.with_head)


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


def test_every_architecture_has_a_preset():
    """All but our own layout, in which nothing is published."""
    named = {preset.reference[0] for preset in PRESETS.values() if preset.reference}
    without = [each for each in ARCHITECTURES.values() if not named & each.heads.keys()]
    assert without == [ARCHITECTURES["glassformer"]]


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


@pytest.mark.parametrize("name", every_nth(PRESETS, 4))
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
