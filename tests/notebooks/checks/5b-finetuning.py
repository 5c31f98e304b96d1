"""What 5b-finetuning.ipynb must show, after the cell of each id."""

# %% 5b000004
assert vectors.shape == (len(read.ids), 256)
assert 0 < whole - backbone < backbone / 20

# %% 5b000006
asked = {question for question, _ in test}
assert not asked & {question for question, _ in labelled}  # nothing of the test was trained on

# %% 5b000007
assert {guess.label} <= {label for _, label in labelled}

# %% 5b000009
assert table["two layers"][0] == 2
assert table["two layers"][1] < table["gf-encoder"][1] == table["random"][1]

# %% 5b000011
assert 0.5 <= always < 1

# %% 5b000013
for row in asked_train + asked_test:
    (answer,), (start,) = row["answers"].values()
    assert row["context"][start : start + len(answer)] == answer

# %% 5b000014
for row, answer in zip(asked_test, answers, strict=False):
    assert row["context"][answer.start : answer.end] == answer.text

# %% 5b000018
assert all(claims.values())
