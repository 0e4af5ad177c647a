"""A group's progress as the brokers have it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kafka import TopicPartition
from kafka.admin import OffsetSpec

from assay.bus.kafka_options import mapped
from assay.bus.progress import Progress

ANSWER_MS = 60_000
"""In which a transaction of a member before this one must have been ended by the brokers."""

_log = logging.getLogger(__name__)


def committed(
    consumer: Any, admin: Any, places: Sequence[TopicPartition]
) -> dict[TopicPartition, Progress]:
    """What is done of each partition. Waits for commits under way of members before this one.

    A topic that was made anew is read from its beginning, and records that the retention deleted
    count as done.
    """
    progress = {}
    with mapped("reading the group's progress"):
        firsts = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
        ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        for place in places:
            known = consumer.committed(place, metadata=True, timeout_ms=ANSWER_MS)
            first, end = firsts[place].offset, ends[place].offset
            progress[place] = _restored(place, known, first, end)
    return progress


def _restored(place: TopicPartition, known: Any, first: int, end: int) -> Progress:
    where = {"topic": place.topic, "partition": place.partition}
    if known is None or known.offset < 0:
        return Progress(first)
    if known.offset > end:
        _log.warning(
            "the topic was made anew, for more of it was done than it has: read from its start",
            extra=where | {"done": known.offset, "end": end},
        )
        return Progress(first)
    try:
        progress = Progress.restore(known.offset, known.metadata or "")
    except ValueError:
        _log.warning("the done records beyond the offset are not readable", extra=where)
        progress = Progress(known.offset)
    if first > progress.next:
        _log.warning(
            "records were deleted before they were done",
            extra=where | {"count": progress.undone(progress.next, first)},
        )
        progress.gap(progress.next, first)
    return progress
