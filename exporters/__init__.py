"""Turns and scores out: to Prometheus, to the store, to OTLP receivers."""
