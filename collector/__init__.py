"""OTLP in, turns out."""
