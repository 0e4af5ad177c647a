"""Every series that Assay exposes: name, type, unit, help and labels, one row each.

Names are an interface: boards, alert rules and users' queries rest on them. Labels are closed sets
or bounded by the exporter; never ids of users, conversations or traces, and never free text.
A registry is always passed in; nothing here touches the client's global one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

T = TypeVar("T", Counter, Gauge, Histogram)


@dataclass(frozen=True)
class Row(Generic[T]):
    """One metric. `name` is written as it is exposed: counters end in `_total`."""

    kind: type[T]
    name: str
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    """Base unit; where there is one, the name carries it as its suffix (before `_total`)."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, without +Inf."""


def instrument(registry: CollectorRegistry, row: Row[T]) -> T:
    """The live instrument of `row`, registered in `registry`.

    Raises ValueError when the registry already has one of that name.
    """
    options: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
    return row.kind(row.name, row.help, row.labels, unit=row.unit, registry=registry, **options)


def shared(registry: CollectorRegistry, row: Row[T]) -> T:
    """As `instrument`, but the one that is there already when two parts of a process share it."""
    known = _SHARED.setdefault(registry, {})
    if row.name not in known:
        known[row.name] = instrument(registry, row)
    found: T = known[row.name]
    return found


_SHARED: WeakKeyDictionary[CollectorRegistry, dict[str, Any]] = WeakKeyDictionary()


# --- the process ---------------------------------------------------------------------------

BUILD_INFO = Row(Gauge, "assay_build_info", "Always 1; the version that runs.", ("version",))


# Quality: exposed by the one owner of the windows.

SERIES_LABELS = ("app", "environment", "metric", "engine", "kind", "subject", "model", "version")
_WINDOWED = (*SERIES_LABELS, "window")

TURNS = Row(
    Counter,
    "assay_turns_total",
    "Turns that were eligible for scoring, by the decision of tail sampling: kept or sampled_out.",
    ("app", "environment", "decision"),
)
EVALUATIONS = Row(
    Counter,
    "assay_evaluations_total",
    "Evaluations by outcome; over all outcomes they add up to the eligible turns.",
    (*SERIES_LABELS, "outcome", "reason"),
)
PASSED = Row(
    Counter,
    "assay_passed_total",
    "Scores with a verdict, unweighted.",
    (*SERIES_LABELS, "passed"),
)
WEIGHT = Row(
    Counter,
    "assay_weight_total",
    "Sum of the sampling weights of scores with a verdict.",
    SERIES_LABELS,
)
WEIGHT_SQUARED = Row(
    Counter,
    "assay_weight_squared_total",
    "Sum of the squared sampling weights of scores with a verdict.",
    SERIES_LABELS,
)
DEFECT_WEIGHT = Row(
    Counter,
    "assay_defect_weight_total",
    "Sum of the sampling weights of scores that did not pass.",
    SERIES_LABELS,
)
DEFECT_WEIGHT_SQUARED = Row(
    Counter,
    "assay_defect_weight_squared_total",
    "Sum of the squared sampling weights of scores that did not pass.",
    SERIES_LABELS,
)
SCORE = Row(
    Histogram,
    "assay_score",
    "Values on the metric's own scale, weighted by the inverse inclusion probability.",
    SERIES_LABELS,
)
TURN_LATENCY = Row(
    Histogram,
    "assay_turn_latency_seconds",
    "Duration of turns, weighted by the inverse inclusion probability.",
    ("app", "environment", "model", "version"),
    unit="seconds",
)
SCORE_MEAN = Row(Gauge, "assay_score_mean", "Weighted mean of the values in the window.", _WINDOWED)
DEFECT_RATE = Row(
    Gauge,
    "assay_defect_rate",
    "Weighted share of scores with a verdict that did not pass, in the window.",
    _WINDOWED,
)
DEFECT_RATE_LOWER = Row(
    Gauge,
    "assay_defect_rate_lower",
    "Lower end of the 95 % interval of the defect rate.",
    _WINDOWED,
)
DEFECT_RATE_UPPER = Row(
    Gauge,
    "assay_defect_rate_upper",
    "Upper end of the 95 % interval of the defect rate.",
    _WINDOWED,
)
DEFECT_RATE_IF_ERRORS_FAIL = Row(
    Gauge,
    "assay_defect_rate_if_errors_fail",
    "The defect rate if every evaluation that ended in an error had failed.",
    _WINDOWED,
)
DEFECT_RATE_IF_ERRORS_PASS = Row(
    Gauge,
    "assay_defect_rate_if_errors_pass",
    "The defect rate if every evaluation that ended in an error had passed.",
    _WINDOWED,
)
CASCADE_JUDGED = Row(
    Gauge,
    "assay_cascade_judged",
    "Of a cascade: turns in the window of which the judge was asked.",
    _WINDOWED,
)
JUDGE_CALLS_SAVED = Row(
    Gauge,
    "assay_judge_calls_saved_ratio",
    "Of a cascade: judge calls saved, as a share of those that judging an even sample would need "
    "for an interval as wide.",
    _WINDOWED,
    unit="ratio",
)
DEFECT_RATE_AT_SEVERITY = Row(
    Gauge,
    "assay_defect_rate_at_severity",
    "Weighted share of scores at or above a severity level: low, medium or high.",
    (*_WINDOWED, "level"),
)
WINDOW_TURNS = Row(
    Gauge,
    "assay_window_turns",
    "Turns (or conversations) that were scored in the window, unweighted.",
    _WINDOWED,
)
FRESHNESS = Row(
    Gauge,
    "assay_freshness_seconds",
    "Longest time from a turn's arrival to its evaluation in the window.",
    _WINDOWED,
    unit="seconds",
)
LAST_SCORED = Row(
    Gauge,
    "assay_last_scored_timestamp_seconds",
    "When the series' latest evaluation ended, Unix time.",
    SERIES_LABELS,
    unit="seconds",
)
DESIGN_EFFECT = Row(
    Gauge,
    "assay_design_effect",
    "How much the variance of the defect rate is widened because turns of a conversation agree.",
    SERIES_LABELS,
)

