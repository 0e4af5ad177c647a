"""The topics of the stream, and which partition a key belongs to."""

from __future__ import annotations

import struct

from assay.bus.contract import Topic

SPANS = "assay.spans"
TURNS = "assay.turns"
SCORES = "assay.scores"
ROLLUPS = "assay.rollups"
DEAD_LETTER = "assay.dead-letter"
BACKFILL = "assay.backfill"
BACKFILL_SCORES = "assay.backfill-scores"
ASSEMBLY_STATE = "assay.assembly"
WINDOWS_STATE = "assay.windows"

_STATE = {"assembler": ASSEMBLY_STATE, "windows": WINDOWS_STATE}

EMBEDDED_PARTITIONS = 4
HOUR = 3600.0


def topics(
    *,
    partitions: int = EMBEDDED_PARTITIONS,
    spans_retention: float = 6 * HOUR,
    turns_retention: float = 72 * HOUR,
    scores_retention: float = 72 * HOUR,
) -> tuple[Topic, ...]:
    """Every topic of the stream."""
    return (
        Topic(name=SPANS, partitions=partitions, retention=spans_retention),
        Topic(name=TURNS, partitions=partitions, retention=turns_retention),
        Topic(name=SCORES, partitions=partitions, retention=scores_retention),
        Topic(name=ROLLUPS, partitions=1, retention=2 * HOUR),
        Topic(name=DEAD_LETTER, partitions=1, retention=spans_retention),
    )


def backfill_topics(partitions: int) -> tuple[Topic, ...]:
    """What a backfill asks of the scorer fleet, and is answered: nobody needs it afterwards."""
    return (
        Topic(name=BACKFILL, partitions=partitions, retention=24 * HOUR),
        Topic(name=BACKFILL_SCORES, partitions=partitions, retention=2 * HOUR),
    )


READERS = {
    SPANS: ("assembler",),
    TURNS: ("local", "judge", "conversation", "store"),
    SCORES: ("combiner", "store"),
    ROLLUPS: ("windows",),
    BACKFILL: ("backfill",),
}
"""The groups that read each topic, as far as they are in use."""


def state_topic(group: str) -> str:
    """Where a group keeps its state on a bus that keeps it in topics."""
    return _STATE.get(group, f"assay.{group}-state")


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 hash of `data`, 32 bits, sign bit cleared as its default partitioner does."""
    length = len(data)
    mask = 0xFFFFFFFF
    m = 0x5BD1E995
    h = (0x9747B28C ^ length) & mask
    whole = length & ~3
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = (k * m) & mask
        h = (h * m ^ (k ^ k >> 24) * m) & mask
    rest = data[whole:]
    if rest:
        h ^= int.from_bytes(rest, "little")
        h = (h * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    h ^= h >> 15
    return h & 0x7FFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of `key` among `partitions`."""
    return murmur2(key) % partitions
