"""Readers: one module a file format."""
