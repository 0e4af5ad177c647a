from __future__ import annotations

import json
import logging
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config import Sampling
from assay.records import Turn, Usage
from assay.sampling import GRID, draw, upstream_probability
from collector.tail_sampling import MAX_VALUES, Rates, TailSampling

CASES = Path(__file__).parent / "data" / "cases"
MINUTE = 29_934_000


def trace_id(randomness: int) -> str:
    return f"{1:018x}{randomness:014x}"


def turn(randomness: int = 0, **fields) -> Turn:
    id_ = trace_id(randomness)
    return Turn(turn_id=f"{id_}-0", trace_id=id_, **fields)


def sampling(partitions: int = 1, **settings) -> TailSampling:
    return TailSampling(Sampling.model_validate(settings), partitions)


def rates(state=None) -> Rates:
    return Rates(0, state or {})


RANDOMNESS = st.integers(0, 2**56 - 1)
POLICIES = [
    {"when": "error", "ratio": 1, "name": "errors"},
    {"when": "latency > 20", "ratio": 0.5, "name": "slow"},
    {"when": "usage.output_tokens > 100", "ratio": 0.05},
]


@pytest.mark.parametrize(
    ("fields", "probability", "stratum"),
    [
        ({}, 0.1, "base"),
        ({"error": "timeout"}, 1.0, "errors"),
        ({"started_at": 1, "ended_at": 30 * 10**9}, 0.5, "slow"),
        ({"started_at": 1, "ended_at": 30 * 10**9, "error": "x"}, 1.0, "errors"),
        ({"usage": Usage(output_tokens=200)}, 0.1, "base"),
    ],
)
def test_the_largest_matching_ratio_decides(fields, probability: float, stratum: str) -> None:
    """Base and matching policies compete by ratio; the winner names the stratum."""
    verdict = sampling(ratio=0.1, keep=POLICIES).decide(turn(**fields), [""], rates(), MINUTE)
    assert (verdict.probability, verdict.stratum) == (probability, stratum)


@given(RANDOMNESS, st.floats(0, 1), st.floats(0, 1), st.sampled_from(["", "ot=th:8", "ot=th:f"]))
def test_the_joint_probability_is_what_the_turn_says(
    r: int, base: float, kept: float, state: str
) -> None:
    """A turn is kept iff its draw is below its own inclusion probability, which is the head's
    times the ratio, so upstream, door and tail are one decision."""
    deciding = sampling(ratio=base, keep=[{"when": "app == 'shop'", "ratio": kept}])
    p_head = upstream_probability(state)
    for app, ratio in (("shop", max(base, kept)), ("other", base)):
        verdict = deciding.decide(turn(r, app=app), [state, ""], rates(), MINUTE)
        assert verdict.probability == p_head * ratio
        assert verdict.draw == draw(bytes.fromhex(trace_id(r)))
        assert verdict.kept == (verdict.draw < verdict.probability)


@given(RANDOMNESS, RANDOMNESS)
def test_the_draw_is_the_one_that_upstream_used(r: int, explicit: int) -> None:
    """Explicit randomness on any span of the trace replaces that of the id, for all of it."""
    verdict = sampling(ratio=0.5).decide(
        turn(r), ["", f"ot=rv:{explicit:014x};th:8"], rates(), MINUTE
    )
    assert verdict.draw == draw(b"", f"ot=rv:{explicit:014x}")
    assert verdict.probability == 0.25


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 1.0])
def test_fixed_ids_get_the_same_verdict_everywhere(ratio: float) -> None:
    """Two replicas and a restart agree; 0 keeps none, 1 keeps all (case B31)."""
    ids = json.loads((CASES / "B31.sampling.json").read_text())["ids"]

    def kept(ratio: float) -> set[str]:
        deciding = sampling(ratio=ratio)
        turns = [Turn(turn_id=f"{id_}-0", trace_id=id_) for id_ in ids]
        return {t.trace_id for t in turns if deciding.decide(t, [""], rates(), MINUTE).kept}

    assert kept(ratio) == kept(ratio)
    assert kept(ratio) <= kept(min(1.0, ratio * 2 + 0.05))
    expected = {0.0: (0, 0), 0.1: (8, 35), 0.5: (80, 120), 1.0: (200, 200)}[ratio]
    assert expected[0] <= len(kept(ratio)) <= expected[1]


# Conversations


def test_a_conversation_is_kept_whole() -> None:
    """All turns of a conversation share one draw, whatever their traces are."""
    deciding = sampling(ratio=0.3, unit="conversation")
    verdicts: dict[str, set[bool]] = {}
    for n in range(2000):
        one = turn(random.Random(n).getrandbits(56), app="a", conversation_id=f"c{n % 200}")
        verdict = deciding.decide(one, [""], rates(), MINUTE)
        verdicts.setdefault(one.conversation_id or "", set()).add(verdict.kept)
        assert verdict.probability == 0.3
    assert all(len(seen) == 1 for seen in verdicts.values())
    assert 35 <= sum(True in seen for seen in verdicts.values()) <= 85


