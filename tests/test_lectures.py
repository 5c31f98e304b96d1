"""Every worked value and example of the lectures that the library can show today.

The variants of important-word pooling are in tasks/test_pooling.py, what shuffling the words does
and the wavelengths in model/test_position.py.
"""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from glassformer import model as gf
from glassformer import toys
from glassformer.config import ModelConfig, TaskConfig
from glassformer.glass import Recorder
from glassformer.tasks import ImportantWords, build_task, cross_entropy, outline
from sampling import mostly_slow

SMALL = {"family": "encoder", "vocab_size": 29, "width": 20, "depth": 2, "heads": 4}
SMALL |= {"mlp_width": 23, "max_length": 13, "init_std": 0.3}
BERT = {"family": "encoder", "max_length": 512, "segments": 2, "embedding_norm": True}
BERT |= {"norm_place": "post", "final_norm": False}


def config(**changes):
    return ModelConfig(**{**SMALL, **changes})


def hot(module):
    """Weights in float64, far from their first values."""
    generator = torch.Generator().manual_seed(7)
    module.double().requires_grad_(False).eval()
    for parameter in module.parameters():
        parameter.normal_(std=0.3, generator=generator)
    return module


def noise(*shape, seed=3):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def one_text(length, *, causal=False, visitor=None):
    text = gf.Sequences.of([length])
    row = torch.zeros(sum(text.lengths))
    where = {"texts": text.texts(row), "positions": text.positions(row)}
    return gf.Context(queries=text, keys=text, causal=causal, visitor=visitor, **where)


def seen_in(module, x, *, causal=False):
    """The module's output for one text, and what a recorder saw inside."""
    recorder = Recorder(module.eval())
    return module(x, one_text(len(x), causal=causal, visitor=recorder)), recorder.tensors


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


# 1. The toy


@pytest.fixture(scope="module", params=mostly_slow([0, 1]))
def trained(request):
    heads = {}
    for name, toy in (("first", toys.FIRST), ("second", toys.SECOND)):
        torch.manual_seed(request.param)
        heads[name] = toys.OneHead(toy)
        assert len(list(toys.train(toy, heads[name]))) == 400
    return heads


def test_first_toy_bigram_table_says_man_or_chicken_half_each():
    """Ids 1 2 3 5 2 4 (counted from one): after "the" 0.5 each, after the last word <start>."""
    assert [i + 1 for i in toys.FIRST.ids[0]] == [1, 2, 3, 5, 2, 4]
    table = toys.FIRST.bigrams()
    assert table[1].tolist() == [0, 0, 0.5, 0.5, 0]
    assert table[3].tolist() == [1, 0, 0, 0, 0]


def test_second_toy_bigram_table_says_chkn_or_beef_half_each():
    """V = 7, T = 5: after "the" 0.5 each, after both last words <ST>."""
    table = toys.SECOND.bigrams()
    assert table[1].tolist() == [0, 0, 0, 0.5, 0, 0, 0.5]
    assert table[3].tolist() == table[6].tolist() == [1, 0, 0, 0, 0, 0, 0]


def test_first_toy_head_predicts_man_then_chicken(trained):
    """Man after the first "the", chicken after the second: W·X does what the table cannot."""
    chances = toys.look(toys.FIRST, trained["first"])["logits"].softmax(-1)
    assert chances[1, toys.FIRST.words.index("man")] > 0.95
    assert chances[4, toys.FIRST.words.index("chicken")] > 0.95


@pytest.mark.parametrize(("text", "who", "dish"), [(0, "man", "chkn"), (1, "woman", "beef")])
def test_second_toy_head_predicts_the_dish_and_looks_at_who_ordered(trained, text, who, dish):
    """Slide: chkn 0.996 and beef 0.992 after "the", whose row looks at the man or the woman."""
    trace = toys.look(toys.SECOND, trained["second"], text)
    the = trace.tokens.index("the")
    assert trace["logits"].softmax(-1)[the, toys.SECOND.words.index(dish)] > 0.95
    row = trace["attention.weights"][0, the]
    assert row[trace.tokens.index(who)] > 0.02
    assert row[: the + 1].sum() == pytest.approx(1, abs=1e-6)
    assert row[the + 1 :].tolist() == [0]


