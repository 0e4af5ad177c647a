"""All apps at a glance."""

from __future__ import annotations

from dashboards.boards.parts import CHOSEN, SERIES, WINDOW, Board, error_share


def overview() -> Board:
    defects = f'{{{CHOSEN}, {WINDOW}, kind="defect"}}'
    board = Board(
        "assay-overview",
        "Assay / Overview",
        "All apps at a glance: what fails, what fires, how much is watched.",
        ("app", "environment", "window"),
    )
    return (
        board.number(
            "Apps",
            "Apps that had a turn.",
            "none",
            (f"count(group by (app) (assay_turns_total{{{CHOSEN}}}))", "apps"),
        )
        .number(
            "Turns",
            "Turns a second that were eligible for scoring.",
            "reqps",
            (f"sum(rate(assay_turns_total{{{CHOSEN}}}[5m]))", "turns"),
        )
        .number(
            "Alerts that fire",
            "Alerts that fire now; their causes are in the table below.",
            "none",
            (f"sum(assay_alert_active{{{CHOSEN}}}) or vector(0)", "alerts"),
        )
        .number(
            "Evaluations that ended in an error",
            "Share of evaluations that a scorer could not finish. They are no defects of the app.",
            "percentunit",
            (error_share(CHOSEN), "errors"),
        )
        .lines(
            "Worst defect rates",
            "The ten highest weighted defect rates in the window. Follow a line to its app.",
            "percentunit",
            (
                f"topk(10, max by ({SERIES}) (assay_defect_rate{defects}))",
                "{{app}} {{metric}} ({{engine}})",
            ),
            span=24,
            link=True,
        )
        .rows(
            "Apps and metrics",
            "Defect rate with its 95 % interval, and how many scores it rests on.",
            "percentunit",
            *(
                (f"max by ({SERIES}) ({name}{defects})", title)
                for name, title in (
                    ("assay_defect_rate", "defect rate"),
                    ("assay_defect_rate_lower", "at least"),
                    ("assay_defect_rate_upper", "at most"),
                )
            ),
        )
        .rows(
            "Alerts",
            "1 while an alert fires, 0 for a day after its end.",
            "none",
            (
                f"max by (alert, cause, severity, {SERIES}) (assay_alert_active{{{CHOSEN}}})",
                "fires",
            ),
        )
    )
