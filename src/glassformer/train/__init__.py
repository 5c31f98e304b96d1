"""Training: from a recipe to a model, in runs that can be interrupted, with one loop."""
