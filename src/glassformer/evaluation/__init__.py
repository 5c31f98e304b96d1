"""How good a model is: losses and metrics over held-out data."""
