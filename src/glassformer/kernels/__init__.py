"""GPU kernels. Modules that need Triton are imported when a GPU needs them."""
