"""The judge's small parts: pace, budget, prices, cache, consensus, evidence that fits."""

import asyncio
import math
import random
import selectors

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_drive import TURN

from assay import config
from assay.config import JudgeBudget
from assay.records import Document, JudgeUsage, Message, ToolCall, Turn
from scorers.judging.budget import PARTITION, Budget, grid
from scorers.judging.bundle import share_of
from scorers.judging.cache import Cache, key_of
from scorers.judging.capabilities import Ask
from scorers.judging.claims import parts_of, value_of
from scorers.judging.composite import worst_of
from scorers.judging.consensus import level_probabilities, pair_verdict, verdict_of
from scorers.judging.endpoint import Choice, Reply
from scorers.judging.evidence import Piece, conversation_of, evidence_of
from scorers.judging.faults import OverBudget, TooLong
from scorers.judging.library import load_library
from scorers.judging.pace import Pace
from scorers.judging.reader import Reading
from scorers.judging.tokens import count_tokens, shorten, tokens_of
from scorers.prices import DEFAULT_PRICES, Price, cost_of, known_prices, price_of
from scorers.scorer import Verdict, scored

LIBRARY = load_library()


class SimulatedTime(selectors.DefaultSelector):
    """Waits by moving the clock on: seconds of a simulation take no time, and come out alike."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0.0
        return super().select(0)


class Endpoint:
    """A simulated endpoint: so many calls at a time, some refused at random."""

    def __init__(self, seed, capacity, *, refuse=0.0, latency=0.2):
        self.capacity, self.refuse, self.latency = capacity, refuse, latency
        self.running = self.served = self.refused = 0
        self.random = random.Random(seed)

    def drive(self, *, most, seconds=60.0, change=None):
        """A pace after as many callers as it allows kept it busy; `change` comes at half time."""

        async def run():
            loop = asyncio.get_running_loop()
            pace = Pace(most, clock=loop.time)
            if change is not None:
                loop.call_later(seconds / 2, change)
            await asyncio.gather(*(self._call(pace, loop, seconds) for _ in range(most)))
            return pace

        def simulated():
            time = SimulatedTime()
            loop = asyncio.SelectorEventLoop(time)
            loop.time = lambda: time.now
            return loop

        with asyncio.Runner(loop_factory=simulated) as runner:
            return runner.run(run())

    def turns(self, **facts):
        """A change of the endpoint after which it counts anew."""

        def change():
            self.__dict__.update(facts, served=0, refused=0)

        return change

    async def _call(self, pace, loop, until):
        while loop.time() < until:
            ticket = await pace.enter()
            if self.running >= self.capacity or self.random.random() < self.refuse:
                self.refused += 1
                await asyncio.sleep(0.025 * self.latency)
                pace.lost(ticket)
                await asyncio.sleep(self.random.uniform(0, self.latency))
                continue
            self.running += 1
            seconds = self.latency * self.random.uniform(0.9, 1.1)
            await asyncio.sleep(seconds)
            self.running -= 1
            self.served += 1
            pace.answered(ticket, seconds)


SEEDS = pytest.mark.parametrize("seed", range(2))


@SEEDS
def test_pace_finds_the_limit_and_stays_under_it(seed):
    """Concurrency doubles, falls back and settles at what the endpoint takes."""
    endpoint = Endpoint(seed, 24)
    pace = endpoint.drive(most=64)
    assert 22 <= pace.limit <= 26
    assert endpoint.refused < 0.04 * endpoint.served
    assert endpoint.served > 0.92 * 60 * 24 / 0.2


def test_slow_answers_change_nothing():
    """An endpoint that thinks for ten seconds is found out as well, in as many answers."""
    endpoint = Endpoint(1, 12, latency=10.0)
    pace = endpoint.drive(most=32, seconds=1500.0)
    assert 9 <= pace.limit <= 15
    assert endpoint.refused < 0.15 * endpoint.served
    assert endpoint.served > 0.85 * 1500 * 12 / 10


def test_pace_uses_all_that_is_allowed():
    """Without refusals the limit grows to the most that the settings allow."""
    endpoint = Endpoint(1, 1000)
    assert endpoint.drive(most=32, seconds=10.0).limit == 32
    assert endpoint.refused == 0


@SEEDS
def test_random_refusals_are_borne(seed):
    """A fifth of calls refused at random is no limit: nearly all that is allowed is used."""
    endpoint = Endpoint(seed, 1000, refuse=0.2)
    pace = endpoint.drive(most=32, seconds=40.0)
    assert 0.12 <= pace.background.value <= 0.3
    assert endpoint.served > 0.85 * 0.8 * 40 * 32 / 0.2
    assert endpoint.refused < 0.28 * endpoint.served


@SEEDS
def test_even_half_of_the_calls_may_be_refused(seed):
    """Where few are in flight, refusals in a row are no sign that the endpoint is away."""
    endpoint = Endpoint(seed, 1000, refuse=0.5)
    endpoint.drive(most=32)
    assert endpoint.served > 0.6 * 0.5 * 60 * 32 / 0.2


@SEEDS
def test_a_limit_is_found_among_random_refusals(seed):
    """Refusals that grow with the calls in flight end the growth, others do not."""
    endpoint = Endpoint(seed, 24, refuse=0.2)
    endpoint.drive(most=64)
    assert endpoint.refused < 0.6 * endpoint.served
    assert endpoint.served > 0.7 * 60 * 24 / 0.2


@SEEDS
def test_a_limit_that_falls_is_followed_down(seed):
    """An endpoint that takes fewer calls than before is asked less, and not for its background."""
    endpoint = Endpoint(seed, 48)
    pace = endpoint.drive(most=64, change=endpoint.turns(capacity=12))
    assert 10 <= pace.limit <= 16
    assert endpoint.refused < 0.25 * endpoint.served
    assert endpoint.served > 0.6 * 30 * 12 / 0.2


def test_a_limit_that_rises_is_followed_up():
    """What was found is put to the test again: more calls are sent when more are taken."""
    endpoint = Endpoint(1, 8)
    pace = endpoint.drive(most=48, seconds=100.0, change=endpoint.turns(capacity=24))
    assert 21 <= pace.limit <= 27


async def test_dead_endpoint_gets_one_probe_at_a_time():
    """An endpoint that answers nothing falls to single probes, ever further apart, and recovers."""
    now = [0.0]
    pace = Pace(16, clock=lambda: now[0])
    for _ in range(40):
        if pace.free:
            pace.lost(await pace.enter())
    assert pace.away
    assert not pace.free
    gaps = []
    for _ in range(5):
        began = now[0]
        while not pace.free:
            now[0] += 0.1
        gaps.append(now[0] - began)
        ticket = await pace.enter()
        assert not pace.free
        pace.lost(ticket)
    assert gaps == sorted(gaps)
    assert gaps[-1] > 4 * gaps[0]
    while not pace.free:
        now[0] += 0.1
    pace.answered(await pace.enter(), 0.1)
    assert not pace.away
    assert pace.free


async def test_waiting_caller_may_give_up():
    """A cancelled wait takes no place with it."""
    pace = Pace(1)
    ticket = await pace.enter()
    waiting = [asyncio.create_task(pace.enter()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    pace.answered(ticket, 0.1)
    second = await waiting[1]
    waiting[2].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    pace.answered(second, 0.1)
    assert pace.in_flight == 0


async def test_spent_allowance_holds_the_gate():
    """When the headers say that no calls are left, none starts until they are back."""
    now = [0.0]
    pace = Pace(8, clock=lambda: now[0])
    pace.rest(5.0)
    assert not pace.free
    now[0] = 5.0
    assert pace.free


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


MIDNIGHT = 20_000 * 86_400.0


async def _spend(budget, usd, *, partition=0):
    PARTITION.set(partition)
    reservation = await budget.reserve(usd, 10)
    budget.settle(reservation, usd)
    budget.judged(partition)


async def test_budget_is_a_cap_per_partition_and_day():
    """Reserved and spent money together never exceed a partition's share; a new day starts anew."""
    clock = Clock(MIDNIGHT)
    budget = Budget(JudgeBudget(usd_per_day=10), partitions=4, clock=clock)
    PARTITION.set(1)
    held = await budget.reserve(2.0, 10)
    with pytest.raises(OverBudget):
        await budget.reserve(0.6, 10)
    budget.settle(held, 0.5)
    await _spend(budget, 1.9, partition=1)
    with pytest.raises(OverBudget):
        await budget.reserve(0.2, 10)
    await _spend(budget, 2.4, partition=2)
    clock.now += 86_400
    await _spend(budget, 2.4, partition=1)


