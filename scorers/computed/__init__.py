"""Metrics with an exact definition: computed from the turn, by no model."""