def test_no_mixture_of_the_bigram_table_tells_man_from_chicken():
    """Errata: in the slide's X two columns are equal, so the best W leaves 0.5 at both "the"s."""
    toy = toys.FIRST
    x = toy.bigrams()[toy.ids[0]]
    man, chicken = (toy.words.index(word) for word in ("man", "chicken"))
    assert torch.equal(x[:, man], x[:, chicken])
    wanted = torch.eye(5)[toy.targets[0]]
    mixed = toys.best_mixture(x, wanted)
    errors = (mixed - wanted).abs().amax(1)
    assert errors.tolist() == pytest.approx([0, 0.5, 0, 0, 0.5, 0], abs=1e-6)
    one_hot = torch.eye(5)[toy.ids[0]]
    assert torch.allclose(toys.best_mixture(one_hot, wanted), wanted, atol=1e-5)
    causal = toys.best_mixture(one_hot, wanted, causal=True)
    errors = (causal - wanted).abs().amax(1)
    assert errors.tolist() == pytest.approx([1, 1, 1, 0, 1, 0], abs=1e-5)


@pytest.mark.parametrize("name", ["first", "second"])
def test_words_or_position_is_measured(trained, name):
    """By hand: the positions' table, or the words' vectors, replaced by their mean."""
    toy, model = getattr(toys, name.upper()), trained[name]
    measured = toys.cues(toy, model)
    assert [(cue.text, cue.place, cue.target) for cue in measured] == {
        "first": [(0, 1, "man"), (0, 4, "chicken")], "second": [(0, 3, "chkn"), (1, 3, "beef")],
    }[name]  # fmt: skip
    for cue in measured:
        chances = toys.look(toy, model, cue.text)["logits"].softmax(-1)
        target = toy.words.index(cue.target)
        assert cue.whole == pytest.approx(float(chances[cue.place, target]), abs=1e-6)
        flat = copy.deepcopy(model)
        table = flat.embedding.position.weight.data
        table[:] = table[: len(toy.ids[cue.text])].mean(0)
        chances = toys.look(toy, flat, cue.text)["logits"].softmax(-1)
        assert cue.no_positions == pytest.approx(float(chances[cue.place, target]), abs=1e-5)
        # "the" keeps its vector; all that stands before it becomes the mean word.
        mean = copy.deepcopy(model)
        table = mean.embedding.token.weight.data
        others = torch.arange(len(table)) != toy.words.index("the")
        table[others] = model.embedding.token.weight.data.mean(0)
        if name == "second":  # here no other "the" stands before it
            chances = toys.look(toy, mean, cue.text)["logits"].softmax(-1)
            assert cue.no_words == pytest.approx(float(chances[cue.place, target]), abs=1e-5)
    if name == "second":  # both stand at the same place: it cannot be the position alone
        assert min(cue.no_words for cue in measured) < 0.5
        assert "uses the position" not in toys.conclusion(measured)


@pytest.mark.parametrize(
    ("whole", "no_positions", "no_words", "says"),
    [
        (1.0, 0.9, 0.1, "uses the words"), (1.0, 0.1, 0.9, "uses the position"),
        (1.0, 0.9, 0.9, "can use either"), (1.0, 0.1, 0.1, "needs both"),
        (0.4, 0.9, 0.9, "has not learnt"),
        (1.0, 0.51, 0.9, "uses the position: the right words keep a probability of at least 0.51"),
    ],
)  # fmt: skip
def test_the_conclusion_is_that_of_the_numbers(whole, no_positions, no_words, says):
    sure = toys.Cue(0, 0, "man", 1.0, 1.0, 1.0)
    cue = toys.Cue(0, 1, "man", whole, no_positions, no_words)
    assert says in toys.conclusion([sure, cue])


def test_toy_head_is_20_wide_without_bias(trained):
    """One head, width 20, learned positions; Q, K, V without bias."""
    model = trained["second"]
    shapes = {name: tuple(p.shape) for name, p in model.attention.named_parameters()}
    assert shapes == {f"{n}.weight": (20, 20) for n in ("query", "key", "value", "output")}
    assert model.embedding.position.weight.shape == (5, 20)


