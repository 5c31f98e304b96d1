"""What 4b-rnn-cnn-attention.ipynb must show, after the cell of each id."""

# %% 4b000004
for people, dishes, answer in zip(who.tolist(), what.tolist(), answers.tolist(), strict=True):
    assert len(set(people[:-1])) == 8  # nobody orders twice
    assert dishes[people.index(people[-1])] == answer
    assert dishes[-1] == DISHES

# %% 4b000006
assert all(sum(losses[-10:]) < sum(losses[:10]) for losses in curves.values())

# %% 4b000008
beyond = [i for i, d in enumerate(distances) if d > networks["CNN"].sees]
assert all(near["CNN"][i] < 0.25 for i in beyond)  # it guesses one of eight dishes
assert QUICK or min(near["attention"]) > 0.95
assert QUICK or min(long["attention"]) > 0.9
assert QUICK or max(long["RNN"][2], long["CNN"][2]) < long["attention"][2]

# %% 4b000010
assert (seen["CNN"][: 16 - networks["CNN"].sees] == 0).all()
assert blind == 16 - networks["CNN"].sees == 8
assert (seen["RNN"] > 0).all()
assert QUICK or row.argmax() == 4

# %% 4b000012
assert all(each > 0 for values in times.values() for each in values)
