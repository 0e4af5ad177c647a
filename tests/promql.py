"""Which series and labels an expression of PromQL names: enough of its grammar for our own."""

from __future__ import annotations

import re

_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"")
_SELECTOR = re.compile(r"\b(assay[_:][A-Za-z0-9_:]*)(\{[^}]*\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"\"")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


def selectors(expr: str) -> list[tuple[str, set[str]]]:
    """Each series that is named, with the labels that its matchers use."""
    found = _SELECTOR.findall(_STRING.sub('""', expr))
    return [(name, set(_LABEL.findall(matchers))) for name, matchers in found]


def grouping_labels(expr: str) -> set[str]:
    """Labels of by, on and the like."""
    parts = _GROUPING.findall(_STRING.sub('""', expr))
    return {label.strip() for part in parts for label in part.split(",") if label.strip()}