def test_one_hot_vector_times_matrix_is_a_look_up():
    """An embedding layer is a table look-up."""
    table = hot(gf.build(config())).encoder.embedding.token
    ids = torch.tensor([5, 0, 28])
    assert torch.equal(F.one_hot(ids, 29).double() @ table.weight, table(ids))


def test_input_is_token_plus_position_embedding():
    """x = token + position, BERT adds the segment; q, k, v are linear maps β + Ωx of it."""
    model = hot(gf.build(config(segments=2)))
    ids, kinds = [[4, 4, 17]], [[0, 1, 1]]
    recorder = Recorder(model)
    model(gf.Batch.of(ids, segments=kinds), visitor=recorder)
    tables = model.encoder.embedding
    x = tables.token.weight[ids[0]] + tables.position.weight[:3] + tables.segment.weight[kinds[0]]
    torch.testing.assert_close(recorder.tensors["encoder.embedding.out"], x)
    block = model.encoder.blocks[0]
    normed = block.attention_norm(x, one_text(3))
    for name, linear in (("q", block.attention.query), ("v", block.attention.value)):
        there = recorder.tensors[f"encoder.blocks.0.attention.{name}"].flatten(1)
        torch.testing.assert_close(there, normed @ linear.weight.T + linear.bias)


# 2. Attention


def test_important_word_pooling_worked_value():
    """r = (−3.4, 2.4, −0.8, −1.2, 1.7), I loved the movie ! → (0.00, 0.64, 0.03, 0.02, 0.32)."""
    words, r = ImportantWords(2).eval(), torch.tensor([-3.4, 2.4, -0.8, -1.2, 1.7])
    words.vectors.data = torch.tensor([[1.0, 0.0]])
    x = torch.stack([r, torch.arange(5.0)], dim=1)
    recorder = Recorder(words)
    document = words(x, gf.Sequences.of([5]), recorder)
    scores, a = recorder.tensors["scores"][:, 0], recorder.tensors["weights"][:, 0]
    assert torch.equal(scores, r)
    assert [round(each, 2) for each in a.tolist()] == [0.0, 0.64, 0.03, 0.02, 0.32]
    torch.testing.assert_close(document[0], a @ x)


def test_self_attention_sizes_100_37_100():
    """x ∈ R^100, W_Q and W_K are 100 × 37, W_V is 100 × 100 (torch keeps them transposed)."""
    head = gf.Attention(config(width=100, heads=1, head_width=37, value_width=100), layer=0)
    assert head.query.weight.shape == head.key.weight.shape == (37, 100)
    assert head.value.weight.shape == head.output.weight.shape == (100, 100)
    out, seen = seen_in(hot(head), noise(3, 100))
    assert out.shape == (3, 100)
    torch.testing.assert_close(seen["scores"][0], seen["q"][:, 0] @ seen["k"][:, 0].T / 37**0.5)
    torch.testing.assert_close(seen["mixed"][:, 0], seen["weights"][0] @ seen["v"][:, 0])


def test_attention_worked_scores():
    """The dog barked: scores (−1.4, 0.64, 0.14) → (0.07, 0.58, 0.35), in the open and fast."""
    q, k, v = torch.ones(1, 1, 1), torch.tensor([-1.4, 0.64, 0.14])[:, None, None], torch.eye(3)
    v = v[:, None]  # with these values the weights themselves come out
    fast = gf.attend(q, k, v, gf.Sequences.of([1]), gf.Sequences.of([3]), gf.AttentionSpec())
    dense = (x.transpose(0, 1)[None] for x in (q, k, v))
    slow = gf.attend_in_the_open(*dense, None, gf.AttentionSpec(), torch.nn.Identity(), one_text(1))
    for mixed in (fast, slow):
        assert [round(a, 2) for a in mixed.flatten().tolist()] == [0.07, 0.58, 0.35]


def test_routing_outputs_are_weighted_sums_of_values():
    """Output 1 = 0.1 v1 + 0.3 v2 + 0.6 v3, output 2 with 0.5, 0.2, 0.3."""
    routes = torch.tensor([[0.1, 0.3, 0.6], [0.5, 0.2, 0.3]], dtype=torch.float64)
    k, v = torch.eye(3, dtype=torch.float64)[:, None], noise(3, 1, 5)
    two, three = gf.Sequences.of([2]), gf.Sequences.of([3])
    mixed = gf.attend(routes.log()[:, None], k, v, two, three, gf.AttentionSpec())
    torch.testing.assert_close(mixed[:, 0], routes @ v[:, 0])