SCORER_INFO = Row(
    Gauge,
    "assay_scorer_info",
    "Always 1; version and prompt of the scorer that the series' latest baseline rests on.",
    (*SERIES_LABELS, "scorer"),
)

# Alerts: exposed by the one owner of the windows.

ALERT_ACTIVE = Row(
    Gauge,
    "assay_alert_active",
    "1 while an alert fires, by what it is about.",
    ("alert", "cause", "severity", "app", "environment", "metric", "engine"),
)
REGRESSION_EVIDENCE = Row(
    Gauge,
    "assay_regression_evidence",
    "Evidence that the defect rate has risen over its baseline; the alert fires from 1 on.",
    (*SERIES_LABELS, "alert"),
)
BASELINE_RATE = Row(
    Gauge,
    "assay_baseline_defect_rate",
    "The defect rate up to which a rise is no news: the baseline's upper bound and a margin.",
    (*SERIES_LABELS, "alert"),
)
NOTIFICATIONS = Row(
    Counter,
    "assay_notifications_total",
    "Messages about alerts, by route, target and outcome: sent, retried or failed.",
    ("route", "target", "outcome"),
)

# The exporters' own work.

FOLDED = Row(
    Counter,
    "assay_folded_total",
    "Deltas whose label value became `other` because the label or the page was full.",
    ("label",),
)
ROLLUP_ENTRIES = Row(
    Counter, "assay_rollup_entries_total", "Score entries that were added to the series."
)
EXPORT_DEAD_LETTERS = Row(
    Counter,
    "assay_export_dead_letters_total",
    "Records that an exporter could not read, by stage and reason.",
    ("stage", "reason"),
)
EXPORT_RETRIES = Row(
    Counter,
    "assay_export_retries_total",
    "Attempts of an exporter's stage that failed for now.",
    ("stage",),
)
EXPORT_LAG = Row(
    Gauge, "assay_export_lag_records", "Records that a stage has not finished.", ("stage",)
)
STORE_ROWS = Row(Counter, "assay_store_rows_total", "Rows written to the store.", ("table",))
STORE_REPLAYED = Row(
    Counter,
    "assay_store_replayed_total",
    "Records that were read again and recognised as stored.",
    ("table",),
)