def test_policies_only_add_turns_to_sampled_conversations() -> None:
    """A policy keeps further turns, and takes none of a conversation that the base keeps."""
    plain = sampling(ratio=0.3, unit="conversation")
    more = sampling(ratio=0.3, unit="conversation", keep=[{"when": "error", "ratio": 0.9}])
    for n in range(500):
        one = turn(n, app="a", conversation_id=f"c{n}", error="x" if n % 2 else None)
        base = plain.decide(one, [""], rates(), MINUTE)
        added = more.decide(one, [""], rates(), MINUTE)
        assert added.draw == base.draw
        assert added.kept or not base.kept


def test_conversations_of_half_sampled_traces_weigh_both() -> None:
    """Upstream sampling by trace and ours by conversation are independent: p is their product, and
    metrics that go on with `draw < p x ratio` still see whole conversations."""
    deciding = sampling(ratio=0.5, unit="conversation")
    whole = Counter()
    for n in range(400):
        one = turn(n, app="a", conversation_id=f"c{n % 40}")
        verdict = deciding.decide(one, ["ot=th:8"], rates(), MINUTE)
        assert verdict.probability == 0.25
        whole[one.conversation_id, verdict.draw < verdict.probability * 0.5] += 1
    assert len(whole) == 40


def test_a_turn_without_conversation_is_drawn_by_its_trace() -> None:
    """It is a conversation of its own."""
    verdict = sampling(ratio=0.5, unit="conversation").decide(turn(7), [""], rates(), MINUTE)
    assert verdict.draw == draw(bytes.fromhex(trace_id(7)))


def test_a_dominant_conversation_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """When over a fifth of an app's turns in an hour share one id, it is likely no conversation;
    that is said once an hour, without the id."""
    deciding = sampling(ratio=0.5, unit="conversation")
    with caplog.at_level(logging.WARNING):
        for n in range(1000):
            deciding.decide(
                turn(n, app="even", conversation_id=f"c{n % 10}"), [""], rates(), MINUTE
            )
        assert caplog.records == []
        for n in range(1000):
            id_ = "constant-id" if n % 4 == 0 else f"c{n}"
            deciding.decide(turn(n, app="odd", conversation_id=id_), [""], rates(), MINUTE)
        assert len(caplog.records) == 1
        assert "odd" in str(vars(caplog.records[0]))
        assert "constant-id" not in str(vars(caplog.records[0]))


# Targets

TARGET = [{"per": "app", "at_least_per_minute": 6, "name": "rare"}]


def test_a_rare_app_is_kept_whole_and_a_busy_one_at_its_target() -> None:
    """Few turns a minute are all kept; of many, at least the target and not many times it."""
    deciding, seen = sampling(ratio=0.001, keep=TARGET), rates()
    kept: Counter[tuple[str, int]] = Counter()
    random_ = random.Random(1)
    for minute in range(20):
        for n in range(600):
            for app in ("busy", "rare") if n % 200 == 0 else ("busy",):
                one = turn(random_.getrandbits(56), app=app)
                verdict = deciding.decide(one, [""], seen, MINUTE + minute)
                kept[app, minute] += verdict.kept
                assert verdict.probability in GRID or verdict.probability == 0.001
    assert all(kept["rare", minute] == 3 for minute in range(20))
    busy = [kept["busy", minute] for minute in range(4, 20)]
    assert 5 <= sum(busy) / len(busy) <= 12


def test_each_partition_aims_at_its_share() -> None:
    """With four partitions each keeps a quarter of the target."""
    deciding, seen = sampling(4, ratio=0.001, keep=TARGET), rates()
    for minute in range(10):
        for n in range(600):
            verdict = deciding.decide(turn(n, app="busy"), [""], seen, MINUTE + minute)
    assert 1.5 / 600 <= verdict.probability <= 1.5 / 600 * 1.2


