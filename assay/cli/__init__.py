"""The commands: the one place that wires the rooms together."""