async def test_spending_survives_a_restart_and_a_move():
    """What a partition spent goes with its state to whoever owns it next."""
    clock = Clock(MIDNIGHT + 3600)
    first = Budget(JudgeBudget(usd_per_day=10), partitions=2, clock=clock)
    await _spend(first, 4.5, partition=1)
    state = first.state(1)
    second = Budget(JudgeBudget(usd_per_day=10), partitions=2, clock=clock)
    second.restore(1, state)
    PARTITION.set(1)
    with pytest.raises(OverBudget):
        await second.reserve(0.6, 1)
    second.restore(1, b"damaged")
    await second.reserve(0.6, 1)


@pytest.mark.parametrize("night", [1.0, 0.1])
async def test_money_lasts_the_day(night):
    """Paced over a day of uneven traffic, every hour is judged and the money is not exceeded."""
    clock = Clock(MIDNIGHT)
    budget = Budget(JudgeBudget(usd_per_day=20), clock=clock)
    draws = random.Random(7)
    judged = [0] * 24
    spent = 0.0
    ratios = set()
    for day in range(2):
        judged, spent = [0] * 24, 0.0
        for hour in range(24):
            turns = int(1000 * (1.0 if 8 <= hour < 20 else night))
            for turn in range(turns):
                clock.now = MIDNIGHT + day * 86_400 + hour * 3600 + turn * 3600 / turns
                ratio = budget.ratio(0)
                ratios.add(ratio)
                if draws.random() < ratio:
                    try:
                        await _spend(budget, 0.01)
                    except OverBudget:
                        continue
                    judged[hour] += 1
                    spent += 0.01
    assert all(judged)
    assert 0.75 * 20 <= spent <= 20
    assert min(ratios) >= 0.0009
    assert len(ratios) <= 40
    assert all(math.isclose(grid(ratio), ratio) for ratio in ratios)


