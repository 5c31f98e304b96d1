"""A mistake is one line that says what to write; a folder says what its tokens mean."""

import json

import pytest

import glassformer as gf
from generate.storytellers import speaker
from glassformer.config import TokenIds
from glassformer.errors import CheckpointError, ConfigError
from glassformer.generate.settings import MOST_CHOICES, Settings, settings_for

WRONG = {
    "temperature = nan: ": {"temperature": float("nan")},
    "temperature = -1.0: ": {"temperature": -1.0},
    "temperature = 0 would divide by zero: write do_sample = False": {"temperature": 0},
    "temperature = 'hot': ": {"temperature": "hot"},
    "top_p = 1.5: ": {"top_p": 1.5},
    "top_p = 0: ": {"top_p": 0},
    "top_k = -1: ": {"top_k": -1},
    "min_p = 2: ": {"min_p": 2},
    "repetition_penalty = 0: ": {"repetition_penalty": 0},
    "no_repeat_ngram_size = -2: ": {"no_repeat_ngram_size": -2},
    "max_new_tokens = 0: ": {"max_new_tokens": 0},
    "min_new_tokens = 9 is more than max_new_tokens = 5": {
        "min_new_tokens": 9,
        "max_new_tokens": 5,
    },
    "length_penalty = inf: ": {"length_penalty": float("inf")},
    "early_stopping = 'soon': write True, False or 'never'": {
        "num_beams": 2,
        "early_stopping": "soon",
    },
    "num_return_sequences = 3 and num_beams = 2: write do_sample": {
        "num_beams": 2,
        "num_return_sequences": 3,
    },
    "num_return_sequences = 2 and num_beams = 1": {"num_return_sequences": 2},
    "num_beams = 2 searches for the best text and temperature samples": {
        "num_beams": 2,
        "temperature": 0.5,
    },
    "temperature = 0.5 is for sampling": {"temperature": 0.5, "do_sample": False},
    "unknown field 'temprature' (value 0.5): did you mean 'temperature'?": {"temprature": 0.5},
    "seed = -1: ": {"seed": -1},
    "stop = ['']: one of them is empty": {"stop": ""},
    "bad_words_ids = [(3,), ()]: one of them is empty": {"bad_words_ids": [[3], []]},
    "forced_eos_token_id = 5 is in suppress_tokens too": {
        "forced_eos_token_id": 5,
        "suppress_tokens": [5, 6],
    },
    "bad_words_ids: 9999 is not a token id: write numbers from 0 to ": {
        "bad_words_ids": [[1, 9999]]
    },
    "suppress_tokens: -1 is not a token id": {"suppress_tokens": [-1]},
    "eos_token_id: 9999 is not a token id": {"eos_token_id": 9999},
    "forced_bos_token_id: 9999 is not a token id": {"forced_bos_token_id": 9999},
    "bad_words_ids and suppress_tokens forbid every token": {"suppress_tokens": range(10_000)},
    "batch_size = 0: write at least 1": {"batch_size": 0},
}


@pytest.fixture(scope="module")
def model():
    return speaker("bpe")


@pytest.mark.parametrize("line", WRONG)
def test_wrong_settings(model, line):
    given = dict(WRONG[line])
    if isinstance(given.get("suppress_tokens"), range):
        given["suppress_tokens"] = list(range(len(model.tokenizer)))
    with pytest.raises(ConfigError) as caught:
        model.generate("The cat", **given)
    said = str(caught.value)
    assert line in said and "\n" not in said
    assert said.startswith("generate: ") or line in said[:70]


def test_too_many_beams(model):
    vocab = model.task.backbone.config.vocab_size
    most = MOST_CHOICES // vocab
    with pytest.raises(ConfigError, match=f"write at most {most} beams"):
        model.generate("The cat", num_beams=most + 1)


PROMPTS = {
    "prompt 0 is empty: give at least one token": "",
    "prompt 1 is empty": ["a", ""],
    "prompt 0 has 70 tokens and the model reads at most 64: shorten it": [[5] * 70],
    "prompt 0: 9999 is not a token id": [[1, 9999]],
    "prompt 0: -1 is not a token id": [-1],
    "prompt 1 is [1.5]: give texts, or lists of token ids": [[1], [1.5]],
    "prompt 1 is [1]: give texts, or lists": ["a", [1]],
    "generate: 7: give a text, a list of texts, or token ids": 7,
    "generate: None: give a text": None,
    "half a character": "\ud800",
}


