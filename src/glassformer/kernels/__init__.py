"""Kernels written in Triton. Nothing here is imported before a GPU needs it."""
