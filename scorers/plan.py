"""The plan: which metric, by which engine, under which conditions, for which app.

A plan pickles without code: another process loads each scorer by its reference.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from assay import when
from assay.catalogue import ALIASES, METRICS, SETS, canonical
from assay.errors import ConfigError, Permanent
from assay.metric import Metric
from assay.records import Subject, Turn
from scorers.scorer import Function, Scorer, load, waits

if TYPE_CHECKING:
    from assay.config import Config, MetricSettings

Key = tuple[str, Subject, str]
_OURS = ("prices", "data_dir")
"""Options that come from elsewhere in the settings."""


class Entry:
    """One configured (metric, subject, engine): one Score of every turn."""

    __slots__ = (
        "engine",
        "function",
        "metric",
        "needs",
        "options",
        "ratio",
        "scorer",
        "waits",
        "when",
    )

    def __init__(
        self,
        scorer: Scorer,
        metric: Metric,
        ratio: float = 1.0,
        condition: Callable[[Turn], bool] | None = None,
        options: msgspec.Struct | None = None,
    ) -> None:
        self.scorer = scorer
        self.metric = metric
        """The engine's contract with the threshold of the settings."""
        self.engine = scorer.engine
        self.ratio = ratio
        self.when = condition
        self.options = options
        self.needs = tuple(tuple(need.split("|")) for need in metric.needs)
        self.function: Function = scorer.bind(options)
        self.waits = waits(self.function)

    @property
    def key(self) -> Key:
        return self.metric.name, self.metric.subject, self.engine

    def __reduce__(self) -> tuple[Any, ...]:
        return _entry, (self.scorer.reference, self.metric, self.ratio, self.when, self.options)


