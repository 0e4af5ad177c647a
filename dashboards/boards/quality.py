"""One app: trends with their intervals, by version and model."""

from __future__ import annotations

from dashboards.boards.parts import CHOSEN, OF_METRIC, SERIES, WINDOW, Board


def quality() -> Board:
    latency = f"assay_turn_latency_seconds_bucket{{{CHOSEN}}}"
    board = Board(
        "assay-quality",
        "Assay / App quality",
        "One app: trends with their intervals, distributions, by version and model.",
        ("app", "environment", "metric", "engine", "window"),
    )
    return (
        board.lines(
            "Defect rate",
            "Weighted share of scores that did not pass, with its 95 % interval.",
            "percentunit",
            *(
                (f"max by ({SERIES}) ({name}{{{OF_METRIC}, {WINDOW}}})", f"{{{{metric}}}}{tail}")
                for name, tail in (
                    ("assay_defect_rate", ""),
                    ("assay_defect_rate_lower", " at least"),
                    ("assay_defect_rate_upper", " at most"),
                )
            ),
            span=24,
            limits=True,
        )
        .lines(
            "Mean score",
            "Weighted mean of the values, on the metric's own scale.",
            "none",
            (f"avg by ({SERIES}) (assay_score_mean{{{OF_METRIC}, {WINDOW}}})",
             "{{metric}} ({{engine}})"),
        )
        .heat(
            "Distribution of scores",
            "Scores a second per level of the scale, weighted. Points are exemplars: each leads to "
            "its trace.",
            "none",
            (f"sum by (le) (rate(assay_score_bucket{{{OF_METRIC}}}[5m]))", "{{le}}"),
        )
        .lines(
            "By version of the app",
            "Needs `version` among exporters.prometheus.labels.",
            "percentunit",
            (
                f"sum by (metric, version) (rate(assay_defect_weight_total{{{OF_METRIC}}}[1h]))"
                f" / sum by (metric, version) (rate(assay_weight_total{{{OF_METRIC}}}[1h]))",
                "{{metric}} {{version}}",
            ),
        )
        .lines(
            "By model of the app",
            "Needs `model` among exporters.prometheus.labels.",
            "percentunit",
            (
                f"sum by (metric, model) (rate(assay_defect_weight_total{{{OF_METRIC}}}[1h]))"
                f" / sum by (metric, model) (rate(assay_weight_total{{{OF_METRIC}}}[1h]))",
                "{{metric}} {{model}}",
            ),
        )
        .lines(
            "If errors had failed, if they had passed",
            "Bounds of the defect rate: judges refuse exactly the worst content.",
            "percentunit",
            (f"max by ({SERIES}) (assay_defect_rate_if_errors_fail{{{OF_METRIC}, {WINDOW}}})",
             "{{metric}} all errors fail"),
            (f"max by ({SERIES}) (assay_defect_rate_if_errors_pass{{{OF_METRIC}, {WINDOW}}})",
             "{{metric}} all errors pass"),
        )
        .lines(
            "Scores in the window",
            "How many scores the numbers of this board rest on.",
            "none",
            (f"sum by ({SERIES}) (assay_window_turns{{{OF_METRIC}, {WINDOW}}})",
             "{{metric}} ({{engine}})"),
        )
        .lines(
            "How evaluations ended",
            "Evaluations a second by outcome. What could not be scored is never a zero.",
            "reqps",
            (f"sum by (outcome) (rate(assay_evaluations_total{{{OF_METRIC}}}[5m]))",
             "{{outcome}}"),
        )
        .lines(
            "Latency of turns",
            "Duration of the app's turns, median and 95th percentile, weighted.",
            "s",
            *(
                (
                    f"histogram_quantile({q}, sum by (app, le) (rate({latency}[5m])))",
                    f"{{{{app}}}} p{q * 100:.0f}",
                )
                for q in (0.5, 0.95)
            ),
            exemplars=True,
        )
    )  # fmt: skip
