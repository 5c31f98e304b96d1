"""Optimisers, learning-rate schedules and master weights."""