@pytest.mark.parametrize("causal", [False, True])
def test_causal_mask_position_t_sees_1_to_t_and_bert_sees_all(causal):
    """Each row is positive where it may look, exactly zero elsewhere, and sums to one."""
    _, seen = seen_in(hot(gf.Attention(config(), layer=0)), noise(7, 20), causal=causal)
    weights = seen["weights"]
    may = torch.ones(7, 7).tril() if causal else torch.ones(7, 7)
    assert torch.equal(weights > 0, may.bool().expand(4, 7, 7))
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 7, dtype=torch.float64))


def test_scaling_by_root_d_k_keeps_the_gradient():
    """Without 1/√d_k the softmax saturates and its gradient nearly vanishes."""
    assert gf.Attention(config(heads=1, head_width=37), layer=0).scale == pytest.approx(37**-0.5)
    k, v = noise(7, 1, 512, seed=1), noise(7, 1, 3, seed=2)
    texts, sizes = gf.Sequences.of([7]), []
    for scale in (1.0, 512**-0.5):
        q = noise(7, 1, 512).requires_grad_()
        gf.attend(q, k, v, texts, texts, gf.AttentionSpec(scale=scale)).square().sum().backward()
        sizes.append((q.grad / scale).norm().item())
    assert sizes[0] < sizes[1] / 3


def test_multi_head_is_single_heads_concatenated_then_a_linear_map():
    """H heads of width D/H, each with its own W_Q, W_K, W_V; then Ω_c back to D."""
    many, x, parts = hot(gf.Attention(config(), layer=0)), noise(7, 20), []
    for h in range(4):
        one = hot(gf.Attention(config(heads=1, head_width=5), layer=0))
        for name in ("query", "key", "value"):
            for leaf in ("weight", "bias"):
                rows = getattr(getattr(many, name), leaf)[5 * h : 5 * h + 5]
                getattr(getattr(one, name), leaf).copy_(rows)
        parts.append(seen_in(one, x)[1]["mixed"][:, 0])
    torch.testing.assert_close(many(x, one_text(7)), many.output(torch.cat(parts, dim=-1)))


def test_attention_parameters_do_not_depend_on_length():
    """A full layer over 37 words × 1024 has 37,888 inputs; attention is the same for any T."""
    head, text = gf.Attention(config(width=1024, heads=16), layer=0).double(), noise(37, 1024)
    assert text.numel() == 37_888
    assert count(head) == 4 * (1024 * 1024 + 1024)
    assert [len(head(text[:n], one_text(n))) for n in (1, 11, 37)] == [1, 11, 37]


# 3. The layer


def test_layer_norm_formula():
    """γ · (x − μ) / σ + β, μ and σ over the entries of one position."""
    norm, x = hot(gf.Norm(config(norm_eps=1e-12))), noise(3, 20)
    mean, sigma = x.mean(-1, keepdim=True), x.std(-1, keepdim=True, correction=0)
    torch.testing.assert_close(norm(x, one_text(3)), norm.weight * (x - mean) / sigma + norm.bias)


def test_post_norm_layer_equations():
    """z = LayerNorm(x + MultiHead(x)); y = LayerNorm(z + FFN(z)); y has the size of x."""
    block, x, ctx = hot(gf.Block(config(norm_place="post"), layer=0)), noise(7, 20), one_text(7)
    z = block.attention_norm(x + block.attention(x, ctx), ctx)
    y = block.mlp_norm(z + block.mlp(z, ctx), ctx)
    torch.testing.assert_close(block(x, ctx), y)
    assert y.shape == x.shape


def test_dropout_is_possible_at_each_and_off_when_not_training():
    """Each of the four rates changes a training step, none a use."""
    for place in ("embedding", "attention", "mlp", "residual"):
        model = gf.build(config(dropout={place: 0.5}))
        batch = gf.Batch.of([[1, 2, 3, 4, 5, 6, 7]])
        model.train()
        assert not torch.equal(model(batch), model(batch)), place
        model.eval()
        assert torch.equal(model(batch), model(batch)), place


