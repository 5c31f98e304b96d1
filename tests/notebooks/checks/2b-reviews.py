"""What 2b-reviews.ipynb must show, after the cell of each id."""

# %% 2b000004
assert static.task.backbone.config.depth == 0  # a table alone
assert table[0].abs().sum() == 0  # the unknown word

# %% 2b000008
assert min(right.values()) > 0.6

# %% 2b000010
for text in OURS.values():
    parts, ids, words, share = look(models["hierarchy"], text)
    assert len(parts) == len(ids) == len(words) == len(share) == 6
    assert abs(share.sum() - 1) < 1e-5
    assert all(abs(each.sum() - 1) < 1e-5 for each in words)

# %% 2b000012
assert torch.allclose(b, share, atol=1e-5)
assert abs(chances[model.task.spec.labels.index("pos")] - guesses["neg"].scores["pos"]) < 1e-4

# %% 2b000016
assert all(claims.values())
