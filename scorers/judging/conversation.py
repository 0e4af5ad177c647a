"""Whole conversations: what is gathered of one, and how it is judged.

Metrics with a form for turns are asked turn by turn; the conversation's value is the mean of the
turns that were scored, for harms the maximum, and `details` holds the values per turn. When more
turns ended in an error than in a value, so does the conversation. `customer_satisfaction` is asked
once, of the whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Sequence

import msgspec

from assay.catalogue import HARMS
from assay.records import Turn, TurnScores
from assay.sampling import conversation_draw
from scorers.judge import LATE, Judge
from scorers.judging.asking import Tally, failure
from scorers.judging.evidence import conversation_of
from scorers.plan import Entry, Plan
from scorers.scorer import Verdict
from scorers.scoring import to_score, turn_scores

GROUP = "conversation"

MAX_TURNS = 200
MAX_BYTES = 1_000_000
FIRST_TURNS = 50
"""Turns at the beginning that are never cut."""
_HARMLESS = ("scored", "skipped", "not_applicable", "filtered")
WORST = (*HARMS, "content_safety")
"""Metrics whose conversation's value is the maximum."""


class Window(msgspec.Struct):
    """What is known of a conversation, without its turns."""

    app: str
    conversation_id: str
    first_at: int = 0
    """Milliseconds, by the bus's clock: the first turn since the last judgement."""
    last_at: int = 0
    next: int = 0
    """Number of the next turn."""
    revision: int = 0
    open: bool = True
    """Turns came since the last judgement."""
    cut: int = 0
    """Turns left out from the middle."""


class Gathered:
    """A window with its turns, as records: bounded in number and bytes."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.first: list[tuple[int, bytes]] = []
        self.latest: deque[tuple[int, bytes]] = deque()
        self.size = 0
        self.judging = False

    def add(self, value: bytes, at: int) -> list[int]:
        """Take one more turn, that arrived at `at`; gives the numbers of turns that were cut."""
        window = self.window
        if not window.open or window.next == 0:
            window.open, window.first_at = True, at
        window.last_at = max(window.last_at, at)
        self.restore(window.next, value)
        window.next += 1
        dropped = []
        while self.latest and (self.size > MAX_BYTES or len(self) > MAX_TURNS):
            if len(self.latest) == 1:
                break
            number, old = self.latest.popleft()
            self.size -= len(old)
            dropped.append(number)
        window.cut += len(dropped)
        return dropped

    def restore(self, number: int, value: bytes) -> None:
        """Put back a turn; turns come in order of their numbers."""
        if len(self.first) < FIRST_TURNS and not self.latest and self.size < MAX_BYTES // 4:
            self.first.append((number, value))
        else:
            self.latest.append((number, value))
        self.size += len(value)

    def values(self) -> list[bytes]:
        """The turns kept, in order."""
        return [value for _, value in (*self.first, *self.latest)]

    def __len__(self) -> int:
        return len(self.first) + len(self.latest)


def key_of(app: str, conversation_id: str) -> str:
    """A short key of a conversation."""
    return hashlib.blake2b(f"{app}\x1f{conversation_id}".encode(), digest_size=12).hexdigest()


class Conversations:
    """Scores whole conversations by the judge's entries of a plan."""

    def __init__(
        self, plan: Plan, judge: Judge, probability: float, *, patience: float | None = None
    ) -> None:
        """`probability` is that with which a conversation was sampled; an entry that has not
        answered within `patience` seconds is `late`."""
        self.plan = plan
        self._judge = judge
        self._probability = probability
        self._patience = patience

    def draws(self, last: Turn, entry: Entry) -> bool:
        """Whether the conversation that `last` ends is in the entry's sample."""
        draw = conversation_draw(last.app, last.conversation_id or last.turn_id)
        return draw < self._probability * entry.ratio

    async def scores(
        self,
        turns: Sequence[Turn],
        entries: Sequence[Entry],
        *,
        run: str,
        revision: int = 0,
        cut: int = 0,
    ) -> TurnScores:
        """A Score for each of `entries` on the conversation of `turns`, which are in order of
        time; `cut` of them were left out. Never raises for what they hold."""
        last = turns[-1]
        conversation_id = last.conversation_id or last.turn_id
        whole = msgspec.structs.replace(
            last,
            turn_id=conversation_id,
            draw=conversation_draw(last.app, conversation_id),
            inclusion_probability=self._probability,
        )
        verdicts = await asyncio.gather(*(self._verdict(whole, e, turns, cut) for e in entries))
        scores = tuple(
            to_score(whole, entry, verdict, run=run, revision=revision)
            for entry, verdict in zip(entries, verdicts, strict=True)
        )
        found = turn_scores(whole, scores, group=GROUP, scored_at=time.time_ns(), run=run)
        return msgspec.structs.replace(found, turn_id=last.turn_id, revision=revision)

    async def _verdict(self, whole: Turn, entry: Entry, turns: Sequence[Turn], cut: int) -> Verdict:
        if not self.draws(turns[-1], entry):
            return Verdict(outcome="sampled_out")
        try:
            if entry.when is not None and not entry.when(turns[-1]):
                return Verdict(outcome="filtered")
            async with asyncio.timeout(self._patience):
                verdict = await self._asked(entry, turns)
        except TimeoutError:
            return LATE
        except Exception as error:  # noqa: BLE001 - a fault is an outcome, and names no content
            return failure(error)
        if cut and verdict.outcome == "scored":
            details = verdict.details | {"turns_left_out": cut}
            return msgspec.structs.replace(verdict, details=details)
        return verdict

    async def _asked(self, entry: Entry, turns: Sequence[Turn]) -> Verdict:
        judge = self._judge
        question = judge.question(entry)
        if question is not None and question.subject == "conversation":
            evidence = {"conversation": conversation_of(turns, limit_bytes=MAX_BYTES)}
            return await judge.answer_evidence(question, evidence, turns[-1])
        # The conversation was drawn as a whole: no turn of it is sampled out by its own draw.
        drawn = [msgspec.structs.replace(turn, draw=0.0) for turn in turns]
        found = await asyncio.gather(*(judge.verdicts(turn, [entry]) for turn in drawn))
        return combined([verdicts[0] for verdicts in found], entry.metric.name)


def combined(verdicts: Sequence[Verdict], metric: str) -> Verdict:
    """One verdict from those of the turns."""
    tally = Tally()
    for verdict in verdicts:
        if verdict.judge_usage is not None:
            tally.add(verdict.judge_usage, verdict.judge_latency or 0.0)
    scored = [v for v in verdicts if v.outcome == "scored" and v.value is not None]
    errors = [v for v in verdicts if v.outcome not in _HARMLESS]
    common = {
        "prompt_digest": next((v.prompt_digest for v in verdicts if v.prompt_digest), ""),
        "judge_usage": tally.usage,
        "judge_latency": tally.seconds,
    }
    if not scored or len(errors) > len(scored):
        failed = (errors or list(verdicts))[0]
        return Verdict(outcome=failed.outcome, outcome_reason=failed.outcome_reason, **common)  # type: ignore[arg-type]
    values = [v.value for v in scored if v.value is not None]
    value = max(values) if metric in WORST else sum(values) / len(values)
    worst = min(scored, key=lambda v: abs((v.value or 0.0) - value))
    return Verdict(
        value=value,
        reason=worst.reason,
        details={
            "turns": [v.value if v.outcome == "scored" else v.outcome for v in verdicts],
            "rule": "maximum" if metric in WORST else "mean",
        },
        **common,  # type: ignore[arg-type]
    )
