"""The records that cross rooms: turns, their scores, and the sums the exporters keep.

All times are integers, nanoseconds since the Unix epoch, unless a field says otherwise. Records
travel as JSON with `SCHEMA_VERSION` in the header `schema`. A reader ignores fields it does not
know and defaults fields it misses, so that neighbouring versions read each other.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

SCHEMA_VERSION = 1

Kind = Literal["defect", "attempt", "info"]
Subject = Literal["response", "query", "context", "tool_calls", "turn", "conversation"]
Direction = Literal["higher", "lower", "within", "true_is_bad"]
Outcome = Literal[
    "scored",
    "sampled_out",
    "filtered",
    "skipped",
    "not_applicable",
    "budget",
    "error",
    "overflow",
    "late",
]
OUTCOMES: tuple[Outcome, ...] = (
    "scored",
    "sampled_out",
    "filtered",
    "skipped",
    "not_applicable",
    "budget",
    "error",
    "overflow",
    "late",
)
ERROR_REASONS = (
    "refused",
    "content_filter",
    "truncated",
    "out_of_range",
    "unparsable",
    "timeout",
    "rate_limited",
    "auth",
    "exception",
)


JUDGED, UNJUDGED = "judged", "unjudged"
"""Reasons of the outcome `scored` of the cascade: whether the judge was asked."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of a tool, as asked by the model, with its recorded result where one is known."""

    name: str = ""
    id: str | None = None
    arguments: Any = None
    """Decoded JSON where the text was JSON, else the text as it came."""
    result: Any = None
    error: str | None = None
    """What went wrong in the tool; none when it succeeded or nothing is known."""


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that was offered to the model."""

    name: str
    description: str | None = None
    parameters: Any = None
    """The JSON Schema of the arguments; none when not exported."""


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of the conversation as the model saw it."""

    role: str
    """system, user, assistant or tool."""
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One passage that the app retrieved for the turn, in rank order."""

    id: str | None = None
    title: str | None = None
    content: str = ""
    score: float | None = None
    """The retriever's own score."""
    relevance: float | None = None
    """A graded relevance label, where the data carries one."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of the turn's model calls, counted once; none where nothing was exported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    embedding_tokens: int | None = None
    """Of the turn's embedding calls; in none of the others."""
    cost: float | None = None
    """US dollars, as exported by the app; price tables are applied by the metric `cost_usd`."""


