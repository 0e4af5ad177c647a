"""Assay: an online quality monitor for LLM applications."""

__version__ = "0.1.0"
