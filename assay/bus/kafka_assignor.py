"""Who reads which partition: by number over all topics of the group, moving as little as may be.

The partitions of one number of every topic go to one member together. Rebalances are cooperative:
what moves is first given up by its owner and given out in the rebalance after that, so that all
that does not move is read on meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)


def share_out(partitions: int, owned: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The numbers that each member is to have at once: `owned` is what each has.

    Numbers differ by at most one between members when all is settled. A number that must move from
    a member that has it is given to nobody yet.
    """
    members = sorted(owned)
    claims: dict[int, list[str]] = {}
    for member in members:
        for number in owned[member]:
            claims.setdefault(number, []).append(member)
    # A number claimed twice was taken from one of them unknowingly: nobody may keep it.
    holder = {number: who[0] for number, who in claims.items() if len(who) == 1}
    kept = {
        member: sorted(n for n, who in holder.items() if who == member and n < partitions)
        for member in members
    }
    low, extra = divmod(partitions, len(members))
    by_size = sorted(members, key=lambda member: (-len(kept[member]), member))
    target = {member: low + (index < extra) for index, member in enumerate(by_size)}
    free = [number for number in range(partitions) if number not in claims]
    result = {}
    for member in members:
        result[member] = kept[member][: target[member]]
    for member in members:
        while free and len(result[member]) < target[member]:
            result[member].append(free.pop(0))
    return {member: sorted(numbers) for member, numbers in result.items()}


class ByNumber(AbstractPartitionAssignor):  # type: ignore[misc]
    """The assignor of every group. One instance a member: it remembers what the member has."""

    name = "assay-by-number"
    version = 1

    def __init__(self) -> None:
        self._owned: list[tuple[str, list[int]]] = []

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: set[str]) -> Any:
        owned = ConsumerProtocolSubscription.TopicPartition
        return ConsumerProtocolSubscription(
            version=self.version,
            topics=sorted(topics),
            user_data=b"",
            owned_partitions=[owned(topic=t, partitions=numbers) for t, numbers in self._owned],
        )

    def assign(self, cluster: Any, members: Any) -> dict[str, Any]:
        topics = sorted({topic for member in members for topic in member.metadata.topics})
        partitions = min(len(cluster.partitions_for_topic(topic) or ()) for topic in topics)
        owned = {
            member.member_id: sorted(
                {n for tp in member.metadata.owned_partitions or () for n in tp.partitions}
            )
            for member in members
        }
        return {
            member: ConsumerProtocolAssignment(
                self.version, [(topic, numbers) for topic in topics] if numbers else [], b""
            )
            for member, numbers in share_out(partitions, owned).items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        del generation
        by_topic: dict[str, list[int]] = {}
        for topic, number in assignment.partitions():
            by_topic.setdefault(topic, []).append(number)
        self._owned = sorted(by_topic.items())

    def forget(self) -> None:
        """The member was thrown out: it has nothing any more."""
        self._owned = []
