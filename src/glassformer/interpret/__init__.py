"""Causes: which parts of a model, and which words of a text, made it predict this word."""
