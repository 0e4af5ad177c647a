"""Tools and agents."""

from __future__ import annotations

from dashboards.boards.parts import CHOSEN, SERIES, WINDOW, Board

TOOLS = 'metric=~"tool_.*|repeated_tool_call|trajectory_.*|task_.*|intent_resolution"'


def tools() -> Board:
    board = Board(
        "assay-tools",
        "Assay / Tools and agents",
        "Calls of tools and what agents make of them.",
        ("app", "environment", "engine", "window"),
    )
    chosen = f'{CHOSEN}, engine=~"$engine", {TOOLS}'
    return (
        board.lines(
            "Defect rates",
            "Weighted share of turns in which a metric of tools or agents did not pass.",
            "percentunit",
            (f"max by ({SERIES}) (assay_defect_rate{{{chosen}, {WINDOW}}})",
             "{{app}} {{metric}} ({{engine}})"),
            span=24,
            link=True,
        )
        .lines(
            "Calls that succeed",
            "Mean share of a turn's calls whose recorded result is no error.",
            "percentunit",
            (f'avg by (app) (assay_score_mean{{{CHOSEN}, {WINDOW}, metric="tool_call_success"}})',
             "{{app}}"),
        )
        .lines(
            "Calls against their schema",
            "Share of turns with a call whose name is unknown or whose arguments break the schema.",
            "percentunit",
            (f'max by (app) (assay_defect_rate{{{CHOSEN}, {WINDOW}, '
             'metric="tool_call_schema_valid"})', "{{app}}"),
        )
        .lines(
            "Turns with tools",
            "Evaluations of tool metrics a second, by outcome; skipped are turns without a call.",
            "reqps",
            (f"sum by (metric, outcome) (rate(assay_evaluations_total{{{chosen}}}[5m]))",
             "{{metric}} {{outcome}}"),
        )
        .lines(
            "Failed turns",
            "Share of turns that ended in an error of the app.",
            "percentunit",
            (f'max by (app) (assay_defect_rate{{{CHOSEN}, {WINDOW}, metric="turn_error"}})',
             "{{app}}"),
        )
    )  # fmt: skip