OTLP_EVENTS = Row(
    Counter,
    "assay_otlp_events_total",
    "Scores that went to an OTLP receiver as events, by outcome: sent or rejected.",
    ("outcome",),
)

# The doors.
REQUESTS = Row(
    Counter,
    "assay_requests_total",
    "Requests that the doors answered, by outcome: accepted, partial, or why one was refused.",
    ("door", "signal", "outcome"),
)
ACCEPTED = Row(
    Counter,
    "assay_accepted_items_total",
    "Spans and log records that the stream has confirmed.",
    ("signal",),
)
DROPPED = Row(
    Counter,
    "assay_dropped_items_total",
    "Spans and log records that the doors left out of requests they took in, by reason.",
    ("signal", "reason"),
)
UNSAMPLED_TRACES = Row(
    Counter,
    "assay_unsampled_traces_total",
    "Traces that head sampling dropped, counted by their root spans.",
)

INTAKE_DEAD_LETTERS = Row(
    Counter,
    "assay_intake_dead_letters_total",
    "Records of topics that others write that are no export requests, by reason: undecodable.",
    ("reason",),
)

# The stream.
BUS_BYTES = Row(
    Gauge,
    "assay_bus_bytes",
    "Bytes of the embedded log: in use, on disk, and most allowed.",
    ("kind",),
    unit="bytes",
)
BUS_LAG = Row(
    Gauge,
    "assay_bus_lag_records",
    "Records of a topic that a group has not finished.",
    ("topic", "group"),
)
BUS_AGE = Row(
    Gauge,
    "assay_bus_oldest_seconds",
    "Age of the oldest record that a topic keeps.",
    ("topic",),
    unit="seconds",
)
BUS_LOST = Row(
    Gauge,
    "assay_bus_lost_records",
    "Records deleted by age before a group had finished them, since the start.",
    ("topic", "group"),
)

# Assembly.
OPEN_TRACES = Row(Gauge, "assay_open_traces", "Traces that are not complete yet.")
OPEN_TRACE_BYTES = Row(
    Gauge, "assay_open_trace_bytes", "Bytes held for traces that are not complete.", unit="bytes"
)
ASSEMBLED_ITEMS = Row(
    Counter,
    "assay_assembled_items_total",
    "Spans and log records that the assembler has read, whatever became of them.",
    ("signal",),
)
LATE_SPANS = Row(
    Counter,
    "assay_late_spans_total",
    "Spans and log records that came after their trace was closed, and were left out.",
    ("signal",),
)
DUPLICATE_SPANS = Row(
    Counter,
    "assay_duplicate_spans_total",
    "Spans and log records that were there already, and were left out.",
    ("signal",),
)
CUT_SPANS = Row(
    Counter,
    "assay_cut_spans_total",
    "Spans and log records that were left out because their trace was too large.",
    ("signal",),
)
CLOSED_TRACES = Row(
    Counter,
    "assay_closed_traces_total",
    "Traces that were closed, by why: settled, idle, max_age or memory.",
    ("ending",),
)
ASSEMBLED_TURNS = Row(
    Counter,
    "assay_assembled_turns_total",
    "Turns that were read from traces, by the decision of tail sampling: kept or sampled_out.",
    ("decision",),
)
SPANLESS_TRACES = Row(
    Counter,
    "assay_spanless_traces_total",
    "Traces of which only log records came: without a span there is no turn.",
)
ORPHAN_TURNS = Row(
    Counter, "assay_orphan_turns_total", "Turns whose trace has no root: it never came."
)
TRUNCATED_TURNS = Row(
    Counter, "assay_truncated_turns_total", "Turns of which spans or text were cut at a bound."
)
UNREADABLE_SPANS = Row(
    Counter,
    "assay_unreadable_spans_total",
    "Spans of model calls without readable content, by layout.",
    ("layout",),
)
INVALID_VALUES = Row(
    Counter,
    "assay_invalid_values_total",
    "Spans with a number that cannot be, such as negative or infinite tokens, left out, by field.",
    ("field",),
)
ASSEMBLY_DEAD_LETTERS = Row(
    Counter,
    "assay_assembly_dead_letters_total",
    "Records and traces that the assembler could not read, by reason.",
    ("reason",),
)
ASSEMBLY_RETRIES = Row(
    Counter, "assay_assembly_retries_total", "Attempts of the assembler that failed for now."
)

