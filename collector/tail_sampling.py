"""Which turns go on to be scored, with which probability: see `assay.sampling` for the algebra.

A turn is kept iff its draw is below p = p_head x ratio, where ratio is the largest among the base
ratio and the policies that match the turn. The ratio never depends on the draw, so p is the turn's
inclusion probability whatever the policies are.

A policy with a target keeps, per app or operation, about `at_least_per_minute` turns: its ratio is
chosen from the grid by how many turns of that value came lately, each partition aiming at its share
of the target. What it has counted is part of the partition's state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from assay.bus.contract import StateChange
from assay.config import KeepPolicy, Sampling
from assay.records import Turn
from assay.sampling import conversation_draw, draw, head_probability, on_grid
from assay.when import compile as compile_when
from collector.dominance import Dominance

BASE = "base"
PREFIX = "rate/"
MAX_VALUES = 1000
"""Values that are counted per policy and partition; turns of further ones do not match it."""
MAX_LENGTH = 200
"""Characters of a value by which it is told from others."""
FORGET_AFTER = 60
"""Minutes without a turn after which a value is no longer counted."""


class Verdict(NamedTuple):
    """What was decided about a turn."""

    kept: bool
    draw: float
    probability: float
    stratum: str


class Rate(msgspec.Struct, array_like=True):
    """How often a value came."""

    minute: int
    """The running minute of the partition's clock, since the epoch."""
    count: int = 0
    """Turns in it so far."""
    estimate: float = 0.0
    """Turns a minute before it: half the last minute, a quarter the one before, ..."""

    def advance(self, minute: int) -> None:
        """Begin `minute`, if it has not begun."""
        if minute > self.minute:
            steps = min(minute - self.minute, 64)
            self.estimate = (self.estimate + self.count) / 2**steps
            self.minute, self.count = minute, 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Rate).decode


class Rates:
    """The counts of one partition's values, by policy (its position) and value."""

    def __init__(self, partition: int, state: Mapping[str, bytes]) -> None:
        self._partition = partition
        self._rates = {
            key: _decode(value) for key, value in state.items() if key.startswith(PREFIX)
        }
        self._values = Counter(map(_policy, self._rates))
        self._changed: set[str] = set()
        self._swept = 0

    def ratio(self, policy: int, value: str, target: float, minute: int) -> float:
        """The ratio for the value's next turn, which is counted by this call; 0 when no further
        value can be counted."""
        key = f"{PREFIX}{policy}/{value[:MAX_LENGTH]}".encode(errors="replace").decode()
        rate = self._rates.get(key)
        if rate is None:
            if self._values[policy] >= MAX_VALUES:
                return 0.0
            self._values[policy] += 1
            rate = self._rates[key] = Rate(minute)
        rate.advance(minute)
        # Only turns before this one count, so the ratio is known before the turn is.
        expected = max(rate.estimate, rate.count)
        rate.count += 1
        self._changed.add(key)
        return on_grid(target / expected) if expected > target else 1.0

    def changes(self, minute: int) -> list[StateChange]:
        """What is to be committed since the last call."""
        changes = []
        if minute > self._swept:
            self._swept = minute
            for key in [k for k, r in self._rates.items() if r.minute + FORGET_AFTER < minute]:
                del self._rates[key]
                self._values[_policy(key)] -= 1
                self._changed.discard(key)
                changes.append(StateChange(self._partition, key, None))
        changes += [
            StateChange(self._partition, key, _encode(self._rates[key])) for key in self._changed
        ]
        self._changed = set()
        return changes


def _policy(key: str) -> int:
    return int(key.split("/", 2)[1])


class _Policy(NamedTuple):
    name: str
    ratio: Callable[[Turn, Rates, int], float]
    """Of a turn in a minute; 0 when the policy does not match it."""


class TailSampling:
    """The sampling settings in force. Raises ConfigError when an expression is wrong."""

    def __init__(self, config: Sampling, partitions: int) -> None:
        self._head_ratio = config.head_ratio
        self._base = config.ratio
        self._by_conversation = config.unit == "conversation"
        self._dominance = Dominance()
        self._policies = [
            _compile(policy, index, partitions) for index, policy in enumerate(config.keep)
        ]

    def decide(self, turn: Turn, trace_states: Iterable[str], rates: Rates, minute: int) -> Verdict:
        """Decide about a turn of a trace whose spans bear `trace_states`.

        Counts the turn in `rates`: call it once a turn.
        """
        states = sorted(set(trace_states))
        p_head = head_probability(states, self._head_ratio)
        if self._by_conversation and turn.conversation_id:
            self._dominance.observe(turn.app, turn.conversation_id, minute)
            # Upstream decided by trace and we by conversation, independently: scaled by p_head,
            # the conversation's draw is below p_head x ratio exactly when it is below ratio.
            u = p_head * conversation_draw(turn.app, turn.conversation_id)
        else:
            explicit = next((state for state in states if "rv:" in state), "")
            u = draw(bytes.fromhex(turn.trace_id), explicit)
        ratio, stratum = self._base, BASE
        for policy in self._policies:
            own = policy.ratio(turn, rates, minute)
            if own > ratio:
                ratio, stratum = own, policy.name
        p = p_head * ratio
        return Verdict(u < p, u, p, stratum)


def _compile(policy: KeepPolicy, index: int, partitions: int) -> _Policy:
    name = policy.name or f"keep-{index}"
    if policy.when is not None:
        matches, fixed = compile_when(policy.when), policy.ratio or 0.0
        return _Policy(name, lambda turn, rates, minute: fixed if matches(turn) else 0.0)
    target = (policy.at_least_per_minute or 0.0) / partitions
    by_operation = policy.per == "operation"

    def ratio(turn: Turn, rates: Rates, minute: int) -> float:
        value = f"{turn.app}\x1f{turn.operation}" if by_operation else turn.app
        return rates.ratio(index, value, target, minute)

    return _Policy(name, ratio)
