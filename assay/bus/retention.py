"""What the embedded log deletes, and how the disk space comes back. Runs in the writing thread."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

from assay.bus.database import PAGE_SIZE, checkpoint, mapped
from assay.bus.log import Log
from assay.bus.rows import Partition, write_partition, write_progress

logger = logging.getLogger(__name__)

TRIM_ABOVE, TRIM_TO = 0.9, 0.8
"""Shares of the largest size: above the first, what every group has done is deleted down to the
second, oldest first, even where its retention has not passed."""
CHUNK = 256
"""Records deleted in one transaction, so that writers do not wait long."""
FREE_SHARE = 0.25
"""Free pages of the file beyond this share go back to the disk; fewer are used again anyway."""
FREE_BYTES = 16 * 2**20
"""As much is always kept for use."""
VACUUM_BYTES = 32 * 2**20
"""Given back in one transaction."""


def sweep(log: Log, max_size: int) -> None:
    """Delete what is past its retention, trim a log that is nearly full, give free space back."""
    now = log.horizon()
    for partition in log.partitions.values():
        since = now - int(partition.topic.retention * 1000)
        stamp = log.reader.oldest(partition)
        if stamp is not None and stamp < since:
            cut = log.reader.seek(partition, since)
            # Times were read without their checksums: the newest to go, once checked, vouches for
            # those before it.
            log.reader.read(partition, cut - 1, max_records=1, max_bytes=1)
            _count_lost(log, partition, cut, now)
            _delete(log, partition, cut)
    if log.used > max_size * TRIM_ABOVE:
        _trim(log, int(max_size * TRIM_TO))
    _expire(log, now)
    _shrink(log)


def _groups(log: Log, partition: Partition, now: int) -> Iterator[str]:
    """Groups that read the partition: those with a member, or with one within its retention."""
    for (group, id), seen in log.seen.items():
        if id == partition.id and (
            group in log.members or seen > now - int(partition.topic.retention * 1000)
        ):
            yield group


def _count_lost(log: Log, partition: Partition, cut: int, now: int) -> None:
    for group in _groups(log, partition, now):
        lost = log.progress[group, partition.id].undone(partition.first, cut)
        if lost:
            key = (partition.topic.name, group)
            if not log.lost[key]:
                logger.error(
                    "records of %s passed their retention before group %s had read them",
                    *key,
                )
            log.lost[key] += lost


def _trim(log: Log, target: int) -> None:
    """Delete the oldest records that every group has done until the log holds `target` bytes."""
    now = log.horizon()
    while log.used > target:
        oldest: tuple[int, Partition, int] | None = None
        for partition in log.partitions.values():
            done = min(
                (log.progress[group, partition.id].next for group in _groups(log, partition, now)),
                default=partition.next,
            )
            cut = min(done, partition.next, partition.first + CHUNK)
            if cut > partition.first:
                stamp = log.reader.oldest(partition) or 0
                if oldest is None or stamp < oldest[0]:
                    oldest = (stamp, partition, cut)
        if oldest is None:
            return
        _delete(log, *oldest[1:])


def _delete(log: Log, partition: Partition, cut: int) -> None:
    """Delete the records before offset `cut`; groups that had not done them pass them over."""
    while partition.first < cut:
        first = min(cut, partition.first + CHUNK)
        progress = {}
        for (group, id), value in log.progress.items():
            if id == partition.id and value.next < first:
                progress[group, id] = value.copy()
                progress[group, id].gap(0, first)
        with log.transaction() as connection:
            connection.execute(
                "DELETE FROM records WHERE id >= ? AND id < ?",
                (partition.base + partition.first, partition.base + first),
            )
            write_partition(connection, partition, first, partition.next, partition.timestamp)
            write_progress(connection, progress, log.seen)
        partition.first = first
        log.progress.update(progress)
        log.settle()


def _expire(log: Log, now: int) -> None:
    """Forget state whose time to live has passed."""
    with mapped(log.path), closing(log.connection.cursor()) as cursor:
        due = cursor.execute("SELECT 1 FROM state WHERE expires <= ?", (now,)).fetchone()
    if due is not None:
        with log.transaction() as connection:
            connection.execute("DELETE FROM state WHERE expires <= ?", (now,))


def _shrink(log: Log) -> None:
    """Give free pages at the file's end back to the disk."""
    free = log.pragma("freelist_count") * PAGE_SIZE
    keep = max(FREE_BYTES, int(log.used * FREE_SHARE))
    if free > keep:
        pages = min(free - keep, VACUUM_BYTES) // PAGE_SIZE
        with mapped(log.path):
            # As a script: an execute would take the first of the pragma's steps, one page, only.
            log.connection.executescript(f"PRAGMA incremental_vacuum({pages})")
            checkpoint(log.connection)
        log.settle()
