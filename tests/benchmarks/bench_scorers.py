"""What scoring costs on one core: the default set, per metric, and beside its floor.

`python tests/benchmarks/bench_scorers.py`. The floor is decoding the turn and splitting its texts
into words: no scorer that reads the texts can cost less. Every turn has other texts, so that no
result is remembered from the turn before.

Two kinds of texts: of a small vocabulary, where every word stands everywhere (the worst case for
what looks words up), and of as many words, as unevenly used, as people use.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator

from assay.config import Config
from assay.records import (
    Document,
    Message,
    ToolCall,
    ToolDefinition,
    Turn,
    Usage,
    decode_turn,
    encode,
    turn_id_of,
)
from scorers import batch
from scorers.batch import Job
from scorers.plan import Plan
from scorers.registry import resolve
from scorers.scorer import Batched
from scorers.scoring import judge
from scorers.text import prepared, words
from scorers.worker import BATCH_RECORDS

TURNS = 5 * BATCH_RECORDS
LIMIT_MS = 1.0
"""Milliseconds of one core per turn of 150 words with 3 documents of 200 words."""
VOCABULARY = """
    order parcel refund delivery store customer account payment invoice return address item
    price discount warranty shipping carrier tracking weekend evening morning question answer
    support manager product colour size stock warehouse email receipt voucher deliver arrive
    change cancel
""".split()  # noqa: SIM905 - a list literal would be a page long
GLUE = ["the", "a", "to", "of", "and", "in", "is", "are", "you", "your", "it", "with", "on", "be"]


def wide_vocabulary() -> list[str]:
    """Made-up words that look like English ones."""
    rng = random.Random(0)
    starts = ("b", "c", "ch", "d", "f", "g", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "w")
    cores = ("a", "e", "i", "o", "u", "ai", "ea", "ou", "er", "an", "in", "or")
    ends = ("d", "l", "m", "n", "nd", "nt", "r", "s", "st", "t", "ment", "tion", "ly", "ing", "ed")
    made = (
        "".join(rng.choice(starts) + rng.choice(cores) for _ in range(rng.randint(1, 2)))
        + rng.choice(ends)
        for _ in range(12_000)
    )
    return list(dict.fromkeys(made))


WIDE = wide_vocabulary()


def text(rng: random.Random, count: int, *, natural: bool = False) -> str:
    """`count` English-looking words in sentences of about twelve; `natural`: the n-th word of a
    wide vocabulary is used in proportion to 1/n."""
    found = []
    for position in range(count):
        if rng.random() < 0.45:
            word = rng.choice(GLUE)
        elif natural:
            word = WIDE[int(len(WIDE) ** rng.random()) - 1]
        else:
            word = rng.choice(VOCABULARY)
        if rng.random() < 0.03:
            word = str(rng.randrange(1000))
        found.append(word.capitalize() if position % 12 == 0 else word)
        if position % 12 == 11:
            found[-1] += "."
    return " ".join(found) + "."


def turn(number: int, *, natural: bool = False) -> Turn:
    rng = random.Random(number)
    trace_id = f"{number:032x}"
    call = ToolCall(name="find_order", arguments={"order": number, "full": True}, result={"ok": 1})
    schema = {
        "type": "object",
        "properties": {"order": {"type": "integer"}, "full": {"type": "boolean"}},
        "required": ["order"],
    }
    return Turn(
        turn_id=turn_id_of(trace_id, 0),
        trace_id=trace_id,
        app="shop",
        model="m",
        query=text(rng, 15, natural=natural),
        response=text(rng, 150, natural=natural),
        messages=(Message(role="user", content=text(rng, 20, natural=natural)),),
        documents=tuple(Document(content=text(rng, 200, natural=natural)) for _ in range(3)),
        tool_calls=(call,),
        tool_definitions=(ToolDefinition(name="find_order", parameters=schema),),
        ground_truth=text(rng, 100, natural=natural),
        usage=Usage(input_tokens=900, output_tokens=200),
        started_at=1,
        ended_at=2 * 10**9,
        time_to_first_token=0.4,
        finish_reason="stop",
    )


def batches(values: list[bytes]) -> Iterator[list[bytes]]:
    """As many together as the worker takes."""
    for start in range(0, len(values), BATCH_RECORDS):
        yield values[start : start + BATCH_RECORDS]


def floor(values: list[bytes]) -> float:
    """Milliseconds a turn for decoding and splitting alone."""
    began = time.process_time()
    for value in values:
        found = decode_turn(value)
        for part in (found.query, found.response, *(d.content for d in found.documents)):
            words(part or "")
    return (time.process_time() - began) / len(values) * 1e3


def whole(values: list[bytes], plan: Plan) -> float:
    """Milliseconds a turn from bytes to bytes, as a process of the worker does it."""
    batch.begin(Job(plan, "local", "live"))
    began = time.process_time()
    for some in batches(values):
        batch.score(some)
    return (time.process_time() - began) / len(values) * 1e3


def by_metric(values: list[bytes], plan: Plan) -> dict[str, float]:
    """Microseconds a turn of each entry; the first to read a text pays for reading it."""
    spent: dict[str, float] = defaultdict(float)
    for some in batches(values):
        turns = [decode_turn(value) for value in some]
        for entry in plan.entries(turns[0].app):
            began = time.process_time()
            if isinstance(entry.function, Batched):
                entry.function.many(turns)
            else:
                for found in turns:
                    judge(found, entry)
            name, subject, _ = entry.key
            spent[f"{name} ({subject})"] += time.process_time() - began
    return {name: seconds / len(values) * 1e6 for name, seconds in spent.items()}


def main() -> None:
    default = resolve(Config())
    similarity = resolve(Config(metrics=["nlp"]))
    for natural in (False, True):
        print("natural texts" if natural else "texts of a small vocabulary")
        values = [encode(turn(number, natural=natural)) for number in range(3 * TURNS)]
        whole(values[:BATCH_RECORDS], default)
        whole(values[:BATCH_RECORDS], similarity)
        least = floor(values[:TURNS])
        prepared.forget()
        cost = whole(values[TURNS : 2 * TURNS], default)
        print(
            f"default set: {cost:.3f} ms a turn, {cost / LIMIT_MS:.2f} of the limit ({LIMIT_MS} ms)"
        )
        print(f"floor (decode, words): {least:.3f} ms; ratio {cost / least:.2f}")
        print(f"nlp set: {whole(values[TURNS : 2 * TURNS], similarity):.3f} ms a turn")
        for plan in (default, similarity):
            costs = by_metric(values[2 * TURNS :], plan)
            for name, microseconds in sorted(costs.items(), key=lambda item: -item[1]):
                print(f"  {microseconds:8.1f} us  {name}")


if __name__ == "__main__":
    main()
