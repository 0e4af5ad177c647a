"""Which scorers there are, and which of them the settings select: the plan.

Ours stand in the modules of one list; users' own come from entry points (group `assay.scorers`)
or are named in the settings as `module:name`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points

from assay.config import Config
from assay.errors import Permanent
from scorers.plan import Key, Plan, Selection
from scorers.scorer import Scorer, load

MODULES = (
    "scorers.computed.operational",
    "scorers.computed.similarity",
    "scorers.computed.rouge",
    "scorers.computed.meteor",
    "scorers.computed.tool_calls",
    "scorers.computed.trajectory",
    "scorers.computed.ranking",
    "scorers.local.groundedness",
    "scorers.local.relevance",
    "scorers.local.retrieval",
    "scorers.local.coherence",
    "scorers.local.fluency",
    "scorers.local.harms",
    "scorers.local.attacks",
    "scorers.local.pii",
    "scorers.local.refusal",
    "scorers.local.code_vulnerability",
    "scorers.local.protected_material",
    "scorers.extra.embed",
    "scorers.extra.nli",
    "scorers.extra.moderation",
)
ENTRY_POINTS = "assay.scorers"


def scorers_of(modules: Iterable[str] = MODULES) -> dict[Key, Scorer]:
    """The scorers declared in `modules`, in order. Raises Permanent when two have the same key."""
    found: dict[Key, Scorer] = {}
    for module in modules:
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, Scorer):
                add(found, value)
    return found


def registered() -> dict[Key, Scorer]:
    """Ours, and those that installed packages offer; raises Permanent where one will not load."""
    found = scorers_of()
    for point in entry_points(group=ENTRY_POINTS):
        add(found, load(point.value))
    return found


def add(found: dict[Key, Scorer], scorer: Scorer) -> None:
    """Put `scorer` into `found`; raises Permanent when another one already has its key."""
    known = found.setdefault(scorer.key, scorer)
    if known is not scorer:
        name, subject, engine = scorer.key
        both = f"{known.reference} and {scorer.reference}"
        raise Permanent(f"{both} answer {name} of the {subject} by {engine}")


def resolve(config: Config, scorers: Mapping[Key, Scorer] | None = None) -> Plan:
    """What to score for each app. Raises ConfigError with every fault of `metrics` and `apps`.

    `scorers` are those to select from, by default the registered ones.
    """
    selection = Selection(registered() if scorers is None else scorers, config)
    base = selection.entries("metrics", config.metrics, {})
    apps = {
        name: selection.entries(f"apps.{name}.metrics", app.metrics, base)
        for name, app in config.apps.items()
    }
    selection.raise_faults()
    return Plan(
        base=tuple(base.values()), apps={name: tuple(own.values()) for name, own in apps.items()}
    )