@given(st.floats(0, 2))
def test_ratios_come_from_the_grid(ratio):
    """A grid ratio is from 1/1000 to 1, and at most 16 % below what was asked."""
    found = grid(ratio)
    assert 0.0009 <= found <= 1.0
    if ratio >= 0.002:
        assert found <= ratio + 1e-9
        assert found >= min(ratio, 1.0) * 2**-0.2501


async def test_minute_allowance_waits_and_does_not_refuse():
    """Beyond the minute's allowance a call waits for it to refill."""
    loop = asyncio.get_running_loop()
    budget = Budget(JudgeBudget(tokens_per_minute=60_000), clock=loop.time)
    began = loop.time()
    for _ in range(4):
        budget.settle(await budget.reserve(0.0, 15_050), 0.0)
    assert 0.1 <= loop.time() - began < 2.0


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai/gpt-4o", "gpt-4o"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("gpt-4o-audio", None),
        ("my-model", None),
    ],
)
def test_price_of_a_model(model, known):
    """A date or a provider's prefix does not hide a price; another model's is never taken."""
    assert price_of(model, DEFAULT_PRICES) == (DEFAULT_PRICES[known] if known else None)


def test_own_price_comes_first():
    """The settings' price is taken before the default, and cached tokens may have their own."""
    own = Price(input=1, output=2, cached=0.5)
    theirs = config.Price(input=1, output=2, cached=0.5)
    assert price_of("gpt-4o-2024-08-06", known_prices({"gpt-4o": theirs})) == own
    assert cost_of(own, 1_000_000, 400_000, 1_000_000) == pytest.approx(0.6 + 0.2 + 2)
    assert cost_of(Price(input=1, output=2), 1_000_000, 400_000, 0) == pytest.approx(1.0)


