"""Writing: predict the next token, append it, repeat."""
