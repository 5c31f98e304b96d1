"""What 1-one-head.ipynb must show, after the cell of each id."""

# %% 700b44a5
assert [i + 1 for i in ids] == [1, 2, 3, 5, 2, 4]  # counted from one, as on the slide
assert pairs[words.index("the")].tolist() == [0, 0, 0.5, 0.5, 0]
assert pairs[words.index("chicken"), words.index("<start>")] == 1

# %% 3b4192ea
assert X.shape == (6, 5)
assert np.array_equal(X @ table, table[ids])  # the product is the lookup
assert np.array_equal(table.T @ X[1], table.T[:, ids[1]])  # as on the slide: a column
# the bigram table is such a table, too: its row is its prediction
assert np.array_equal(X @ pairs, pairs[ids])

# %% 58a3a8a0
assert guess[1, words.index("man")] == 1  # after the first "the"
assert guess[4, words.index("chicken")] == 1  # after the second

# %% 3586dcaf
assert np.allclose(mixtures[1], [1 / 2, 1 / 2, 0, 0, 0])
assert np.allclose(mixtures[4], [1 / 5, 2 / 5, 1 / 5, 0, 1 / 5])
assert np.array_equal(X[1], X[4])  # and before mixing there was no difference

# %% 1a000002
assert np.array_equal(predicted[:, man], predicted[:, chicken])
assert np.allclose(np.abs(missed[[1, 4]])[:, [man, chicken]], 0.5)

# %% d8c6a557
assert np.allclose(weights.sum(1), 1)
assert (weights[allowed == 0] == 0).all()

# %% 3709338f
assert (wrong[allowed == 0] > 0.03).all()

# %% f7f5f453
assert len(toy.words) == 7
assert [len(text) for text in toy.texts] == [5, 5]

# %% 726df98b
assert np.log(2) / 5 < losses[-1] < 0.145

# %% 80c7bcbf
for number, dish in enumerate(("chkn", "beef")):
    trace = toys.look(toy, head, number)
    said = trace["logits"].softmax(-1)
    assert known[toy.ids[number]][the, toy.words.index(dish)] == 0.5
    assert said[the, toy.words.index(dish)] > 0.99

# %% bd8cf796
for number, who in enumerate(("man", "woman")):
    trace = toys.look(toy, head, number)
    row = trace["attention.weights"][0, the]
    assert row[trace.tokens.index(who)] > 0.02
    assert abs(row.sum() - 1) < 1e-06
    assert row[4] == 0

# %% 11f9d39e
assert said[1, words.index("man")] > 0.95
assert said[4, words.index("chicken")] > 0.95
assert np.allclose(toys.FIRST.bigrams(), pairs)

# %% 1a000005
for name in used:
    assert min(cue.whole for cue in used[name]) > 0.9
    assert min(cue.whole for cue in unplaced[name]) > 0.9  # words are enough
assert min(cue.no_words for cue in used["second toy"]) <= 0.5  # two answers, one text

# %% 1a000007
for counted in conclusions.values():
    assert sum(counted.values()) == len(seeds)
    assert not any("not learnt" in sentence for sentence in counted)
assert not any("position" in each or "either" in each for each in conclusions["second toy"])

# %% 7f6d4f0d
assert W["attention.query.weight"].shape == (20, 20)
assert not any("bias" in name for name in W)  # q = W_Q x, without a bias
for number, numbers in enumerate(toy.ids):
    trace = toys.look(toy, head, number)
    weights, said = one_head(numbers)
    assert np.abs(weights - trace["attention.weights"][0].numpy()).max() < 1e-06
    assert np.abs(said - trace["logits"].softmax(-1).numpy()).max() < 1e-06
