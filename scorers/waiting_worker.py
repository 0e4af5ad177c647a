"""The consumer group of users' own scorers that wait: async functions which no judge answers.

They run in the event loop as a group of their own, so that a slow service behind one holds no other
metric up: so many turns at a time, each scorer for so long at most.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry

from assay.bus.contract import Bus, Consumer, Outgoing, Record
from assay.bus.topics import SCORES, TURNS
from assay.catalogue import CASCADE
from assay.records import decode_turn, encode
from assay.stage import later_schema
from scorers.plan import Plan
from scorers.scoring import to_score, turn_scores, waited
from scorers.scoring_stage import HEADERS, ScoringStage

GROUP = "waiting"
AT_ONCE = 64
"""Turns that are scored at the same time."""
POLL = 0.5
_JUDGED = ("judge", CASCADE)


def waiting_part(plan: Plan) -> Plan:
    """The entries that wait, and not for a judge."""
    return plan.part(lambda entry: entry.waits and entry.scorer.engine not in _JUDGED)


class WaitingWorker(ScoringStage):
    """A member of the group."""

    def __init__(self, bus: Bus, plan: Plan, registry: CollectorRegistry) -> None:
        super().__init__(bus, registry, group=GROUP, topics=(TURNS,), what=f"scoring ({GROUP})")
        self._plan = waiting_part(plan)

    async def _step(self, consumer: Consumer) -> None:
        self._raise_lost()
        room = AT_ONCE - len(self._under_way)
        if room > 0:
            records = await consumer.poll(max_records=room, timeout=POLL)
            for record in records:
                self._begin(record.partition, self._finish(consumer, record))
        else:
            await asyncio.wait(self._under_way, timeout=POLL, return_when="FIRST_COMPLETED")
        self._heartbeat.turned()
        if not self._under_way:
            self._heartbeat.finished()

    async def _finish(self, consumer: Consumer, record: Record) -> None:
        """Score a turn and commit that."""
        output = await self._output(record)
        commit = partial(consumer.commit, outputs=[output], done=[record])
        if await self._committed(consumer, record.partition, commit):
            self._turns.inc()
            self._heartbeat.finished()

    async def _output(self, record: Record) -> Outgoing:
        """The record's TurnScores, or its dead letter."""
        if later_schema(record):
            return self._refused(record, "schema")
        try:
            turn = decode_turn(record.value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._refused(record, "unreadable")
        entries = self._plan.entries(turn.app)
        verdicts = await asyncio.gather(*(waited(turn, entry) for entry in entries))
        scores = tuple(map(partial(to_score, turn, run="live"), entries, verdicts))
        done = turn_scores(turn, scores, group=GROUP, scored_at=time.time_ns(), run="live")
        return Outgoing(SCORES, encode(done), key=record.key, headers=HEADERS)
