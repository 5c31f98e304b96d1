"""Training: recipes, runs that survive, and the one loop."""
