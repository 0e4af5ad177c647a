"""Readers of key families: each takes from a span what its own keys hold."""
