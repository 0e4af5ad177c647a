"""What the embedded log deletes, and how the disk space comes back. Runs in the writing thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from assay.bus.database import PAGE_SIZE, checkpoint, mapped
from assay.bus.log import Log
from assay.bus.rows import Partition, write_partition, write_progress

logger = logging.getLogger(__name__)

TRIM_ABOVE, TRIM_TO = 0.9, 0.8
"""Shares of the largest size: above the first, what every group has done is deleted down to the
second, oldest first, even where its retention has not passed."""
CHUNK, TRIM_CHUNK = 1024, 64
"""Records deleted in one transaction."""
EXPIRE = 10_000
"""State values deleted in one sweep."""
SECONDS = 0.25
"""One sweep deletes for so long, and gives back for so long, so that writers do not wait long; the
next goes on."""
FREE_SHARE = 0.25
"""Free pages of the file beyond this share go back to the disk; fewer are used again anyway."""
FREE_BYTES = 16 * 2**20
"""As much is always kept for use."""
VACUUM_PAGES = 256
"""Given back in one transaction."""


def sweep(log: Log, max_size: int, idle: Callable[[], bool]) -> None:
    """Delete what is past its retention, trim a log that is nearly full, give free space back.

    `idle` says whether nobody waits for the writing thread.
    """
    now = log.horizon()
    ends = time.monotonic() + SECONDS
    for partition in log.partitions.values():
        since = now - int(partition.topic.retention * 1000)
        stamp = log.reader.oldest(partition)
        if stamp is not None and stamp < since:
            cut = log.reader.seek(partition, since)
            # Times were read without their checksums: the newest to go, once checked, vouches for
            # those before it.
            log.reader.read(partition, cut - 1, max_records=1, max_bytes=1)
            _delete(log, partition, cut, now, ends)
    if log.used > max_size * TRIM_ABOVE:
        _trim(log, int(max_size * TRIM_TO), now, ends)
    _expire(log, now)
    _shrink(log, idle)


def _trim(log: Log, target: int, now: int, ends: float) -> None:
    """Delete the oldest records that every group has done until the log holds `target` bytes."""
    while log.used > target and time.monotonic() < ends:
        oldest: tuple[int, Partition, int] | None = None
        for partition in log.partitions.values():
            done = min(
                (log.progress[group, partition.id].next for group in _groups(log, partition, now)),
                default=partition.next,
            )
            cut = min(done, partition.next, partition.first + TRIM_CHUNK)
            if cut > partition.first:
                stamp = log.reader.oldest(partition) or 0
                if oldest is None or stamp < oldest[0]:
                    oldest = (stamp, partition, cut)
        if oldest is None:
            return
        _delete(log, *oldest[1:], now, ends)


def _delete(log: Log, partition: Partition, cut: int, now: int, ends: float) -> None:
    """Delete the records before offset `cut`; groups that had not done them pass them over."""
    while partition.first < cut and time.monotonic() < ends:
        first = min(cut, partition.first + CHUNK)
        lost = {
            group: log.progress[group, partition.id].undone(partition.first, first)
            for group in _groups(log, partition, now)
        }
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
        _count(log, partition.topic.name, lost)


def _count(log: Log, topic: str, lost: dict[str, int]) -> None:
    for group, count in lost.items():
        if count:
            if not log.lost[topic, group]:
                logger.error(
                    "records of %s passed their retention before group %s had done them",
                    topic,
                    group,
                )
            log.lost[topic, group] += count


def _groups(log: Log, partition: Partition, now: int) -> Iterator[str]:
    """Groups that read the partition: those with a member, or with one within its retention."""
    for (group, id), seen in log.seen.items():
        if id == partition.id and (
            group in log.members or seen > now - int(partition.topic.retention * 1000)
        ):
            yield group


def _expire(log: Log, now: int) -> None:
    """Forget state whose time to live has passed."""
    with mapped(log.path):
        due = log.connection.execute(
            "SELECT name, partition, key FROM state WHERE expires <= ? LIMIT ?", (now, EXPIRE)
        ).fetchall()
    if due:
        with log.transaction() as connection:
            connection.executemany(
                "DELETE FROM state WHERE name = ? AND partition = ? AND key = ?", due
            )


def _shrink(log: Log, idle: Callable[[], bool]) -> None:
    """Give free pages at the file's end back to the disk: a slice, or several while `idle`."""
    keep = max(FREE_BYTES, int(log.used * FREE_SHARE))
    if log.pragma("freelist_count") * PAGE_SIZE <= keep:
        return
    ends = time.monotonic() + SECONDS
    with mapped(log.path):
        while True:
            # As a script: an execute would take the first of the pragma's steps, one page, only.
            log.connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
            free = log.pragma("freelist_count") * PAGE_SIZE
            if free <= keep or not idle() or time.monotonic() > ends:
                break
        checkpoint(log.connection)
