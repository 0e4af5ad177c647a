"""Harms, attacks and leaks."""

from __future__ import annotations

from dashboards.boards.parts import CHOSEN, SERIES, WINDOW, Board

HARM = 'metric=~"content_safety|hate_unfairness|sexual|violence|self_harm"'
ATTACKS = 'metric=~"direct_attack_attempt|indirect_attack_attempt"'


def safety() -> Board:
    board = Board(
        "assay-safety",
        "Assay / Safety",
        "Harms by severity, attacks that users try, and what leaks.",
        ("app", "environment", "engine", "window"),
    )
    engine = 'engine=~"$engine"'
    for level in ("low", "medium", "high"):
        board.lines(
            f"Severity {level} and above",
            f"Weighted share of answers judged to be of severity {level} or worse.",
            "percentunit",
            (
                f"max by ({SERIES}) (assay_defect_rate_at_severity{{{CHOSEN}, {engine}, {WINDOW}, "
                f'level="{level}", kind="defect"}})',
                "{{app}} {{metric}}",
            ),
            span=8,
        )
    return (
        board.lines(
            "Harmful answers",
            "Defect rates of the harms at their own tolerance, by any engine.",
            "percentunit",
            (f'max by ({SERIES}) (assay_defect_rate{{{CHOSEN}, {engine}, {WINDOW}, {HARM}, '
             'kind="defect"})', "{{app}} {{metric}} ({{engine}})"),
        )
        .lines(
            "Attacks that users and documents try",
            "Attempts are no defects of the app and raise no quality alert.",
            "percentunit",
            (f"max by ({SERIES}) (assay_defect_rate{{{CHOSEN}, {engine}, {WINDOW}, {ATTACKS}}})",
             "{{app}} {{metric}} ({{engine}})"),
        )
        .lines(
            "Personal data that leaks",
            "Answers with personal data that stands in neither question nor documents.",
            "percentunit",
            (f'max by ({SERIES}) (assay_defect_rate{{{CHOSEN}, {engine}, {WINDOW}, '
             'metric="pii_leakage"})', "{{app}} ({{engine}})"),
        )
        .lines(
            "Refusals",
            "Share of answers in which the assistant declines. Worth watching, no defect.",
            "percentunit",
            (f'avg by ({SERIES}) (assay_score_mean{{{CHOSEN}, {engine}, {WINDOW}, '
             'metric="refusal"})', "{{app}} ({{engine}})"),
        )
    )  # fmt: skip
