"""What cannot be processed: kept as it came, with the reason and where it stood."""

from __future__ import annotations

from assay.bus.contract import Outgoing, Record
from assay.bus.topics import DEAD_LETTER


def dead_letter(record: Record, *, stage: str, reason: str) -> Outgoing:
    """`record` for the dead-letter topic. `reason` is from the stage's closed vocabulary; the
    record's own headers stay, prefixed by `original-`."""
    headers = {f"original-{name}": value for name, value in record.headers.items()}
    headers |= {
        "stage": stage,
        "reason": reason,
        "origin": f"{record.topic}/{record.partition}/{record.offset}",
    }
    return Outgoing(DEAD_LETTER, record.value, key=record.key, partition=0, headers=headers)
