"""What 8b-coreference.ipynb must show, after the cell of each id."""

# %% 8b000004
for model in models.values():
    for text, pronoun, right, rival in SENTENCES.values():
        tokens = model.tokenizer.encode(text).tokens
        for word in (pronoun, right, rival):
            pieces = [tokens[i].removeprefix("##") for i in tokens_of(model, text, word)]
            assert "".join(pieces) == word.lower()
assert all(((each >= 0) & (each <= 1 + 1e-5)).all() for pair in seen.values() for each in pair)

# %% 8b000006
assert all(best >= mean for best, mean, _ in table.values())

# %% 8b000008
texts = list(cases(NOUNS, FORMS[0]))
first_noun = sum(text.split()[1] == right for text, _, right, _ in texts)
nearest = sum(text.split(",")[0].endswith(f" {right}") for text, _, right, _ in texts)
assert first_noun == nearest == len(texts) / 2  # order alone only guesses
assert all(first[chosen[name]] == first.max() for name, (first, _) in judged.items())

# %% 8b000012
assert all(torch.isfinite(each).all() for each in lost.values())

# %% 8b000016
assert torch.allclose(plain, pronoun_odds())  # switching heads off leaves no trace

# %% 8b000018
assert all(claims.values())