@pytest.mark.parametrize(("width", "wide"), [(512, 2048), (100, 512)])
def test_feed_forward_sizes(width, wide):
    """Original base 512 → 2048 → 512 (d_ff = 4 D); the lecture's example 100 → 512 → 100."""
    sizes = {"width": width, "mlp_width": wide, "activation": "relu", "mlp_bias": False}
    mlp, x = gf.MLP(config(**sizes)).double(), noise(2, width)
    assert mlp.up.weight.shape == (wide, width)
    assert mlp.down.weight.shape == (width, wide)
    expected = (x @ mlp.up.weight.T).clamp(min=0) @ mlp.down.weight.T
    torch.testing.assert_close(mlp(x, one_text(2)), expected)


def test_parameter_table_embeddings_32000_times_100():
    """Once: 32,000 × 100 embeddings; per head W_Q, W_K, W_V; per block W1 and W2."""
    sizes = {"width": 100, "heads": 1, "head_width": 37, "value_width": 100, "mlp_width": 512}
    model = outline(config(**sizes, vocab_size=32_000), TaskConfig())
    table = {name: tuple(p.shape) for name, p in model.backbone.encoder.named_parameters()}
    assert table["embedding.token.weight"] == (32_000, 100)
    for block in ("blocks.0.", "blocks.1."):
        assert table[block + "attention.query.weight"] == (37, 100)
        assert table[block + "mlp.up.weight"] == (512, 100)
        assert table[block + "mlp.down.weight"] == (100, 512)


# 4. Positions


def test_sinusoid_of_width_4_at_positions_0_and_1():
    """Position 0 → (0, 1, 0, 1); position 1 → (sin 1, cos 1, sin 0.01, cos 0.01)."""
    table = gf.sinusoid(2, 4)
    assert table[0].tolist() == [0, 1, 0, 1]
    expected = [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]
    assert table[1].tolist() == pytest.approx(expected, rel=1e-6)


WAVES = {0: (0.91, 0.84, -0.57), 11: (-0.11, -0.48, 0.25), 20: (-0.03, -0.19, 0.18)}
WAVES |= {31: (0.30, 0.24, 1.00), 40: (0.48, 0.50, 0.63), 51: (0.98, 0.98, 0.56)}
WAVES |= {60: (0.08, 0.08, 0.38), 71: (1.00, 1.00, 0.99), 80: (0.01, 0.01, 0.06)}
WAVES |= {91: (1.00, 1.00, 1.00)}


@pytest.mark.parametrize("index", WAVES)
def test_sinusoid_table_of_width_100_at_positions_20_21_98(index):
    """The slide's table, to its two decimals."""
    assert gf.sinusoid(99, 100)[[20, 21, 98], index].tolist() == pytest.approx(
        WAVES[index], abs=0.00501
    )


def test_sinusoid_position_20_is_closer_to_21_than_to_98():
    """Neighbours look alike: less than a third of the distance."""
    table = gf.sinusoid(99, 100)
    assert (table[20] - table[21]).norm() < (table[20] - table[98]).norm() / 3


# 5. BERT, 6. GPT, 7. translation

SIZES = {  # layers, width, heads, vocabulary → parameters of BertModel, millions on the slide
    "tiny": (2, 128, 2, 30522, 4_385_920, 4),
    "small": (4, 512, 8, 30522, 28_763_648, 28),
    "medium": (8, 512, 8, 30522, 41_373_184, 41),
    "base uncased": (12, 768, 12, 30522, 109_482_240, 109),
    "base cased": (12, 768, 12, 28996, 108_310_272, 108),
    "base_zh": (12, 768, 12, 21128, 102_267_648, 102),
    "base_multi": (12, 768, 12, 119547, 177_853_440, 177),
    "large": (24, 1024, 16, 30522, 335_141_888, 335),
}


@pytest.mark.parametrize("name", SIZES)
def test_bert_parameter_counts(name):
    """The presets' 4M … 177M; large is 335M, often rounded to 340M."""
    depth, width, heads, vocab, parameters, millions = SIZES[name]
    sizes = {"depth": depth, "width": width, "heads": heads, "mlp_width": 4 * width}
    bert = ModelConfig(**BERT, **sizes, vocab_size=vocab)
    model = outline(bert, TaskConfig(pooler="tanh"))
    assert count(model) == parameters
    assert parameters // 1_000_000 == millions
    assert all(parameter.is_meta for parameter in model.parameters())


