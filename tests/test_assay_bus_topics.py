from __future__ import annotations

import pytest

from assay.bus.topics import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafka(key, expected):
    """The hash gives the values of Kafka's own unit test, with the sign bit cleared."""
    assert murmur2(key) == expected & 0x7FFFFFFF


def test_partitions_are_used_evenly():
    """Random keys spread over all partitions."""
    counts = [0] * 4
    for n in range(4000):
        counts[partition_of(n.to_bytes(16, "big"), 4)] += 1
    assert min(counts) > 800
