"""Boards: files as generated, no series that does not exist, no panel without unit or words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from promql import grouping_labels, selectors

from assay import series
from dashboards.generate import FOLDER, rendered

ROWS = {row.name: row for row in vars(series).values() if isinstance(row, series.Row)}
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]
PROVISIONING = Path(FOLDER).parent / "provisioning"


def expressions(board: dict[str, Any]) -> list[str]:
    """Every expression of a board: panels, annotations, variables."""
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found += [a["expr"] for a in board["annotations"]["list"]] if "annotations" in board else []
    return found


def test_committed_boards_are_the_codes() -> None:
    """The JSON files are what the code gives, and there is no other."""
    assert {f"{name}.json" for name in BOARDS} == set(rendered())
    for name, text in rendered().items():
        assert (FOLDER / name).read_text() == text, f"run python -m dashboards.generate: {name}"


@pytest.mark.parametrize("name", BOARDS)
def test_boards_name_series_and_labels_that_exist(name: str) -> None:
    """Every series, suffix, matcher and grouping label is one that Assay exposes."""
    known = {label for row in ROWS.values() for label in row.labels} | {"le"}
    for expr in expressions(BOARDS[name]):
        for named, labels in selectors(expr):
            row = ROWS.get(named) or ROWS[named.removesuffix("_bucket")]
            assert labels <= {*row.labels, "le"}, expr
        assert grouping_labels(expr) <= known, expr


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=lambda v: str(v)[:20])
def test_panels_have_a_unit_words_and_the_chosen_source(board: str, panel: dict[str, Any]) -> None:
    """No panel without title, description, unit and query; all use the board's data source."""
    assert panel["title"]
    assert panel["description"].endswith((".", ":")), panel["title"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    assert panel["datasource"]["uid"] == "${datasource}"


def lost(board: Any, known: Any, path: str = "") -> list[str]:
    """Where `board` has something that `known` has not, or otherwise."""
    if isinstance(board, dict) and isinstance(known, dict):
        pairs = [(f"{path}/{key}", board[key], known.get(key)) for key in board]
    elif isinstance(board, list) and isinstance(known, list) and len(board) == len(known):
        pairs = [(f"{path}/*", *pair) for pair in zip(board, known, strict=True)]
    else:
        return [] if board == known else [path]
    return [place for at, one, other in pairs for place in lost(one, other, at)]


@pytest.mark.parametrize("name", BOARDS)
def test_boards_are_of_grafanas_schema(name: str) -> None:
    """Grafana's own types take in the whole board, but for what a Prometheus annotation adds."""
    register_default_plugins()
    again = JSONEncoder().encode(Dashboard.from_json(BOARDS[name]))
    annotation = {f"/annotations/list/*/{key}" for key in ("titleFormat", "textFormat", "step")}
    assert set(lost(BOARDS[name], json.loads(again))) <= annotation


@pytest.mark.parametrize("name", BOARDS)
def test_boards_can_be_provisioned(name: str) -> None:
    """A fixed uid, no id, panels with ids of their own, a variable for the data source."""
    board = BOARDS[name]
    assert board["uid"].startswith("assay-")
    assert board.get("id") is None
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    variables = [variable["name"] for variable in board["templating"]["list"]]
    assert variables[0] == "datasource"
    used = {v for v in ("app", "environment", "metric", "engine", "window")
            if any(f"${v}" in e for e in expressions(board))}  # fmt: skip
    assert used <= set(variables)


def test_provisioning_files_have_fixed_uids() -> None:
    """The data source has a uid of its own, so that nothing depends on its number."""
    [source] = yaml.safe_load((PROVISIONING / "datasources" / "assay.yaml").read_text())[
        "datasources"
    ]
    assert source["uid"] == "assay-prometheus"
    [provider] = yaml.safe_load((PROVISIONING / "dashboards" / "assay.yaml").read_text())[
        "providers"
    ]
    assert provider["type"] == "file"