def test_bert_losses_are_summed():
    """Masked words and next sentence are learnt at once: the loss is the sum of both."""
    model = hot(build_task(config(segments=2), TaskConfig(kind="masked_lm_nsp")))
    labels, follows = torch.tensor([-100, 3, -100, 5, -100]), torch.tensor([0, 1])
    made = gf.Batch.of([[1, 2, 3], [4, 5]], segments=[[0, 1, 1], [0, 1]])
    out = model(replace(made, labels=labels, next_sentence_labels=follows))
    words, pairs = (
        cross_entropy(out.logits, labels).mean,
        cross_entropy(out.next_sentence_logits, follows).mean,
    )
    assert min(words, pairs) > 0.1
    torch.testing.assert_close(out.loss, words + pairs)


def test_bert_classifies_on_the_first_output():
    """The label's scores are a linear map of the [CLS] output alone."""
    model = hot(
        build_task(config(), TaskConfig(kind="classification", labels=("no", "yes", "maybe")))
    )
    first, head = model.hidden([[1, 2, 3]])[0][0], model.labels.linear
    torch.testing.assert_close(model.logits([[1, 2, 3]])[0], head.weight @ first + head.bias)


def test_gpt_predicts_from_the_left_context_only():
    """The cat sat on …: what comes later changes nothing; softmax gives a distribution."""
    model = hot(build_task(config(family="decoder"), TaskConfig(kind="causal_lm")))
    short, long = model.logits([[5, 7, 11, 13]])[0], model.logits([[5, 7, 11, 13, 5, 2]])[0]
    torch.testing.assert_close(short, long[:4])
    torch.testing.assert_close(short.softmax(-1).sum(-1), torch.ones(4, dtype=torch.float64))


def test_translation_walk_each_word_written_asks_all_words_read():
    """Кот сел на коврик asks The cat sat on the mat: dot products, softmax, sum of values."""
    model = hot(gf.build(config(family="seq2seq")))
    recorder = Recorder(model)
    source = gf.Batch.of([[1, 2, 3, 4, 1, 5]])
    model(gf.Batch.of([[21, 22, 23, 24]], source=source), visitor=recorder)
    q, k, v, weights, mixed = (
        recorder.tensors[f"decoder.blocks.1.cross.{name}"]
        for name in ("q", "k", "v", "weights", "mixed")
    )
    assert weights.shape == (4, 4, 6)
    scores = torch.einsum("thd,shd->hts", q, k) / math.sqrt(5)
    torch.testing.assert_close(weights, scores.softmax(-1))
    torch.testing.assert_close(mixed, torch.einsum("hts,shd->thd", weights, v))


# Errata


def test_erratum_a_mask_of_0_and_1_before_softmax_hides_nothing():
    """exp 0 = 1: multiplied scores still let the hidden words through; ours do not."""
    seen = seen_in(hot(gf.Attention(config(), layer=0)), noise(7, 20), causal=True)[1]
    later = torch.ones(7, 7).triu(1).bool()
    multiplied = (seen["scores"] * ~later).softmax(-1)
    assert (multiplied[:, later] > 0.01).any()
    assert (seen["weights"][:, later] == 0).all()
    hidden = seen["scores"].masked_fill(later, -math.inf).softmax(-1)
    torch.testing.assert_close(seen["weights"], hidden)


def test_erratum_residuals_add_within_and_through_layers():
    """With pre-norm the stream is the embedding plus what every sublayer added."""
    model = hot(gf.build(config()))
    recorder = Recorder(model)
    model(gf.Batch.of([[1, 2, 3]]), visitor=recorder)
    parts = [f"encoder.blocks.{i}.{part}.out" for i in (0, 1) for part in ("attention", "mlp")]
    stream = recorder.tensors["encoder.embedding.out"] + sum(recorder.tensors[p] for p in parts)
    torch.testing.assert_close(recorder.tensors["encoder.blocks.1.out"], stream)
