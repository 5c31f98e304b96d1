"""Token for token what transformers writes: greedy, beams, every processor, samples."""

import copy
import random
import re

import pytest
import torch

import glassformer as gf
from generate.reference import SOME, beam_case, greedy_case, pair, prompts, sample_case, theirs
from glassformer.generate.job import prepare

CASES = {"greedy": (greedy_case, 80), "beam": (beam_case, 100), "sample": (sample_case, 40)}


@pytest.fixture(scope="module", params=SOME)
def models(request, tmp_path_factory):
    return pair(request.param, tmp_path_factory.mktemp(request.param))


def cases(models, kind):
    make, count = CASES[kind]
    draw = random.Random(kind)
    never = models.theirs.generation_config.bad_words_ids or []  # m2m_100: the padding token
    for prompt in prompts(count, seed=count):
        settings = make(draw, models.common)
        if "bad_words_ids" in settings:
            settings["bad_words_ids"] += never
        yield prompt, settings


def ours(models, prompt, settings):
    """Ids and scores; or what the error says where there are fewer texts than were asked for."""
    try:
        found = models.ours.generate([prompt], **settings)
    except gf.GlassformerError as error:
        return re.search(r"allow only \d", str(error))[0], None
    return [list(each.ids) for each in found], [each.score for each in found]


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("kind", CASES)
def test_the_same_texts(models, kind, every):
    """Of all cases; of every fifth in `make test`."""
    for number, (prompt, settings) in list(enumerate(cases(models, kind)))[::every]:
        texts, scores = theirs(models.theirs, prompt, settings)
        if len(texts) < settings.get("num_return_sequences", 1):
            texts, scores = f"allow only {len(texts)}", None
        found, own = ours(models, prompt, settings)
        assert found == texts, (number, prompt, settings)
        if scores is not None:
            assert own == pytest.approx(scores, rel=1e-4, abs=1e-4), (number, prompt, settings)


@pytest.mark.slow
def test_there_are_enough_cases_and_they_end_in_every_way(models):
    assert sum(count for _, count in CASES.values()) >= 200
    ends = {"end": 0, "length": 0}
    for prompt, settings in cases(models, "greedy"):
        ends[models.ours.generate([prompt], **settings)[0].stopped] += 1
    assert min(ends.values()) >= 10


WITHOUT = {  # what a setting is compared with; None leaves it out
    "repetition_penalty": None, "no_repeat_ngram_size": None, "bad_words_ids": None,
    "suppress_tokens": None, "min_new_tokens": None, "forced_bos_token_id": None,
    "forced_eos_token_id": None, "eos_token_id": [], "num_beams": 6, "length_penalty": 4.0,
    "early_stopping": True, "temperature": None, "top_k": None, "top_p": None, "min_p": None,
    "seed": 1000,
}  # fmt: skip


@pytest.mark.slow
def test_every_setting_matters(models):
    """A setting that were not followed would be seen in at least one case."""
    seen = set()
    for kind in CASES:
        for prompt, settings in cases(models, kind):
            texts = ours(models, prompt, settings)[0]
            for name in settings.keys() & WITHOUT.keys() - seen:
                other = {**settings, name: WITHOUT[name]}
                if ours(models, prompt, other)[0] != texts:
                    seen.add(name)
    # A translator's first token is the only one that can be forced; a longer prompt has none.
    rarely = {"forced_bos_token_id"} if models.ours.task.spec.kind == "causal_lm" else set()
    assert seen | rarely == WITHOUT.keys()


def test_a_small_difference_in_the_weights_is_noticed(models):
    """The comparison can fail."""
    other = copy.deepcopy(models)
    with torch.no_grad():
        words = other.ours.task.backbone.token_embedding
        words += 0.1 * torch.randn(words.shape)
    tried = list(cases(models, "beam"))[:12]
    different = [ours(other, *case)[0] != theirs(models.theirs, *case)[0] for case in tried]
    assert sum(different) > 4


def test_logprobs_are_the_models_own(models):
    """Of the tokens that were chosen, before any setting changed the scores."""
    for kind, part in (("greedy", 10), ("beam", 10)):
        for prompt, settings in list(cases(models, kind))[:part]:
            try:
                texts = models.ours.generate([prompt], logprobs=True, **settings)
            except gf.GlassformerError:  # there are fewer than were asked for
                continue
            for each in texts:
                expected = given_all(models.ours, prompt, each.ids)
                assert each.logprobs == pytest.approx(expected, abs=1e-4)
                if kind == "greedy":
                    assert each.score == pytest.approx(sum(expected), abs=1e-4)


def given_all(model, prompt, ids):
    """From one pass over the whole text, without a cache."""
    if model.task.spec.kind == "causal_lm":
        logits = model.logits([[*prompt, *ids[:-1]]])[0][len(prompt) - 1 :]
    else:
        (start,) = prepare(model.task, None, model.origin, [prompt], {}).prompts
        logits = model.logits([prompt], targets=[[*start, *ids[:-1]]])[0]
    chances = logits.log_softmax(-1)
    return [row[token].item() for row, token in zip(chances, ids, strict=True)]


def test_a_padding_token_within_a_text_has_a_position(tmp_path):
    """transformers' M2M100 takes the positions from the ids and skips padding tokens.

    From embeddings it counts every token, as we do: our texts contain no padding.
    """
    models = pair("m2m_100", tmp_path)
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[2, 5, 0, 7, 9]])
    embeddings = models.theirs.get_decoder().embed_tokens(target)
    own = models.ours.logits(source.tolist(), targets=target.tolist())[0]
    with torch.no_grad():
        counted = models.theirs(source, decoder_inputs_embeds=embeddings).logits[0]
        skipped = models.theirs(source, decoder_input_ids=target).logits[0]
    assert (own - counted).abs().max() < 5e-5
    assert (own - skipped).abs().amax(-1)[2:].min() > 0.1
