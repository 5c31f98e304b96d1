"""A config is frozen and whole; a mistake in one is a line that says what to write."""

import math

import pytest
from pydantic import ValidationError

from glassformer.config import ModelConfig, TaskConfig, TokenIds
from glassformer.errors import ConfigError
from glassformer.strict import read

FIELDS = {
    "family": "encoder", "vocab_size": 31, "width": 24, "depth": 3, "heads": 4, "mlp_width": 17,
    "max_length": 13,
}  # fmt: skip
BANDS = {"kind": "by_wavelength", "original_length": 8, "low": 1.0, "high": 4.0}


def line_of(kind=ModelConfig, /, without=(), **changes):
    """The one line a user gets for a config with these changes."""
    fields = {name: value for name, value in FIELDS.items() if name not in without}
    with pytest.raises(ConfigError) as caught:
        read(kind, {**(fields if kind is ModelConfig else {}), **changes}, "run.toml")
    line = str(caught.value)
    assert line.startswith("run.toml: ")
    assert len(line.splitlines()) == 1
    return line.removeprefix("run.toml: ")


def config(**changes):
    return read(ModelConfig, {**FIELDS, **changes})


# what an error says


def test_a_typo_gets_the_nearest_name():
    assert line_of(hedas=4) == "unknown field 'hedas' (value 4): did you mean 'heads'?"
    assert (
        line_of(max_lenght=9) == "unknown field 'max_lenght' (value 9): did you mean 'max_length'?"
    )


def test_a_field_like_no_other_is_to_be_removed():
    assert line_of(zzz="q") == "unknown field 'zzz' (value 'q'): remove it"


def test_a_typo_in_a_group_gets_the_nearest_name_of_that_group():
    line = line_of(dropout={"atention": 0.1})
    assert "'dropout.atention'" in line
    assert "'dropout.attention'" in line or "'attention'" in line


def test_a_typo_is_told_before_the_field_it_left_empty():
    assert line_of(without=("depth",), dpeth=3).startswith("unknown field 'dpeth'")


def test_a_missing_field_is_named():
    assert line_of(without=("depth",)) == "field 'depth' is missing: write a value for it"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"family": "encodr"}, ["family = 'encodr'", "'encoder', 'decoder' or 'seq2seq'"]),
        ({"heads": 5}, ["heads = 5", "width = 24", "write another number of heads"]),
        ({"heads": 0}, ["heads = 0", "write at least 1"]),
        ({"depth": -1}, ["depth = -1", "write at least 0"]),
        ({"width": 2.5}, ["width = 2.5", "write a whole number"]),
        ({"width": "wide"}, ["width = 'wide'", "write a whole number"]),
        ({"key_heads": 3}, ["key_heads = 3", "heads = 4"]),
        ({"head_width": 0}, ["head_width = 0", "write at least 1"]),
        ({"dropout": {"mlp": -0.1}}, ["dropout.mlp = -0.1", "write at least 0"]),
        ({"dropout": {"mlp": 1.0}}, ["dropout.mlp = 1.0", "less than 1"]),
        ({"norm_eps": math.nan}, ["norm_eps = nan", "finite"]),
        ({"init_std": math.inf}, ["init_std = inf", "finite"]),
        ({"init_std": 0}, ["init_std = 0", "write more than 0"]),
        ({"dropout": {"residual": math.nan}}, ["dropout.residual = nan", "finite"]),
        ({"position": "rotary", "head_width": 7}, ["head_width = 7", "odd", "even"]),
        ({"position": "sinusoidal", "width": 7, "heads": 1}, ["width = 7", "odd", "even"]),
        ({"position": "relative", "relative_buckets": 6}, ["relative_buckets = 6", "such as 32"]),
        ({"family": "decoder", "depth": 0}, ["depth = 0", "a decoder needs at least one block"]),
        ({"decoder_depth": 2}, ["decoder_depth", "seq2seq", "encoder", "use depth"]),
        ({"decoder_heads": 2}, ["decoder_heads", "seq2seq", "encoder", "use heads"]),
        ({"family": "seq2seq", "decoder_heads": 5}, ["decoder_heads = 5", "decoder_head_width"]),
        (
            {"family": "seq2seq", "decoder_heads": 6, "decoder_key_heads": 4},
            ["decoder_key_heads = 4", "decoder_heads = 6"],
        ),
        (
            {"family": "seq2seq", "decoder_width": 32},
            ["decoder_width = 32", "width = 24", "write shared_embedding = false"],
        ),
        ({"window": 0}, ["window = 0", "write at least 1"]),
        ({"segments": -1}, ["segments = -1", "write at least 0"]),
        ({"gated": "perhaps"}, ["gated = 'perhaps'", "write true or false"]),
        ({"norm": "batch"}, ["norm = 'batch'", "'layer' or 'rms'"]),
        ({"norm_place": "within"}, ["norm_place = 'within'", "'branch' or 'sandwich'"]),
        ({"family": "seq2seq", "norm_place": "branch"}, ["norm_place = 'branch'", "seq2seq"]),
        ({"parallel": True, "norm_place": "post"}, ["parallel = true", "no post-norm"]),
        ({"position": "rotary", "rotary_fraction": 0.5}, ["rotary_fraction = 0.5", "3", "even"]),
        ({"position": "rotary", "rotary_fraction": 0.1}, ["rotary_fraction = 0.1", "0", "even"]),
        ({"rotary_fraction": 1.5}, ["rotary_fraction = 1.5", "write at most 1"]),
        ({"rotary_scaling": {"factor": 2.0}}, ["rotary_scaling", "2.0", "needs a kind"]),
        ({"rotary_scaling": {"kind": "linear", "low": 1.0}}, ["rotary_scaling", "by_wavelength"]),
        ({"rotary_scaling": {"kind": "by_wavelength"}}, ["rotary_scaling", "needs all"]),
        ({"rotary_scaling": BANDS | {"high": 1.0}}, ["rotary_scaling", "high", "more than low"]),
        ({"norm_plus_one": True}, ["norm_plus_one = true", "norm = 'rms'"]),
        ({"score_cap": 0.0}, ["score_cap = 0.0", "write more than 0"]),
        ({"qk_norm": "both"}, ["qk_norm = 'both'", "'head' or 'all'"]),
    ],
    ids=str,
)
def test_an_error_names_field_value_and_what_to_write(changes, parts):
    line = line_of(**changes)
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"kind": "translate"}, ["kind = 'translate'", "'translation'"]),
        ({"pool": "max"}, ["pool = 'max'", "'mean', 'words' or 'hierarchy'"]),
        ({"lables": ("a",)}, ["unknown field 'lables'", "'labels'"]),
        ({"dropout": 2}, ["dropout = 2", "less than 1"]),
    ],
    ids=str,
)
def test_task_configs_are_checked_too(changes, parts):
    line = line_of(TaskConfig, **changes)
    for part in parts:
        assert part in line