class Feedback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A judgement that came with the trace: a user's thumb or another evaluator's result."""

    name: str
    value: float | None = None
    label: str | None = None
    comment: str | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One user query and the assistant's final answer, with all that was seen on the way."""

    turn_id: str
    """Trace id and the ordinal of the turn in the trace: see `turn_id_of`."""
    trace_id: str
    """32 lower-case hex digits."""
    span_id: str = ""
    """16 hex digits: the span whose output is the answer."""
    response_id: str | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    ordinal: int = 0
    """Position of the turn in its trace by start time, from 0."""

    app: str = "unknown"
    """`service.name`."""
    environment: str = ""
    version: str = ""
    operation: str = ""
    """Agent name, else prompt name, else the root span's name."""
    prompt_version: str = ""
    model: str = ""
    provider: str = ""
    language: str = ""

    query: str | None = None
    """The user's bare question; none when it was not exported, empty when it was empty."""
    response: str | None = None
    """The final answer; none when there is none (an error, or content capture off)."""
    system: str | None = None
    messages: tuple[Message, ...] = ()
    """The history before the query, oldest first, without the system prompt."""
    documents: tuple[Document, ...] = ()
    tool_definitions: tuple[ToolDefinition, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    """In start order."""
    response_format: Any = None
    """The declared format of the answer, e.g. a JSON schema; none when none was declared."""
    ground_truth: str | tuple[str, ...] | None = None
    reference_tool_calls: tuple[ToolCall, ...] | None = None
    baseline_response: str | None = None
    feedback: tuple[Feedback, ...] = ()

    usage: Usage = Usage()
    started_at: int = 0
    ended_at: int = 0
    arrived_at: int = 0
    """When the bus took in the trace's root (else its last span)."""
    time_to_first_token: float | None = None
    """Seconds."""
    finish_reason: str | None = None
    error: str | None = None
    """Why the turn failed; none when it did not."""

    labels: dict[str, str] = {}
    """Configured attributes, small and bounded."""
    dialect: str = ""
    """The layout that the content was read from."""
    orphan: bool = False
    """The true root never came: the topmost earliest span stood in for it."""
    truncated: bool = False
    """Spans or text were cut at a bound."""

    draw: float = 0.0
    """The turn's one random number in [0, 1): see `assay.sampling`."""
    inclusion_probability: float = 1.0
    stratum: str = "base"
    """The sampling class that the turn belongs to."""


class JudgeUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one judged score cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    cost: float | None = None
    """US dollars; none when the model has no price."""


class Cascade(msgspec.Struct, frozen=True, kw_only=True):
    """What the cascade knew of a turn: see `scorers.cascade`."""

    local: float
    """Calibrated probability of a defect, by the local engine; 0 to 1."""
    judge: bool | None = None
    """Whether the judge found a defect; none where it was not asked, or gave no verdict."""
    pi: float
    """Probability with which the judge was asked, above 0; known before the draw."""

    def estimate(self, judge: bool | None) -> float:
        """The turn's part in the defect rate, had the judge said `judge`: the local probability,
        and what the judge changes of it over `pi`. Unbounded; unbiased over the draws."""
        return self.local if judge is None else self.local + (judge - self.local) / self.pi


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one engine found for one metric: a value, or the reason why there is none."""

    metric: str
    engine: str
    """`computed`, `local`, `cascade`, or the judge's model."""
    subject: Subject = "response"
    kind: Kind = "defect"
    outcome: Outcome = "scored"
    outcome_reason: str | None = None
    """Closed vocabulary per outcome: the missing input, the error's reason, ..."""
    value: float | None = None
    """Only when scored; always finite."""
    label: str | None = None
    passed: bool | None = None
    """None when not scored, or when the metric has no threshold."""
    threshold: float | None = None
    direction: Direction = "higher"
    reason: str | None = None
    confidence: float | None = None
    """0 to 1."""
    details: dict[str, Any] = {}
    weight: float = 1.0
    """1 / (inclusion probability of the turn for this metric)."""
    score_id: str = ""
    scorer_version: str = ""
    prompt_digest: str = ""
    judge_usage: JudgeUsage | None = None
    judge_latency: float | None = None
    """Seconds."""
    cascade: Cascade | None = None
    """Only of engine `cascade`, where a local verdict was there or the judge was asked."""


class TurnScores(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All scores that one group gave one turn (or conversation); carries no content."""

    subject_id: str
    """The turn's id, or the conversation's."""
    turn_id: str
    trace_id: str
    span_id: str = ""
    response_id: str | None = None
    conversation_id: str | None = None
    app: str = "unknown"
    environment: str = ""
    version: str = ""
    operation: str = ""
    prompt_version: str = ""
    model: str = ""
    provider: str = ""
    language: str = ""
    labels: dict[str, str] = {}
    stratum: str = "base"
    inclusion_probability: float = 1.0
    revision: int = 0
    group: str = "local"
    run: str = "live"
    """`live`, or the id of a backfill."""
    event_time: int = 0
    """When the turn ended, by the app's clock."""
    arrived_at: int = 0
    scored_at: int = 0
    scores: tuple[Score, ...] = ()


class Label(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person says a metric should have answered on a turn."""

    label_id: str
    """The same words by the same person about the same turn and metric give the same id."""
    turn_id: str
    metric: str
    subject: Subject = "response"
    value: float | None = None
    passed: bool | None = None
    who: str = ""
    comment: str | None = None
    labelled_at: int = 0


class SeriesKey(msgspec.Struct, frozen=True, array_like=True):
    """What makes two scores members of the same series."""

    app: str
    environment: str
    metric: str
    engine: str
    kind: Kind
    subject: Subject
    model: str = ""
    version: str = ""


class Cell(msgspec.Struct, array_like=True, gc=False):
    """Sums over scored entries of one stratum and weight."""

    stratum: str
    weight: float
    n: int = 0
    judged: int = 0
    """Entries whose `passed` is not none."""
    defects: int = 0
    """Entries whose `passed` is false."""
    total: float = 0.0
    squares: float = 0.0
    buckets: list[int] = []
    """Counts per histogram bucket of the metric's scale; the last is +Inf. The cascade's
    estimates have no histogram, and its `judged` and `defects` stay 0."""


class OutcomeCount(msgspec.Struct, array_like=True, gc=False):
    """How many entries ended in one outcome."""

    outcome: Outcome
    reason: str
    n: int = 0
    weight: float = 0.0
    lost: float = 0.0
    """Of the cascade: the part of the weight whose judge was asked and gave no verdict."""
    highest: float = 0.0
    """Of the lost: their weighted estimates, had the judge found a defect in each."""
    lowest: float = 0.0
    """The same, had it found none."""


class Group(msgspec.Struct, array_like=True, gc=False):
    """Weighted sums of one of the 32 conversation groups."""

    index: int
    n: int = 0
    weight: float = 0.0
    defects: float = 0.0
    """Weight of the defects; of the cascade the weighted sum of its estimates."""


class Rollup(msgspec.Struct):
    """A delta: what happened to one series in one minute."""

    key: SeriesKey
    minute: int
    """Minutes since the Unix epoch, by scored time."""
    cells: list[Cell] = []
    outcomes: list[OutcomeCount] = []
    groups: list[Group] = []
    exemplars: dict[int, tuple[str, float, float]] = {}
    """Bucket to (trace id, value, Unix seconds): the latest of the delta."""
    last_scored: float = 0.0
    """Unix seconds of the latest entry."""
    max_freshness: float = 0.0
    """The longest time from arrival to score in this delta, seconds."""
    failures: list[str] = []
    """Subject ids of the delta's latest entries that did not pass, newest last; at most 3."""
    scorer: str = ""
    """Version and prompt digest of the scorer of the delta's latest scored entry."""


class Tally(msgspec.Struct):
    """A delta from an assembler: turns seen per app, environment and minute."""

    app: str
    environment: str
    minute: int
    turns: int = 0
    """Eligible turns: those after head sampling."""
    sampled_out: int = 0


class RollupBatch(msgspec.Struct):
    """One record of the topic `assay.rollups`."""

    rollups: list[Rollup] = []
    tallies: list[Tally] = []


def turn_id_of(trace_id: str, ordinal: int) -> str:
    """The id of the turn at `ordinal` (from 0) of a trace."""
    return f"{trace_id}-{ordinal}"


def score_id_of(
    subject_id: str,
    revision: int,
    metric: str,
    subject: str,
    engine: str,
    prompt_digest: str,
    scorer_version: str,
    run: str,
) -> str:
    """A deterministic id: the same scorer on the same subject in the same run gives the same id."""
    identity = (
        f"{subject_id}\x1f{revision}\x1f{metric}\x1f{subject}\x1f{engine}\x1f{prompt_digest}"
        f"\x1f{scorer_version}\x1f{run}"
    )
    return hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()


encode = msgspec.json.Encoder().encode
decode_turn = msgspec.json.Decoder(Turn).decode
decode_turn_scores = msgspec.json.Decoder(TurnScores).decode
decode_rollups = msgspec.json.Decoder(RollupBatch).decode
