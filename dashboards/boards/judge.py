"""What the judge costs and whether it agrees."""

from __future__ import annotations

from dashboards.boards.parts import CHOSEN, SERIES, WINDOW, Board, error_share

JUDGES = 'engine!~"computed|local|cascade"'


def judge() -> Board:
    board = Board(
        "assay-judge",
        "Assay / Judge",
        "What judging costs, how often it fails, how long it takes, and whether it agrees.",
        ("app", "environment", "metric", "window"),
    )
    judged = f'{CHOSEN}, metric=~"$metric", {JUDGES}'
    staged = f'{CHOSEN}, metric=~"$metric", engine="cascade", {WINDOW}'
    return (
        board.number(
            "Cost a day",
            "At the rate of the last hour and the list prices of the settings.",
            "currencyUSD",
            ("sum(rate(assay_judge_cost_usd_total[1h])) * 86400", "USD"),
        )
        .number(
            "Share that the budget pays for",
            "Least of the partitions; 1: every turn that the ratios choose is judged.",
            "percentunit",
            ("min(assay_judge_budget_ratio)", "share"),
        )
        .number(
            "Calls under way",
            "Requests to the judge's endpoints that are not answered yet.",
            "none",
            ("sum(assay_judge_in_flight)", "calls"),
        )
        .number(
            "Judge errors",
            "Share of judged evaluations that ended in an error.",
            "percentunit",
            (error_share(judged), "errors"),
        )
        .lines(
            "Requests",
            "Requests a second by how they ended.",
            "reqps",
            ("sum by (result) (rate(assay_judge_requests_total[5m]))", "{{result}}"),
        )
        .lines(
            "Tokens",
            "Tokens a second as the endpoints counted them.",
            "none",
            ("sum by (kind) (rate(assay_judge_tokens_total[5m]))", "{{kind}}"),
        )
        .lines(
            "How judged evaluations ended",
            "Evaluations a second by outcome and reason.",
            "reqps",
            (f"sum by (outcome, reason) (rate(assay_evaluations_total{{{judged}}}[5m]))",
             "{{outcome}} {{reason}}"),
        )
        .lines(
            "From arrival to verdict",
            "Longest time from a turn's arrival to its judged evaluation in the window.",
            "s",
            (f"max by ({SERIES}) (assay_freshness_seconds{{{judged}, {WINDOW}}})",
             "{{metric}} ({{engine}})"),
        )
        .lines(
            "Judge and local engine",
            "Defect rate by the judge less that by the local engine: far from zero they disagree.",
            "percentunit",
            (
                f"max by (app, metric) (assay_defect_rate{{{judged}, {WINDOW}}})"
                " - max by (app, metric) "
                f'(assay_defect_rate{{{CHOSEN}, metric=~"$metric", {WINDOW}, engine="local"}})',
                "{{app}} {{metric}}",
            ),
        )
        .lines(
            "Judged scores",
            "Mean of the judge's scores, on the metric's own scale.",
            "none",
            (f"avg by ({SERIES}) (assay_score_mean{{{judged}, {WINDOW}}})", "{{metric}} {{app}}"),
        )
        .lines(
            "Defect rate by cascade",
            "Local engine first, the judge where it is unsure: the unbiased rate, 95 % interval.",
            "percentunit",
            (f"max by (app, metric) (assay_defect_rate{{{staged}}})", "{{app}} {{metric}}"),
            (f"max by (app, metric) (assay_defect_rate_lower{{{staged}}})", "lower"),
            (f"max by (app, metric) (assay_defect_rate_upper{{{staged}}})", "upper"),
            limits=True,
        )
        .lines(
            "Turns that the judge was asked about",
            "Share of a cascade's turns: the others were settled by the local engine.",
            "percentunit",
            (f"sum by (app, metric) (assay_cascade_judged{{{staged}}})"
             f" / sum by (app, metric) (assay_window_turns{{{staged}}})",
             "{{app}} {{metric}}"),
        )
        .lines(
            "Judge calls saved",
            "Of the calls that judging an even sample would need for an interval as wide.",
            "percentunit",
            (f"max by (app, metric) (assay_judge_calls_saved_ratio{{{staged}}})",
             "{{app}} {{metric}}"),
        )
    )  # fmt: skip