@pytest.mark.parametrize("name", ["key_heads", "value_width", "head_width", "decoder_depth"])
def test_zero_is_a_mistake_and_not_a_size_left_out(name):
    assert line_of(family="seq2seq", **{name: 0}).startswith(f"{name} = 0: ")


@pytest.mark.parametrize("changes", [{"width": "10", "heads": 3}, {"width": 10.0, "heads": 3}])
def test_heads_must_divide_width_however_the_numbers_are_written(changes):
    """Either the number is refused, or the division is checked; never neither."""
    assert "width" in line_of(**changes)


# what a config is


@pytest.mark.parametrize("name", ["width", "head_width", "dropout"])
def test_configs_are_frozen(name):
    built = config()
    with pytest.raises(ValidationError, match="frozen"):
        setattr(built, name, 7)
    with pytest.raises(ValidationError, match="frozen"):
        built.dropout.mlp = 0.5


def test_unknown_fields_are_refused_without_read_too():
    with pytest.raises(ConfigError, match="ModelConfig: unknown field 'nonsense'"):
        ModelConfig(**FIELDS, nonsense=1)


def test_sizes_that_follow_from_others_are_filled():
    built = config()
    assert (built.head_width, built.value_width, built.key_heads) == (6, 6, 4)
    assert built.decoder_depth is None
    assert config(family="seq2seq").decoder_depth == 3


def test_a_decoder_of_other_sizes():
    """Where the number of heads or the width differs, the width of a head follows from them."""
    built = config(family="seq2seq", decoder_heads=6, decoder_mlp_width=11, key_heads=2)
    own = built.output_stack
    assert (own.heads, own.key_heads, own.head_width, own.value_width) == (6, 6, 4, 4)
    assert (own.score_width, own.mlp_width, own.depth) == (4, 11, built.depth)
    assert config(family="seq2seq").output_stack.head_width == 6
    assert config(family="decoder").output_stack == config(family="decoder")
    wide = config(family="seq2seq", decoder_width=32, shared_embedding=False, head_width=5)
    assert (wide.output_stack.head_width, wide.output_stack.embedding_width) == (8, 32)


def test_sizes_that_are_given_stay():
    built = config(family="seq2seq", decoder_depth=2, head_width=5, value_width=7, key_heads=2)
    assert (built.decoder_depth, built.head_width, built.value_width, built.key_heads) == (
        2,
        5,
        7,
        2,
    )
    assert (built.query_width, built.mixed_width, built.group_heads) == (5, 7, 2)


def test_score_width_follows_head_width():
    assert config(head_width=5).score_width == 5
    assert config(head_width=5) == config(head_width=5, score_width=5)


def test_value_width_follows_head_width():
    assert config(head_width=5).value_width == 5


def test_a_head_width_frees_heads_from_dividing_width():
    assert config(heads=5, head_width=11).query_width == 11


def test_equal_models_have_equal_configs():
    assert config() == config(head_width=6, value_width=6, key_heads=4)
    assert hash(config()) == hash(config(head_width=6))
    assert config() != config(key_heads=2)


@pytest.mark.parametrize("written", [24.0, "24"], ids=repr)
def test_a_number_written_otherwise_is_refused(written):
    with pytest.raises(ConfigError, match="config: width = "):
        config(width=written)


def test_defaults():
    built = config()
    assert (built.position, built.norm, built.norm_place, built.activation) == (
        "learned", "layer", "pre", "gelu",
    )  # fmt: skip
    assert (built.dropout.attention, built.window, built.scaled, built.tied) == (
        0.0,
        None,
        True,
        True,
    )
    assert built.ids == TokenIds(pad=None, start=None, end=None)


def test_a_config_survives_a_round_trip_through_plain_values():
    built = config(family="seq2seq", dropout={"mlp": 0.1}, ids={"start": 3})
    assert read(ModelConfig, built.model_dump()) == built
    assert ModelConfig.model_validate_json(built.model_dump_json()) == built


def test_read_leaves_its_argument_as_it_was():
    fields = dict(FIELDS)
    read(ModelConfig, fields)
    assert fields == FIELDS


def test_config_errors_are_for_people_and_exit_with_2():
    with pytest.raises(ConfigError) as caught:
        read(ModelConfig, {})
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith("config: field 'family' is missing")