# The scorers' own work.

SCORED_TURNS = Row(
    Counter,
    "assay_scored_turns_total",
    "Turns that a scorer group has finished, whatever their outcomes.",
    ("group",),
)
SCORER_DEATHS = Row(
    Counter,
    "assay_scorer_process_deaths_total",
    "Worker processes that ended at work and were replaced.",
    ("group",),
)
SCORER_RETRIES = Row(
    Counter,
    "assay_scorer_retries_total",
    "Attempts of a scorer group that failed for now.",
    ("group",),
)
SCORER_LAG = Row(Gauge, "assay_scorer_lag", "Turns that wait for a scorer group.", ("group",))
SCORER_DEAD_LETTERS = Row(
    Counter,
    "assay_scorer_dead_letters_total",
    "Records that a scorer group could not read, by reason: unreadable or schema.",
    ("group", "reason"),
)


# The judge.

JUDGE_REQUESTS = Row(
    Counter,
    "assay_judge_requests_total",
    "Requests to the judge's endpoints, by how they ended: ok, cached, or the reason of a failure.",
    ("result",),
)
JUDGE_TOKENS = Row(
    Counter,
    "assay_judge_tokens_total",
    "Tokens that the judge's endpoints counted, by kind: input or output.",
    ("kind",),
)
JUDGE_COST = Row(
    Counter, "assay_judge_cost_usd_total", "What judging has cost, in US dollars, by list prices."
)
JUDGE_IN_FLIGHT = Row(Gauge, "assay_judge_in_flight", "Calls to the judge that are under way.")
JUDGE_RATIO = Row(
    Gauge,
    "assay_judge_budget_ratio",
    "Share of turns that the judge's budget pays for, least of the partitions.",
)


# Corrected by people's labels: exposed beside the quality gauges while labels are fresh.

_CORRECTED = ("app", "metric", "engine")

DEFECT_RATE_CORRECTED = Row(
    Gauge,
    "assay_defect_rate_corrected",
    "Defect rate of the last day, corrected for the scorer's errors by people's labels.",
    _CORRECTED,
)
DEFECT_RATE_CORRECTED_LOWER = Row(
    Gauge, "assay_defect_rate_corrected_lower", "Its lower limit, 95 %.", _CORRECTED
)
DEFECT_RATE_CORRECTED_UPPER = Row(
    Gauge, "assay_defect_rate_corrected_upper", "Its upper limit, 95 %.", _CORRECTED
)
LABELLED_TURNS = Row(
    Gauge, "assay_labelled_turns", "Fresh labels that the correction rests on.", _CORRECTED
)


# History: written to OpenMetrics files for Prometheus' own import; no process exposes it.

_HISTORY = (*SERIES_LABELS[:6], "run", "window")

HISTORY_MEAN = Row(
    Gauge, "assay_history_score_mean", "Weighted mean of a backfill's values.", _HISTORY
)
HISTORY_DEFECT_RATE = Row(
    Gauge, "assay_history_defect_rate", "Weighted defect rate of a backfill.", _HISTORY
)
HISTORY_DEFECT_RATE_LOWER = Row(
    Gauge, "assay_history_defect_rate_lower", "Lower limit of the rate, 95 %.", _HISTORY
)
HISTORY_DEFECT_RATE_UPPER = Row(
    Gauge, "assay_history_defect_rate_upper", "Upper limit of the rate, 95 %.", _HISTORY
)
HISTORY_WINDOW_TURNS = Row(
    Gauge, "assay_history_window_turns", "Scored turns that the window rests on.", _HISTORY
)
