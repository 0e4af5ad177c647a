"""Turns in, scores out."""
