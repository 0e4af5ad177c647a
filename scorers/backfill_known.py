"""Which entries of a plan a turn has scores of already, so that nothing is asked or paid twice.

An entry is known of a turn when the store has a row of the same metric, subject, engine and scorer
version (and prompt, where that is known beforehand) that says something final. Of the run itself
every row counts, so that a resumed run goes on where its last commit ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.store import Store
from scorers.backfill_source import date_text, text
from scorers.plan import Entry, Key, Plan

FINAL = ("scored", "skipped", "not_applicable", "overflow")
"""Outcomes that another try by the same scorer would only repeat."""

KnownKeys = dict[str, frozenset[Key]]
"""By turn id; a turn that nothing is known of is not in it. Scores of a conversation are known of
its last turn."""


def missing(plan: Plan, app: str, known: KnownKeys, turn_id: str) -> list[Entry]:
    """The entries of which a turn, or the conversation that it ended, has no score."""
    there = known.get(turn_id, frozenset())
    return [entry for entry in plan.entries(app) if entry.key not in there]


class Known:
    """Looks up scores of one day."""

    def __init__(
        self,
        store: Store,
        entries: Iterable[tuple[Entry, frozenset[str]]],
        run_id: str,
        *,
        rescore: bool,
    ) -> None:
        """`entries` with the digests of the prompts that they may use; none: any."""
        self._store = store
        self._keys: list[Key] = []
        rows = []
        for entry, digests in entries:
            if entry.key in self._keys:
                continue
            rows += [
                f"({len(self._keys)}, {text(entry.metric.name)}, {text(entry.metric.subject)}, "
                f"{text(entry.engine)}, {text(entry.scorer.version)}, {text(digest)})"
                for digest in sorted(digests) or ["*"]
            ]
            self._keys.append(entry.key)
        final = ", ".join(map(text, FINAL))
        mine = f"s.run = {text(run_id)}"
        self._which = mine if rescore else f"({mine} OR s.outcome IN ({final}))"
        self._values = ", ".join(rows)

    async def of_day(self, day: int) -> KnownKeys:
        """What is known of the day's turns."""
        if not self._keys:
            return {}
        sql = (
            "SELECT s.turn_id, array_agg(DISTINCT k.i) AS found FROM scores s "  # noqa: S608
            f"JOIN (VALUES {self._values}) AS k(i, metric, subject, engine, version, digest) "
            "ON s.metric = k.metric AND s.subject = k.subject AND s.engine = k.engine "
            "AND s.scorer_version = k.version "
            "WHERE (k.digest = '*' OR k.digest = s.prompt_digest) "
            f"AND s.date = {date_text(day)} AND {self._which} GROUP BY s.turn_id"
        )
        found: KnownKeys = {}
        shared: dict[tuple[int, ...], frozenset[Key]] = {}
        async for rows in self._store.stream(sql):
            for row in rows:
                which = tuple(sorted(row["found"]))
                known = shared.get(which)
                if known is None:
                    known = shared[which] = frozenset(self._keys[index] for index in which)
                found[row["turn_id"]] = known
        return found

    async def stored_turns(self, day: int) -> set[str]:
        """Ids of the turns of a day that are rows of the store."""
        found: set[str] = set()
        sql = f"SELECT turn_id FROM turns WHERE date = {date_text(day)}"  # noqa: S608
        async for rows in self._store.stream(sql):
            found.update(row["turn_id"] for row in rows)
        return found
