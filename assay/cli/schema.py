"""`assay schema` and `assay config show`: the records' JSON Schema, and the settings in force."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import yaml

from assay.cli.show import print_lines
from assay.config import Config, effective
from assay.errors import Permanent
from assay.lookup import Conversation, ScoredTurn
from assay.records import RollupBatch, Turn, TurnScores

RECORDS = {
    kind.__name__: kind for kind in (Turn, TurnScores, ScoredTurn, Conversation, RollupBatch)
}


def schema_of(name: str | None) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one record, or of all. Raises Permanent for another name."""
    if name is None:
        _, components = msgspec.json.schema_components(RECORDS.values())
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": components}
    if name not in RECORDS:
        raise Permanent(f"no record {name!r}; allowed: {', '.join(RECORDS)}")
    return msgspec.json.schema(RECORDS[name])


def print_schema(name: str | None) -> None:
    """Print it."""
    json.dump(schema_of(name), sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_settings(config: Config, as_json: bool) -> None:
    """Every setting in force, as YAML that can be read back but for its secrets."""
    if as_json:
        print_lines([effective(config)])
    else:
        yaml.safe_dump(effective(config), sys.stdout, sort_keys=False, allow_unicode=True)