def test_what_was_counted_survives_a_restart() -> None:
    """From the committed state the next ratio is the same as without the restart."""
    deciding, seen = sampling(ratio=0.001, keep=TARGET), rates()
    state: dict[str, bytes] = {}
    for n in range(5000):
        deciding.decide(turn(n, app=f"app{n % 3}"), [""], seen, MINUTE + n // 1000)
        for _, key, value in seen.changes(MINUTE + n // 1000):
            assert value is not None
            state[key] = value
    for n in range(9):
        one = turn(n, app=f"app{n % 3}")
        restored = deciding.decide(one, [""], rates(state), MINUTE + 5)
        assert restored == deciding.decide(one, [""], rates(state), MINUTE + 5)
    assert deciding.decide(one, [""], rates(state), MINUTE + 5).probability < 0.1


def test_values_without_turns_are_forgotten() -> None:
    """After an hour without a turn a value takes no room, in memory and in the state."""
    deciding, seen = sampling(keep=TARGET, ratio=0), rates()
    deciding.decide(turn(app="old"), [""], seen, MINUTE)
    assert [value is None for _, _, value in seen.changes(MINUTE)] == [False]
    assert [value is None for _, _, value in seen.changes(MINUTE + 61)] == [True]
    assert seen.changes(MINUTE + 62) == []


def test_the_number_of_counted_values_is_bounded() -> None:
    """Beyond the bound a value does not match the policy; known ones go on."""
    deciding, seen = (
        sampling(keep=[{"per": "operation", "at_least_per_minute": 5}], ratio=0),
        rates(),
    )
    for n in range(MAX_VALUES):
        assert deciding.decide(turn(operation=f"\ud800{n}" + "x" * 500), [""], seen, MINUTE).kept
    assert not deciding.decide(turn(operation="one more"), [""], seen, MINUTE).kept
    assert len(seen.changes(MINUTE)) == MAX_VALUES


@given(st.lists(st.tuples(st.integers(0, 3), RANDOMNESS), max_size=60))
def test_a_ratio_is_known_before_its_turn(turns: list[tuple[int, int]]) -> None:
    """The probability depends on earlier turns only: another draw for the last turn leaves it."""
    deciding = sampling(ratio=0.01, keep=TARGET)
    ends = []
    for last in (0, 2**56 - 1):
        seen, minute = rates(), MINUTE
        for step, r in turns:
            minute += step
            deciding.decide(turn(r, app="a"), [""], seen, minute)
        ends.append(deciding.decide(turn(last, app="a"), [""], seen, minute).probability)
    assert ends[0] == ends[1]


# Honest estimates

DESIGNS = {
    "base 0.2": {"ratio": 0.2},
    "errors 1, base 0.2": {"ratio": 0.2, "keep": [{"when": "error", "ratio": 1}]},
    "slow 0.5, base 0.2": {"ratio": 0.2, "keep": [{"when": "latency > 20", "ratio": 0.5}]},
    "errors 1, slow 0.5, base 0.2": {
        "ratio": 0.2,
        "keep": [{"when": "error", "ratio": 1}, {"when": "latency > 20", "ratio": 0.5}],
    },
    "10 a minute per app": {
        "ratio": 0.1, "keep": [{"per": "app", "at_least_per_minute": 10}]
    },
    "10 a minute per operation": {
        "ratio": 0.1, "keep": [{"per": "operation", "at_least_per_minute": 10}]
    },
    "by conversation 0.2, errors 1": {
        "ratio": 0.2, "unit": "conversation", "keep": [{"when": "error", "ratio": 1}]
    },
}  # fmt: skip
RUNS, TURNS = 2000, 400


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_weighted_rates_are_unbiased_under_every_policy(design: str, capsys) -> None:
    """Over 2,000 runs the Hajek defect rate is within 2 % of the truth, relatively, although
    errors and slow turns, which the policies prefer, are defects far more often."""
    settings = DESIGNS[design]
    deciding = sampling(**settings)
    random_ = random.Random(design)
    population = []
    for n in range(TURNS):
        app = "rare" if n % 12 == 0 else "busy"
        error, slow = random_.random() < 0.1, random_.random() < 0.1
        bad = random_.random() < (0.6 if error else 0.4 if slow else 0.3 if app == "rare" else 0.1)
        fields = {
            "app": app,
            "operation": f"op{n % 3}",
            "error": "x" if error else None,
            "started_at": 1,
            "ended_at": 10**9 * (30 if slow else 2),
        }
        population.append((fields, n // 100, bad))
    truth = sum(bad for _, _, bad in population) / TURNS
    weighted, plain, kept = [], [], 0
    for run in range(RUNS):
        seen = rates()
        total = weight = 0.0
        defects: list[bool] = []
        for n, (fields, minute, bad) in enumerate(population):
            one = turn(random_.getrandbits(56), conversation_id=f"{run}-{n // 3}", **fields)
            verdict = deciding.decide(one, [""], seen, MINUTE + minute)
            if verdict.kept:
                weight += 1 / verdict.probability
                total += bad / verdict.probability
                defects.append(bad)
        if defects:
            weighted.append(total / weight)
            plain.append(sum(defects) / len(defects))
            kept += len(defects)
    bias = sum(weighted) / len(weighted) / truth - 1
    plain_bias = sum(plain) / len(plain) / truth - 1
    with capsys.disabled():
        print(f"\n{design:32} kept {kept / RUNS / TURNS:5.1%}  weighted {bias:+6.2%}  "
              f"plain mean {plain_bias:+7.2%}", end="")  # fmt: skip
    assert abs(bias) < 0.02
