"""Crashes and damage, on real processes and real files."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from bus_contract import TOPICS, drain

from assay.bus.contract import Outgoing, StateChange
from assay.bus.database import PAGE_SIZE
from assay.bus.embedded import EmbeddedBus
from assay.errors import Permanent, Retryable

CHILD = """
import asyncio, os, random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from bus_contract import TOPICS
from assay.bus.contract import Outgoing, StateChange
from assay.bus.embedded import EmbeddedBus

async def main(folder, start):
    bus = EmbeddedBus(folder, TOPICS)
    await bus.start()
    seen = {}

    async def assigned(partition, state):
        seen[partition] = int(state.get("count", b"0"))

    consumer = bus.consumer("g", ["in"], on_assigned=assigned)
    await consumer.start()
    numbers = iter(range(start, start + 10**6))

    async def publish():
        while True:
            mine = [next(numbers) for _ in range(random.randint(1, 5))]
            await bus.publish([Outgoing("in", b"%d" % n, key=b"%d" % n) for n in mine])
            os.write(1, b"".join(b"%d\\n" % n for n in mine))

    async def transform(record):
        await asyncio.sleep(random.random() / 20)
        seen[record.partition] += 1
        count = StateChange(record.partition, "count", b"%d" % seen[record.partition])
        await consumer.commit(
            outputs=[Outgoing("out", record.value, partition=record.partition)],
            done=[record],
            state=[count],
        )

    async def consume():
        running = set()
        while True:
            for record in await consumer.poll(timeout=0.1):
                task = asyncio.create_task(transform(record))
                running.add(task)
                task.add_done_callback(running.discard)

    await asyncio.gather(publish(), publish(), consume())

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def run_and_kill(folder: Path, start: int, seconds: float) -> list[int]:
    """Numbers that the child was told are durable before it was killed."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(start), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return [int(line) for line in (first + rest).split(b"\n")[:-1]]


async def test_killed_process_loses_and_doubles_nothing(tmp_path):
    """Through kills at random each confirmed record is transformed exactly once."""
    seed = int(os.environ.get("ASSAY_TEST_SEED", random.randrange(10**6)))
    chance = random.Random(seed)
    confirmed: list[int] = []
    for run in range(4):
        confirmed += await asyncio.to_thread(
            run_and_kill, tmp_path, run * 10**6, chance.uniform(0.05, 0.8)
        )
    counts = {}

    async def assigned(partition, state):
        counts[partition] = int(state.get("count", b"0"))

    async def transformed(bus):
        return [(record.partition, record.value) async for record in bus.read("out")]

    bus = EmbeddedBus(tmp_path, TOPICS)
    await bus.start()
    before = await transformed(bus)
    consumer = bus.consumer("g", ["in"], on_assigned=assigned)
    await consumer.start()
    for record in await drain(consumer):
        outputs = [Outgoing("out", record.value, partition=record.partition)]
        await consumer.commit(outputs=outputs, done=[record])
    outputs = Counter(int(value) for _, value in await transformed(bus))
    await consumer.stop()
    await bus.stop()
    print(f"seed {seed}: {len(confirmed)} confirmed, {len(outputs)} transformed")
    assert set(outputs.values()) == {1}
    assert set(confirmed) <= set(outputs)
    per_partition = Counter(partition for partition, _ in before)
    # A count is taken before its commit, so a later commit may carry those of killed ones too.
    assert all(counts[partition] >= n for partition, n in per_partition.items())


async def live_copy(folder: Path, to: Path, *, batches: int) -> None:
    """The files as a crash would leave them after `batches` confirmed publishes."""
    bus = EmbeddedBus(folder, TOPICS)
    await bus.start()
    consumer = bus.consumer("g", ["in"])
    await consumer.start()
    for n in range(batches):
        await bus.publish([Outgoing("in", b"%d" % n * 500, partition=0)])
    records = await drain(consumer)
    await consumer.commit(done=records[: batches // 2], state=[StateChange(0, "k", b"v" * 100)])
    shutil.copytree(folder, to)
    await consumer.stop()
    await bus.stop()


def expected(batches: int) -> list[bytes]:
    return [b"%d" % n * 500 for n in range(batches)]


async def contents(folder: Path) -> tuple[list[bytes], list[bytes], dict[str, bytes]]:
    """All values, the values still to be done, and the state."""
    states: dict[int, dict[str, bytes]] = {}

    async def assigned(partition, state):
        states[partition] = dict(state)

    bus = EmbeddedBus(folder, TOPICS)
    await bus.start()
    try:
        values = [record.value async for record in bus.read("in")]
        consumer = bus.consumer("g", ["in"], on_assigned=assigned)
        await consumer.start()
        left = [record.value for record in await drain(consumer)]
        await consumer.stop()
    finally:
        await bus.stop()
    return values, left, states[0]


@pytest.mark.parametrize("tail", [b"", b"\0" * 40_000, os.urandom(50_000), None])
async def test_loss_of_unsynced_pages_loses_nothing_confirmed(tmp_path, tail):
    """What a crash of the machine leaves behind the last sync, torn or missing, does no harm."""
    copy = tmp_path / "copy"
    await live_copy(tmp_path / "data", copy, batches=20)
    wal = copy / "bus.sqlite-wal"
    if tail is None:  # a whole frame of a transaction that has no end
        tail = wal.read_bytes()[-PAGE_SIZE - 24 :]
    with wal.open("ab") as file:
        file.write(tail)
    (copy / "bus.sqlite-shm").unlink()
    assert await contents(copy) == (expected(20), expected(20)[10:], {"k": b"v" * 100})


@pytest.mark.parametrize("what", ["cut", "gone", "flipped"])
async def test_loss_of_confirmed_pages_is_recognised(tmp_path, what):
    """A write-ahead log that lost confirmed transactions is refused, never shortened in silence."""
    copy = tmp_path / "copy"
    await live_copy(tmp_path / "data", copy, batches=20)
    wal = copy / "bus.sqlite-wal"
    data = bytearray(wal.read_bytes())
    if what == "gone":
        wal.unlink()
    elif what == "cut":
        wal.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 1
        wal.write_bytes(data)
    with pytest.raises(Permanent, match="is damaged"):
        await contents(copy)


async def test_lost_file_is_recognised(tmp_path):
    """A log whose file is gone does not start empty as if nothing had been."""
    await live_copy(tmp_path / "data", tmp_path / "copy", batches=4)
    for path in (tmp_path / "data").glob("bus.sqlite*"):
        path.unlink()
    with pytest.raises(Permanent, match="is damaged"):
        await contents(tmp_path / "data")
    for path in (tmp_path / "data").glob("bus.*"):
        path.unlink()
    assert (await contents(tmp_path / "data"))[0] == []


async def test_flipped_bytes_are_recognised_or_harmless(tmp_path):
    """Whatever byte is flipped, the log gives what was written or says that it is damaged."""
    seed = int(os.environ.get("ASSAY_TEST_SEED", random.randrange(10**6)))
    chance = random.Random(seed)
    await live_copy(tmp_path / "data", tmp_path / "copy", batches=60)
    data = (tmp_path / "data" / "bus.sqlite").read_bytes()
    used = [n for n in range(len(data)) if data[n]]
    good = (expected(60), expected(60)[30:], {"k": b"v" * 100})
    recognised = 0
    for trial in range(60):
        folder = tmp_path / "trial"
        shutil.copytree(tmp_path / "data", folder)
        position = chance.choice(used)
        with (folder / "bus.sqlite").open("r+b") as file:
            file.seek(position)
            file.write(bytes([data[position] ^ 1 << chance.randrange(8)]))
        try:
            assert await contents(folder) == good, f"seed {seed}, trial {trial}, byte {position}"
        except Permanent as error:
            assert "bus.sqlite" in str(error)
            recognised += 1
        shutil.rmtree(folder)
    print(f"seed {seed}: {recognised} of 60 recognised, the others harmless")
    assert recognised > 0


@pytest.mark.parametrize("replaced", [False, True])
async def test_nothing_is_taken_into_a_file_that_is_gone(tmp_path, replaced):
    """What would be written to a removed or replaced file is refused, to be sent again."""
    folder = tmp_path / "data"
    bus = EmbeddedBus(folder, TOPICS)
    await bus.start()
    await bus.publish([Outgoing("in", b"x", partition=0)])
    shutil.move(folder, tmp_path / "elsewhere")
    if replaced:
        other = EmbeddedBus(folder, TOPICS)
        await other.start()
        await other.stop()
    with pytest.raises(Retryable, match="removed or replaced"):
        await bus.publish([Outgoing("in", b"y", partition=0)])
    await bus.stop()


async def test_damaged_record_stops_its_readers_and_says_where(tmp_path):
    """A record with a flipped byte is named by topic, partition and offset, and not passed over."""
    await live_copy(tmp_path / "data", tmp_path / "copy", batches=20)
    path = tmp_path / "data" / "bus.sqlite"
    data = path.read_bytes()
    # Values are stored compressed: the repeated number stands at the beginning of each.
    position = data.index(b"1717")
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff")
    bus = EmbeddedBus(tmp_path / "data", TOPICS)
    await bus.start()
    consumer = bus.consumer("h", ["in"])
    await consumer.start()
    for _ in range(2):
        with pytest.raises(Permanent, match="record 17 of in/0"):
            await drain(consumer)
    await consumer.stop()
    await bus.stop()


async def test_changed_number_of_partitions_is_refused(tmp_path):
    """Keys would move to other partitions: the folder keeps the number it was made with."""
    bus = EmbeddedBus(tmp_path, TOPICS)
    await bus.start()
    await bus.stop()
    other = EmbeddedBus(tmp_path, [msgspec.structs.replace(TOPICS[0], partitions=3)])
    with pytest.raises(Permanent, match="2 partitions"):
        await other.start()
    await other.stop()
