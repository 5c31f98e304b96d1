"""Generation: predict the next token, append it, repeat."""
