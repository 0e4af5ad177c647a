"""The tables of the README that come from the code: the settings and the metrics.

`python -m assay.cli.reference README.md` writes them between their marks; a test compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from assay.catalogue import METRICS, Metric
from assay.cli.metrics import engines, exceptions, passes, scale
from assay.config import Config
from assay.config_values import seconds, size

DURATIONS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_BLOCK = "<!-- {name} -->\n{body}\n<!-- end of {name} -->"


def settings_table() -> str:
    """A row per setting: key, default, meaning."""
    rows = [
        f"| `{key}` | {f'`{default}`' if default else ''} | {help_} |"
        for key, default, help_ in settings(Config)
    ]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Key, default as written in YAML, and help of each setting. `*` stands for any name, `[]` for
    an entry of a list."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        inner, mark = _section(field.annotation)
        if inner is None or mark:
            default = "" if field.is_required() else _written(field.default, field.metadata)
            yield key, default, field.description or ""
        if inner is not None:
            yield from settings(inner, f"{key}{mark}.")


def metrics_table() -> str:
    """A row per metric: name, what it asks, kind, subject, engines, scale, verdict."""
    offered = engines()
    rows = [
        f"| `{m.name}` | {m.summary} | {m.kind} | {m.subject} | {', '.join(offered[m.name])} | "
        f"{scale(m)} | {_passes(m, offered[m.name])} |"
        for m in METRICS.values()
    ]
    head = "| metric | question | kind | subject | engines | scale | passes |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def _passes(metric: Metric, offered: Sequence[str]) -> str:
    others = exceptions(metric, offered)
    return f"{passes(metric)} ({others})" if others else passes(metric)


TABLES = {"settings": settings_table, "metrics": metrics_table}


def rewrite(text: str) -> str:
    """`text` with each table between its marks as the code has it."""
    for name, table in TABLES.items():
        block = _BLOCK.format(name=name, body=table())
        pattern = _BLOCK.format(name=name, body=".*?")
        text = re.sub(pattern, block.replace("\\", r"\\"), text, flags=re.DOTALL)
    return text


def _section(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The section behind a field, and how its entries are written in a key."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    origin = getattr(annotation, "__origin__", None)
    mark = {list: "[]", dict: ".*"}.get(origin, "") if origin is not None else ""
    for argument in get_args(annotation):
        inner, deeper = _section(argument)
        if inner is not None:
            return inner, mark + deeper
    return None, ""


def _written(value: Any, metadata: Sequence[Any] = ()) -> str:
    """A default as one would write it; empty where the key is best left out."""
    for rule in metadata:
        parse = getattr(rule, "func", None)
        units = {seconds: DURATIONS, size: SIZES}.get(parse) if callable(parse) else None
        for unit, factor in units or ():
            if value and value % factor == 0:
                return f"{value / factor:g}{unit}"
    match value:
        case None | [] | {} | BaseModel():
            return ""
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case _:
            return str(value)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewrite(path.read_text()))