@pytest.mark.parametrize("line", PROMPTS)
def test_wrong_prompts(model, line):
    with pytest.raises(gf.GlassformerError) as caught:
        model.generate(PROMPTS[line])
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_what_a_model_cannot_do(model):
    config = model.task.backbone.config
    bare = gf.Model(model.task)
    assert bare.generate([[5, 6]])[0].ids == model.generate([[5, 6]])[0].ids
    for given, line in (
        ({"prompts": "text"}, "has no tokenizer"),
        ({"prompts": [[5]], "stop": "x"}, "stop and bad_words need a tokenizer"),
    ):
        with pytest.raises(gf.GlassformerError, match=line):
            bare.generate(**given)
    masked = config.model_copy(update={"family": "encoder"})
    task = gf.build_task(masked, gf.TaskConfig(kind="masked_lm"))
    with pytest.raises(
        gf.GlassformerError,
        match=r"an encoder .masked_lm. and cannot generate: use fill or embed",
    ):
        gf.Model(task, model.tokenizer).generate("a")
    with pytest.raises(gf.GlassformerError, match="it generates one text"):
        list(model.stream("a", do_sample=True, num_return_sequences=2))
    with pytest.raises(gf.GlassformerError, match="beam search chooses a text at its end"):
        list(model.stream("a", num_beams=2))
    assert model.generate([]) == []


def test_bad_words(model):
    free = model.generate("The cat", max_new_tokens=12)[0]
    word = model.tokenizer.decode(free.ids[-1:])
    found = model.generate("The cat", max_new_tokens=12, bad_words=[word])[0]
    assert word in free.text and word not in found.text
    unigram = speaker("unigram")
    with pytest.raises(ConfigError, match="bad_words: '☃' has no tokens in this vocabulary"):
        unigram.generate("The cat", bad_words=["☃"])


def test_sampling_is_meant_when_its_settings_are_given():
    assert not Settings().samples
    assert Settings(top_p=0.9).samples and Settings(do_sample=True).samples
    assert not Settings(do_sample=False).samples


IDS = TokenIds(pad=0, start=1, end=2)


def test_the_models_own_ids_are_the_last_word():
    found = settings_for({}, {}, {}, IDS, 10)
    assert (found.eos_token_id, found.decoder_start_token_id) == ((2,), 1)
    assert settings_for({"eos_token_id": None}, {}, {}, IDS, 10).eos_token_id == ()


def test_a_folder_says_what_its_tokens_mean_and_not_how_to_search():
    stated = {
        "eos_token_id": [5, 6], "forced_bos_token_id": 7, "forced_eos_token_id": 5,
        "bad_words_ids": [[3]], "suppress_tokens": [9], "decoder_start_token_id": 8,
        "num_beams": 12, "temperature": 0.1, "do_sample": True, "max_length": 3, "unheard_of": {},
    }  # fmt: skip
    files = {"generation_config.json": json.dumps(stated).encode()}
    old = {"eos_token_id": 4, "forced_eos_token_id": 4}
    found = settings_for({}, files, old, IDS, 10)
    known = Settings(
        eos_token_id=[5, 6], forced_bos_token_id=7, forced_eos_token_id=5, bad_words_ids=[[3]],
        suppress_tokens=[9], decoder_start_token_id=8,
    )  # fmt: skip
    assert found == known
    before = settings_for({}, {}, old | {"num_beams": 4}, IDS, 10)  # folders without such a file
    assert (before.eos_token_id, before.forced_eos_token_id, before.num_beams) == ((4,), (4,), 1)
    mine = settings_for({"eos_token_id": 1, "bad_words_ids": None}, files, old, IDS, 10)
    assert (mine.eos_token_id, mine.bad_words_ids) == ((1,), ())
    assert mine.forced_eos_token_id == (5,)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"[]", "generation_config.json: write an object"),
        (b'{"eos_token_id": "x"}', "generation_config.json: eos_token_id"),
        (b'{"bad_words_ids": 3}', "generation_config.json: bad_words_ids = 3"),
        (b'{"eos_token_id": NaN}', "is NaN, not JSON"),
        (b'{"eos_token_id": 1, "eos_token_id": 2}', "is there twice"),
        (b'{"forced_eos_token_id": {"a": 1}}', "generation_config.json: forced_eos_token_id"),
    ],
)
def test_a_folder_that_makes_no_sense(data, line):
    with pytest.raises(CheckpointError) as caught:
        settings_for({}, {"generation_config.json": data}, {}, IDS, 10)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_tokens_of_a_folder_are_tokens_of_its_model(tmp_path):
    speaker("bpe").save(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 4000]}')
    with pytest.raises(gf.GlassformerError, match=r"config\.json: eos_token_id: 4000 is not a"):
        gf.load(tmp_path).generate("The cat")
    assert gf.load(tmp_path).generate("The cat", eos_token_id=1, max_new_tokens=1)
