"""Rules for Prometheus, and tests of them for promtool, generated from the settings."""
