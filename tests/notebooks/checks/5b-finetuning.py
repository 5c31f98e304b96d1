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
assert shared("A dog sat.", "a dog ran") == 0.5
assert QUICK or pair_right > max(always, by_sharing) + 0.03

# %% 5b000013
for row in asked_train + asked_test:
    (answer,), (start,) = row["answers"].values()
    assert row["context"][start : start + len(answer)] == answer

# %% 5b000014
for row, answer, text, is_right in zip(asked_test, answers, known, right, strict=True):
    (reference,), (start,) = row["answers"].values()
    assert text == reference and is_right == (answer.text == reference)
    read = finder.tokenizer.encode((row["question"], row["context"]))
    inside = [i for i, home in enumerate(read.texts) if home == 1]
    with torch.no_grad():
        (scores,) = finder.task.logits([read.ids], segments=[read.segments])
    sums = {  # the span with the largest sum, by trying all
        (i, j): float(scores[i, 0] + scores[j, 1])
        for i in inside
        for j in inside
        if 0 <= j - i < 30
    }
    i, j = max(sums, key=sums.get)
    assert (answer.start, answer.end) == (read.spans[i][0], read.spans[j][1])
assert QUICK or (sum(right) / len(right) > 0.9 and all(right[i] for i in shown))

# %% 5b000021
assert all(answers[i].text != known[i] for i in wrong)
assert len(wrong) + sum(right) == len(asked_test)

# %% 5b000018
assert all(claims.values())