def _entry(reference: str, *arguments: Any) -> Entry:
    return Entry(load(reference), *arguments)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is scored, by app."""

    base: tuple[Entry, ...] = ()
    """For every app that `apps` does not name."""
    apps: dict[str, tuple[Entry, ...]] = {}

    def entries(self, app: str) -> tuple[Entry, ...]:
        """What is configured for `app`: it always gets one Score per entry."""
        return self.apps.get(app, self.base)

    def part(self, keep: Callable[[Entry], bool]) -> Plan:
        """The plan with only the entries that `keep` holds true: the share of one group."""
        return Plan(
            base=tuple(filter(keep, self.base)),
            apps={app: tuple(filter(keep, own)) for app, own in self.apps.items()},
        )

    def each(self, change: Callable[[Entry], Entry]) -> Plan:
        """The plan with what `change` makes of each entry; one that apps share stays shared."""
        made = {id(e): change(e) for entries in (self.base, *self.apps.values()) for e in entries}
        return Plan(
            base=tuple(made[id(entry)] for entry in self.base),
            apps={app: tuple(made[id(entry)] for entry in own) for app, own in self.apps.items()},
        )


class Selection:
    """Turns the lists of the settings into entries and collects what is wrong with them."""

    def __init__(self, scorers: Mapping[Key, Scorer], config: Config) -> None:
        self._scorers = dict(scorers)
        self._config = config
        self._faults: list[str] = []

    def raise_faults(self) -> None:
        """Raises ConfigError when anything was wrong."""
        if self._faults:
            raise ConfigError(self._faults)

    def entries(
        self,
        key: str,
        listed: Sequence[str | dict[str, MetricSettings]],
        base: Mapping[Key, Entry],
    ) -> dict[Key, Entry]:
        """`base` with what is `listed` at the config key `key` added, or put in its place.

        Metrics stand in the order in which they were first selected; of two entries for the same
        metric, subject and engine the later one counts.
        """
        found = dict(base)
        for index, item in enumerate(listed):
            named = {item: None} if isinstance(item, str) else item
            for name, settings in named.items():
                where = f"{key}.{index}" if settings is None else f"{key}.{index}.{name}"
                for entry in self._select(where, name.strip(), settings):
                    found[entry.key] = entry
        return found

    def _select(self, key: str, name: str, settings: MetricSettings | None) -> Iterator[Entry]:
        if name in SETS:
            if settings is not None and (settings.options or settings.threshold is not None):
                self._fault(key, f"{name} is a set: options and threshold belong to single metrics")
                return
            for member in dict.fromkeys(m for name in SETS[name] for m in _with_parts(name)):
                yield from self._entries_of(key, member, settings, through_set=True)
            return
        metric = canonical(name)
        if metric is None and ":" in name:
            metric = self._load(key, name)
            if metric is None:
                return
        if metric is None and any(s.metric.name == name for s in self._scorers.values()):
            metric = name
        if metric is None:
            self._fault(key, f"no metric or set is named {name!r}; {self._similar(name)}")
            return
        for member in _with_parts(metric):
            yield from self._entries_of(key, member, settings, through_set=False)

    def _load(self, key: str, reference: str) -> str | None:
        try:
            scorer = load(reference)
        except Permanent as error:
            self._fault(key, str(error))
            return None
        known = self._scorers.setdefault(scorer.key, scorer)
        if known.reference != scorer.reference:
            self._fault(key, f"{known.reference} already answers {scorer.metric.name}")
            return None
        return scorer.metric.name

    def _entries_of(
        self, key: str, name: str, settings: MetricSettings | None, *, through_set: bool
    ) -> Iterator[Entry]:
        """The entries of one metric, one for each subject that its engine answers."""
        candidates = [s for s in self._scorers.values() if s.metric.name == name]
        engines = list(dict.fromkeys(s.engine for s in candidates))
        wanted = settings.engine if settings is not None else None
        engine = wanted or (engines[0] if engines else None)
        if engine not in engines:
            if not through_set:
                self._fault(key, _no_engine(name, wanted, engines))
            return
        for scorer in candidates:
            if scorer.engine == engine:
                entry = self._entry(key, scorer, settings)
                if entry is not None:
                    yield entry

    def _entry(self, key: str, scorer: Scorer, settings: MetricSettings | None) -> Entry | None:
        options = self._options(key, scorer, settings.options if settings else {})
        if settings is None:
            return Entry(scorer, scorer.metric, options=options)
        metric = scorer.metric
        if settings.threshold is not None:
            problem = _threshold_problem(metric, settings.threshold)
            if problem:
                self._fault(f"{key}.threshold", problem)
            metric = msgspec.structs.replace(metric, threshold=settings.threshold)
        condition = None
        if settings.when is not None:
            try:
                condition = when.compile(settings.when)
            except ConfigError as error:
                self._faults += [f"{key}.when: {fault}" for fault in error.faults]
        try:
            return Entry(scorer, metric, settings.ratio, condition, options)
        except (OSError, ValueError) as error:
            self._fault(f"{key}.options", str(error))
            return None

    def _options(self, key: str, scorer: Scorer, given: dict[str, Any]) -> msgspec.Struct | None:
        if scorer.options is None:
            if given:
                self._fault(f"{key}.options", f"{scorer.metric.name} takes no options")
            return None
        fields = [f.name for f in msgspec.structs.fields(scorer.options) if f.name not in _OURS]
        unknown = [name for name in given if name not in fields]
        for name in unknown:
            self._fault(f"{key}.options.{name}", f"unknown option; allowed: {', '.join(fields)}")
        values = {name: given[name] for name in given if name not in unknown}
        if "data_dir" in scorer.options.__struct_fields__:
            values["data_dir"] = str(self._config.data_dir)
        if "prices" in scorer.options.__struct_fields__:
            values["prices"] = {
                model: price.model_dump() for model, price in self._config.prices.items()
            }
        try:
            return msgspec.convert(values, scorer.options)
        except msgspec.ValidationError as error:
            self._fault(f"{key}.options", str(error))
            return None

    def _similar(self, name: str) -> str:
        known = [*SETS, *METRICS, *ALIASES, *(s.metric.name for s in self._scorers.values())]
        lowered = name.lower()
        close = [lowered] if lowered in known else difflib.get_close_matches(lowered, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return f"{hint}names are case-sensitive; `assay metrics list` shows them all"

    def _fault(self, key: str, problem: str) -> None:
        fault = f"{key}: {problem}"
        if fault not in self._faults:
            self._faults.append(fault)


def _with_parts(name: str) -> tuple[str, ...]:
    return (*METRICS[name].parts, name) if name in METRICS else (name,)


def _no_engine(name: str, wanted: str | None, engines: list[str]) -> str:
    if wanted in (None, "judge") and not (wanted is None and engines):
        local = f"; without one: {', '.join(engines)}" if engines else ""
        return f"{name} by the judge needs a judge, and none is configured{local}"
    return f"engine {wanted!r} does not answer {name}; allowed: {', '.join(engines) or 'judge'}"


def _threshold_problem(metric: Metric, threshold: float) -> str | None:
    if metric.labels:
        return f"{metric.name} answers with a label and has no threshold"
    low, high = metric.low, metric.high
    if metric.direction == "within":
        low, high = 0.0, max(abs(low or 0.0), abs(high or 0.0))
    if (low is not None and threshold < low) or (high is not None and threshold > high):
        above = "any number" if low is None else f"{low:g}"
        return (
            f"got the number {threshold:g}; allowed for {metric.name}: "
            f"{above} to {'any number' if high is None else f'{high:g}'}"
        )
    return None
