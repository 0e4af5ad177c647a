"""Whether Assay itself keeps up."""

from __future__ import annotations

from dashboards.boards.parts import CHOSEN, Board


def pipeline() -> Board:
    board = Board(
        "assay-pipeline",
        "Assay / Pipeline health",
        "Whether Assay itself keeps up, and whether anything is lost on the way.",
        ("app", "environment"),
    )
    return (
        board.lines(
            "Taken in",
            "Spans and log records a second that the stream has confirmed.",
            "ops",
            ("sum by (signal) (rate(assay_accepted_items_total[5m]))", "{{signal}}"),
        )
        .lines(
            "Answers of the doors",
            "Requests a second by outcome; others than accepted need a look.",
            "reqps",
            ("sum by (door, outcome) (rate(assay_requests_total[5m]))", "{{door}} {{outcome}}"),
        )
        .lines(
            "Behind",
            "Records that a group has not finished.",
            "none",
            ("max by (topic, group) (assay_bus_lag_records)", "{{group}} on {{topic}}"),
        )
        .lines(
            "The stream on disk",
            "Bytes of the embedded log, and the most that it may hold.",
            "bytes",
            ("max by (kind) (assay_bus_bytes)", "{{kind}}"),
        )
        .lines(
            "Late and lost",
            "Spans a second that came after their trace was closed, and records deleted unread.",
            "ops",
            ("sum(rate(assay_late_spans_total[5m])) or vector(0)", "late spans"),
            ("sum(delta(assay_bus_lost_records[5m])) or vector(0)", "lost records in 5m"),
        )
        .lines(
            "Traces that are open",
            "Traces that wait for more spans.",
            "none",
            ("sum(assay_open_traces)", "open traces"),
        )
        .lines(
            "Turns by decision",
            "Turns a second that were kept or sampled out.",
            "reqps",
            (f"sum by (app, decision) (rate(assay_turns_total{{{CHOSEN}}}[5m]))",
             "{{app}} {{decision}}"),
        )
        .lines(
            "Freshness",
            "Longest time from arrival to score within five minutes.",
            "s",
            (f'max by (engine) (assay_freshness_seconds{{{CHOSEN}, window="5m"}})', "{{engine}}"),
        )
        .lines(
            "Could not be read",
            "Records a second that went to the dead letters.",
            "ops",
            ("sum(rate(assay_assembly_dead_letters_total[5m])) or vector(0)", "assembler"),
            ("sum(rate(assay_export_dead_letters_total[5m])) or vector(0)", "exporter"),
            ("sum(rate(assay_scorer_dead_letters_total[5m])) or vector(0)", "scorer"),
        )
        .lines(
            "Memory",
            "Resident memory of each process.",
            "bytes",
            ("process_resident_memory_bytes", "{{instance}}"),
        )
    )  # fmt: skip