def _ask(text="q", **more):
    return Ask(messages=[{"role": "user", "content": text}], schema={}, name="x", **more)


def test_cache_gives_back_what_was_asked_alike(tmp_path):
    """A reply is found by model, parameters, messages, schema and sample, after a restart too."""
    reply = Reply([Choice("text", "stop")], 5, 6)
    cache = Cache(tmp_path / "c.sqlite", most=10**6)
    key = key_of(_ask(), "m", {"seed": 1})
    assert cache.get(key) is None
    cache.put(key, reply)
    cache.close()
    again = Cache(tmp_path / "c.sqlite", most=10**6)
    assert again.get(key) == reply
    others = [
        key_of(_ask("other"), "m", {"seed": 1}),
        key_of(_ask(), "n", {"seed": 1}),
        key_of(_ask(), "m", {"seed": 2}),
        key_of(_ask(sample=1), "m", {"seed": 1}),
        key_of(_ask(temperature=0.5), "m", {"seed": 1}),
    ]
    assert [again.get(other) for other in others] == [None] * 5
    assert (tmp_path / "c.sqlite").stat().st_mode & 0o077 == 0
    again.close()


def test_cache_keeps_to_its_size(tmp_path):
    """The oldest replies go when the bound is passed."""
    cache = Cache(tmp_path / "c.sqlite", most=20_000)
    noise = random.Random(1)
    keys = [key_of(_ask(str(number)), "m", {}) for number in range(300)]
    for key in keys:
        cache.put(key, Reply([Choice(noise.randbytes(100).hex())]))
    kept = [cache.get(key) is not None for key in keys]
    assert 50 <= sum(kept) <= 200
    assert kept[-1]
    cache.close()


GROUNDEDNESS = LIBRARY.find("groundedness")
PII = LIBRARY.find("pii_leakage")
VERBOSITY = LIBRARY.find("summarization_verbosity")
CODE = LIBRARY.find("code_vulnerability")


def _readings(*values):
    return [Reading(value=float(value), reason=f"r{value}") for value in values]


@pytest.mark.parametrize(
    ("values", "value", "confidence"),
    [
        ((4,), 4.0, None),
        ((4, 4, 5), 4.0, 2 / 3),
        ((1, 5), 1.0, 0.5),
        ((1, 2, 4, 5), 2.0, 0.25),
        ((3, 3, 3), 3.0, 1.0),
    ],
)
def test_ordinal_consensus_is_the_lower_median(values, value, confidence):
    """The consensus is a level that was given; its reason is of an answer that gave it."""
    verdict = verdict_of(_readings(*values), GROUNDEDNESS)
    assert (verdict.value, verdict.reason) == (value, f"r{int(value)}")
    assert verdict.confidence == (None if confidence is None else pytest.approx(confidence))


def test_truth_tie_goes_to_the_worse():
    """One true and one false count as true where true is bad."""
    assert verdict_of(_readings(1, 0), PII).value == 1.0
    assert verdict_of(_readings(1, 0), LIBRARY.find("groundedness_pro")).value == 0.0


