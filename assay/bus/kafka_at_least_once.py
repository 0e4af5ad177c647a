"""Outputs and state, then offsets: what stands in for a transaction where the brokers have none.

What a member wrote and did not get to mark as done is done again by the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kafka import KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from assay.bus.kafka_options import RETRY_AFTER, Clients, build, mapped, ours
from assay.bus.kafka_transactions import BLOCK, TIMEOUT, Intent, Transactions, Unclear
from assay.errors import Permanent, Retryable

REBALANCE_WAIT = 0.2
"""Seconds between attempts to commit offsets while the group is being shared out anew."""


class AtLeastOnce(Transactions):
    """As `Transactions`, with a producer that has none. After a failure part may have been written;
    Unclear means that the offsets may not have been."""

    def __init__(
        self,
        clients: Clients,
        commit_offsets: Callable[[Mapping[TopicPartition, OffsetAndMetadata], float], None],
    ) -> None:
        """`commit_offsets` takes the seconds that it may take, and is called in our thread."""
        super().__init__(clients, "")
        self._commit_offsets = commit_offsets

    def _open(self) -> None:
        with mapped("opening the producer"):
            options = self._clients.producer(
                delivery_timeout_ms=int(TIMEOUT * 1000),
                max_block_ms=int(BLOCK * 1000),
                linger_ms=0,
            )
            self._producer = build(KafkaProducer, options)

    def _commit(self, intent: Callable[[], Intent]) -> None:
        if self._producer is None:
            self._open()
        wanted = intent()
        try:
            self._confirm(self._send(wanted))
        except (kafka_errors.KafkaError, OSError, RuntimeError, ValueError, TypeError) as error:
            self._drop()
            mine = ours(error, "committing")
            if isinstance(mine, Permanent):
                raise mine from error
            raise Retryable(str(mine), RETRY_AFTER) from error
        deadline = time.monotonic() + TIMEOUT
        while wanted.offsets:
            left = deadline - time.monotonic()
            try:
                self._commit_offsets(wanted.offsets, max(left, REBALANCE_WAIT))
                break
            except kafka_errors.RebalanceInProgressError as error:
                if left <= 0:
                    raise Unclear from error
                time.sleep(REBALANCE_WAIT)
            except (kafka_errors.KafkaError, OSError, RuntimeError) as error:
                raise Unclear from error
