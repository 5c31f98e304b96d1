"""What 9-causes.ipynb must show, after the cell of each id."""

# %% 9c000004
assert abs(split.total - split.difference) < 1e-3
assert split.contrast.words == ("cat", "man")

# %% 9c000006
assert sweep.recovered.shape == (model.config.depth, len(tokens))
assert abs(sweep.recovered[-1, mask] - 1) < 1e-4  # the last vector is all that the head reads

# %% 9c000010
assert abs(effects.circuit(total).faithfulness - 1) < 1e-3
assert abs(effects.value([]) - effects.corrupted.value()) < 1e-3

# %% 9c000012
scores = scored["integrated_gradients"].scores["encoder"]
each = scored["integrated_gradients"]
assert abs(scores.sum() - (each.difference - each.baseline)) < 0.1 * abs(each.difference)

# %% 9c000014
assert distances["tuned lens"][-1] < 0.1
assert distances["logit lens"][-1] < 1e-4  # the last layer is the prediction itself

# %% 9c000018
assert all(claims.values())