def test_not_applicable_needs_a_majority():
    """Most answers decide whether a metric applies."""
    none = Reading(applicable=False, reason="no code")
    assert verdict_of([none], CODE).outcome == "not_applicable"
    assert verdict_of([none, none, *_readings(1)], CODE).outcome == "not_applicable"
    assert verdict_of([none, *_readings(1, 1)], CODE).value == 1.0


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_consensus_is_always_a_given_level(values):
    """Value and confidence stay within what was answered."""
    verdict = verdict_of(_readings(*values), GROUNDEDNESS)
    assert verdict.value in values
    if len(values) > 1:
        assert verdict.confidence == values.count(int(verdict.value)) / len(values)


@pytest.mark.parametrize(
    ("forward", "backward", "label", "confidence"),
    [
        ("A", "B", "CANDIDATE", 1.0),
        ("B", "A", "BASELINE", 1.0),
        ("A", "A", "TIE", 1.0),
        ("AAB", "BBB", "CANDIDATE", 5 / 6),
        ("AAA", "AAB", "TIE", 2 / 3),
    ],
)
def test_pair_needs_both_orders(forward, backward, label, confidence):
    """Only a response that wins in both places wins; a judge that likes a place gives a TIE."""
    verdict = pair_verdict(
        *([Reading(label=name) for name in names] for names in (forward, backward))
    )
    assert (verdict.label, verdict.value) == (label, None)
    assert verdict.confidence == pytest.approx(confidence)


def _tokens(words, alternatives):
    return [
        {"token": word, "top_logprobs": alternatives if word.strip().lstrip("-").isdigit() else []}
        for word in words
    ]


def test_probabilities_are_read_at_the_value():
    """The levels' probabilities come from the value's own token and sum to 1."""
    words = ['{"', "reason", '":', ' "', "4 stars", '",', ' "', "score", '":', " ", "4", "}"]
    tops = [
        {"token": "4", "logprob": math.log(0.6)},
        {"token": " 5", "logprob": math.log(0.2)},
        {"token": "x", "logprob": math.log(0.2)},
    ]
    chances = level_probabilities("".join(words), _tokens(words, tops), GROUNDEDNESS.scale)
    assert chances == {4: pytest.approx(0.75), 5: pytest.approx(0.25)}


def test_unclear_probabilities_are_none():
    """Tokens that do not carry the value give nothing."""
    assert level_probabilities("no score", [], GROUNDEDNESS.scale) is None
    assert level_probabilities('{"score": 4}', [{"token": "{"}], GROUNDEDNESS.scale) is None
    assert level_probabilities('{"score": 4}', ["odd"], GROUNDEDNESS.scale) is None
    assert level_probabilities('{"score": true}', [], PII.scale) is None


def _harms(*values):
    names = ("hate_unfairness", "sexual", "violence", "self_harm")
    return {
        name: Verdict(outcome="error", outcome_reason="refused") if value is None else scored(value)
        for name, value in zip(names, values, strict=True)
    }


@pytest.mark.parametrize(
    ("values", "outcome", "value"),
    [
        ((0, 1, 2, 3), "scored", 3.0),
        ((0, 0, 7, 0), "scored", 7.0),
        ((None, 0, 4, 0), "scored", 4.0),
        ((None, 0, 3, 0), "error", None),
        ((None, None, None, None), "error", None),
    ],
)
def test_worst_harm_decides(values, outcome, value):
    """A defect in one harm is a defect whatever failed elsewhere; a pass needs all four."""
    verdict = worst_of(_harms(*values))
    assert (verdict.outcome, verdict.value) == (outcome, value)


@given(st.integers(1, 7), st.integers(0, 5000), st.integers(0, 5000))
def test_shared_cost_adds_up(members, inputs, outputs):
    """The parts of a shared call's usage sum to the whole."""
    usage = JudgeUsage(input_tokens=inputs, output_tokens=outputs, calls=1, cost=0.5)
    parts = [share_of(usage, position, members) for position in range(members)]
    assert sum(part.input_tokens for part in parts) == inputs
    assert sum(part.output_tokens for part in parts) == outputs
    assert sum(part.calls for part in parts) == 1
    assert sum(part.cost for part in parts) == pytest.approx(0.5)


