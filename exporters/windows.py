"""The owner's memory: what every series did, by minute and hour and since it was first seen.

    totals    counters and the histogram, for as long as the state lives
    minutes   sums for 65 minutes
    hours     sums for 9 days; those older than a day stay packed
    groups    weights of the 32 conversation groups, 25 hours

It is kept as bus state under short keys, one per kind, time and shard of the series, so that a
commit writes only what changed and no value grows large. Adding up is exact and does not depend on
the order of the deltas.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping

import msgspec

from assay.records import Rollup, SeriesKey, Tally
from exporters.labels import Labels, label_text
from exporters.rollup import Contract
from exporters.tracked import (
    MINUTES_KEPT,
    OPEN_HOURS,
    SHARDS,
    Kept,
    OpenPart,
    Part,
    Series,
    Totals,
)

HOURS_KEPT = 9 * 24


_pack = msgspec.msgpack.Encoder().encode
_unpack_series = msgspec.msgpack.Decoder(list[Kept]).decode
_unpack_parts = msgspec.msgpack.Decoder(dict[int, Part]).decode
_unpack_groups = msgspec.msgpack.Decoder(dict[int, bytes]).decode
_unpack_turns = msgspec.msgpack.Decoder(list[tuple[str, str, int, int]]).decode


class Windows:
    """All series of the stream."""

    def __init__(
        self,
        contract: Contract,
        *,
        max_series: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._contract = contract
        self._max_series = max_series
        self._clock = clock
        self.labels = Labels()
        self.series: dict[SeriesKey, Series] = {}
        self.turns: dict[tuple[str, str], list[int]] = {}
        """Kept and sampled-out turns by app and environment."""
        self._shards: list[list[Series]] = [[] for _ in range(SHARDS)]
        self._archive: dict[tuple[int, int], bytes] = {}
        """Packed hours by (hour, shard)."""
        self._keys: set[str] = set()
        """Of the state, as it was committed last."""
        self._changed: set[str] = set()
        self._minute = 0
        self._number = 0

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Take up what was committed. Raises msgspec.DecodeError when it is not ours."""
        known = [k for key in state if key.startswith("s/") for k in _unpack_series(state[key])]
        # In the order of their first coming, so that sums over series round as they did before.
        for kept in sorted(known, key=lambda kept: kept.number):
            self._insert(kept.number, kept.key, kept.totals)
            self.labels.learn(kept.key)
        numbers = {series.number: series for series in self.series.values()}
        for key, value in state.items():
            kind, _, rest = key.partition("/")
            if kind == "t":
                for app, environment, kept_turns, out in _unpack_turns(value):
                    self.turns[app, environment] = [kept_turns, out]
            elif kind != "s":
                at, shard = map(int, rest.split("/"))
                if kind == "m":
                    for number, part in _unpack_parts(value).items():
                        numbers[number].minutes[at] = OpenPart(part)
                elif kind == "h":
                    self._archive[at, shard] = value
                elif kind == "g":
                    for number, packed in _unpack_groups(value).items():
                        numbers[number].groups[at] = array("d", packed)
        self._keys = set(state)
        newest = max((hour for hour, _ in self._archive), default=0)
        for hour, shard in list(self._archive):
            if hour > newest - OPEN_HOURS:
                self._unarchive(hour, shard)

    def add(self, rollup: Rollup) -> Series:
        """Add a delta; the series that it went to. What claims to be from the future, by a wrong
        clock, counts as of this minute."""
        now = int(self._clock() // 60)
        rollup.minute = min(rollup.minute, now)
        series = self._series(rollup.key)
        for count in rollup.outcomes:
            count.reason = self.labels.admit("reason", label_text(count.reason))
        series.add_totals(rollup)
        series.changes += 1
        series.late += rollup.minute < now
        self._changed.add(f"s/{series.shard}")
        self._add_part(series, rollup)
        return series

    def add_tally(self, tally: Tally) -> tuple[str, str]:
        """Count an assembler's turns; the app and environment under which they are shown."""
        app = self.labels.admit("app", label_text(tally.app))
        environment = self.labels.admit("environment", label_text(tally.environment))
        counts = self.turns.setdefault((app, environment), [0, 0])
        counts[0] += tally.turns - tally.sampled_out
        counts[1] += tally.sampled_out
        self._changed.add("t")
        return app, environment

    def changes(self, minute: int) -> dict[str, bytes | None]:
        """The state's keys that changed since `committed` was last called, with their values;
        none for those that have expired by `minute`."""
        self._advance(minute)
        values: dict[str, bytes | None] = {key: self._value(key) for key in self._changed}
        for key in self._keys:
            if self._expired(key):
                values[key] = None
        return {k: v for k, v in values.items() if v is not None or k in self._keys}

    def committed(self, changes: Mapping[str, bytes | None]) -> None:
        """`changes` have been made durable."""
        self._changed.clear()
        for key, value in changes.items():
            if value is None:
                self._keys.discard(key)
            else:
                self._keys.add(key)

    def hour_sums(self, hour: int) -> Iterator[tuple[SeriesKey, Part]]:
        """The sums of any kept hour (hours since the Unix epoch), open or packed."""
        for shard, members in enumerate(self._shards):
            packed = self._archive.get((hour, shard))
            parts = _unpack_parts(packed) if packed is not None else {}
            for series in members:
                if series.number in parts:
                    yield series.key, parts[series.number]
                elif hour in series.hours:
                    yield series.key, series.hours[hour].packed()

    # Where a delta goes.

    def _series(self, key: SeriesKey) -> Series:
        found = self.series.get(key)
        if found is not None:
            return found
        key = self.labels.admit_key(key)
        if key not in self.series and len(self.series) >= self._max_series:
            key = self.labels.fold_key(key, self.series)
        found = self.series.get(key)
        if found is None:
            self._number += 1
            found = self._insert(self._number, key, Totals())
        return found

    def _insert(self, number: int, key: SeriesKey, totals: Totals) -> Series:
        series = self.series[key] = Series(number, key, totals, self._contract)
        self._shards[series.shard].append(series)
        self._number = max(self._number, number)
        return series

    def _add_part(self, series: Series, rollup: Rollup) -> None:
        minute, hour, shard = rollup.minute, rollup.minute // 60, series.shard
        self._advance(minute)
        buckets = bool(series.levels)
        if minute > self._minute - MINUTES_KEPT:
            series.minutes.setdefault(minute, OpenPart()).add(rollup, buckets=buckets)
            self._changed.add(f"m/{minute}/{shard}")
        if hour > self._minute // 60 - HOURS_KEPT:
            if (hour, shard) in self._archive:
                self._unarchive(hour, shard)
            series.hours.setdefault(hour, OpenPart()).add(rollup, buckets=buckets)
            self._changed.add(f"h/{hour}/{shard}")
        if rollup.groups and hour > self._minute // 60 - OPEN_HOURS:
            series.add_groups(hour, rollup.groups)
            self._changed.add(f"g/{hour}/{shard}")

    # Time and packing.

    def _advance(self, minute: int) -> None:
        """The newest minute is at least `minute`: pack and forget what has become old."""
        if minute <= self._minute:
            return
        self._minute = minute
        for series in self.series.values():
            series.forget(minute)
        oldest = minute // 60 - OPEN_HOURS
        for shard, members in enumerate(self._shards):
            for hour in {h for series in members for h in series.hours if h <= oldest}:
                self._archive[hour, shard] = _pack(self._parts(shard, hour))
                for series in members:
                    series.hours.pop(hour, None)
        for key in [k for k in self._archive if k[0] <= minute // 60 - HOURS_KEPT]:
            del self._archive[key]

    def _unarchive(self, hour: int, shard: int) -> None:
        parts = _unpack_parts(self._archive.pop((hour, shard)))
        for series in self._shards[shard]:
            if series.number in parts:
                series.hours[hour] = OpenPart(parts[series.number])

    def _parts(self, shard: int, hour: int) -> dict[int, Part]:
        members = self._shards[shard]
        return {s.number: s.hours[hour].packed() for s in members if hour in s.hours}

    def _value(self, key: str) -> bytes | None:
        """The value of a state key as of now; none when there is nothing under it any more."""
        kind, _, rest = key.partition("/")
        if kind == "t":
            return _pack([(a, e, k, o) for (a, e), (k, o) in self.turns.items()])
        if kind == "s":
            return _pack([series.kept() for series in self._shards[int(rest)]])
        at, shard = map(int, rest.split("/"))
        members = self._shards[shard]
        if kind == "m":
            minutes = {s.number: s.minutes[at].packed() for s in members if at in s.minutes}
            return _pack(minutes) if minutes else None
        if kind == "g":
            groups = {s.number: s.groups[at].tobytes() for s in members if at in s.groups}
            return _pack(groups) if groups else None
        return self._archive.get((at, shard)) or _pack(self._parts(shard, at))

    def _expired(self, key: str) -> bool:
        kind, _, rest = key.partition("/")
        if kind not in ("m", "h", "g"):
            return False
        at = int(rest.partition("/")[0])
        if kind == "m":
            return at <= self._minute - MINUTES_KEPT
        return at <= self._minute // 60 - (HOURS_KEPT if kind == "h" else OPEN_HOURS)