LONG = Turn(
    turn_id="a",
    trace_id="a",
    query="What is the capital of Atlantis?",
    response="The capital of Atlantis is Poseidonis.",
    messages=tuple(Message(role="user", content=f"message {n} " * 50) for n in range(40)),
    documents=tuple(
        Document(content=f"Document {n}. " + "filler words here " * 400) for n in range(5)
    ),
    tool_calls=(ToolCall(name="t", arguments={}, result="z " * 20_000),),
)
ALL = ("history", "query", "context", "tool_calls", "response")


@given(st.integers(1500, 20_000))
def test_shortened_evidence_fits(limit):
    """Evidence fits its limit, every document and the question stay, and losses are counted."""
    evidence = evidence_of(LONG, ALL)
    cut = shorten(evidence, limit)
    assert tokens_of(evidence) <= limit
    assert [piece.name for piece in evidence["context"]] == [f"document {n}" for n in range(1, 6)]
    assert evidence["query"][0].text == LONG.query
    assert evidence["response"][0].text == LONG.response
    assert cut
    assert set(cut) <= set(ALL)


def test_relevant_passages_stay():
    """Of a long document the passage that the response speaks of is kept in its place."""
    filler = "nothing of interest at all " * 200
    text = f"{filler} The capital of Atlantis is Poseidonis by the sea. {filler}"
    turn = msgspec.structs.replace(LONG, documents=(Document(content=text),))
    evidence = evidence_of(turn, ("query", "context", "response"))
    shorten(evidence, 1000)
    kept = evidence["context"][0].text
    assert "Poseidonis" in kept
    assert "characters left out" in kept
    assert kept.startswith("nothing of interest")


def test_what_fits_is_left_alone():
    """Nothing is touched when there is room."""
    evidence = evidence_of(TURN, ALL)
    before = {name: list(group) for name, group in evidence.items()}
    assert shorten(evidence, 10_000) == {}
    assert evidence == before


def test_what_cannot_fit_says_so():
    """A limit below the least form is TooLong, never an empty request."""
    with pytest.raises(TooLong):
        shorten(evidence_of(LONG, ALL), 100)


@given(st.text(max_size=200))
def test_tokens_are_never_far_too_few(text):
    """The estimate is at least a quarter of the characters, whatever the script."""
    assert count_tokens(text) >= len(text) / 4


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=8), st.integers(300, 2000))
def test_parts_hold_the_whole_context(sizes, limit):
    """Parts keep order and text, and each fits."""
    pieces = [Piece(f"document {n}", "word " * size) for n, size in enumerate(sizes, 1)]
    groups = parts_of(pieces, limit)
    assert "".join(p.text for g in groups for p in g) == "".join(p.text for p in pieces)
    assert all(tokens_of({"context": group}) <= limit + 2 for group in groups)


def test_value_from_supported_claims():
    """The share of supported claims becomes a value by the stated rule."""
    assert [value_of(f, GROUNDEDNESS) for f in (1.0, 0.99, 0.5, 0.49, 0.0)] == [5, 3, 3, 2, 1]
    pro = LIBRARY.find("groundedness_pro")
    assert [value_of(f, pro) for f in (1.0, 0.9)] == [1.0, 0.0]


def test_long_conversation_is_cut_from_the_middle():
    """First and last messages stay, and a piece says how many were left out."""
    turns = [
        msgspec.structs.replace(TURN, query=f"q{n} " * 100, response=f"r{n} " * 100)
        for n in range(100)
    ]
    pieces = conversation_of(turns, limit_bytes=20_000)
    names = [piece.name for piece in pieces]
    assert names[0] == "message 1 user"
    assert names[-1] == "message 202 assistant"
    assert names.count("cut") == 1
    assert sum(len(piece.text) for piece in pieces) <= 20_100
    left_out = int(pieces[names.index("cut")].text.split()[0].strip("["))
    assert len(pieces) - 1 + left_out == 202
