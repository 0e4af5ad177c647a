"""The parts that several commands build from the settings in the same way."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from assay.bus.contract import Bus, Topic
from assay.bus.embedded import EmbeddedBus
from assay.bus.topics import EMBEDDED_PARTITIONS, backfill_topics, state_topic, topics
from assay.catalogue import CASCADE, ESTIMATING, canonical
from assay.config import Config
from assay.errors import ConfigError
from assay.store import Store
from exporters.severity import severities

if TYPE_CHECKING:
    from scorers.judge import Judge
    from scorers.plan import Plan


def check_plan(config: Config) -> None:
    """Raises ConfigError when the metrics of the settings cannot be scored as they say, or when an
    alert watches one that is not scored."""
    plan, _ = plan_of(config, remember=False)
    entries = [entry for part in (plan.base, *plan.apps.values()) for entry in part]
    scored = {entry.metric.name for entry in entries}
    graded = {entry.metric.name for entry in entries if severities(entry.metric)}
    faults = [
        f"alerts.{index}.metric: got the text {alert.metric!r}; allowed: a metric that is scored: "
        + ", ".join(sorted(scored))
        for index, alert in enumerate(config.alerts)
        if alert.metric and (canonical(alert.metric) or alert.metric) not in scored
    ]
    faults += [
        f"alerts.{index}.regression: allowed: false for the engine {CASCADE}, whose estimates are "
        "no verdicts that the sequential test could take; use objective"
        for index, alert in enumerate(config.alerts)
        if alert.regression and alert.engine == CASCADE
    ]
    faults += [
        f"alerts.{index}.level: allowed: none for what no judge scores: the other engines give a "
        f"probability of {alert.metric} and no severity; use objective"
        for index, alert in enumerate(config.alerts)
        if alert.level is not None
        and (
            (canonical(alert.metric or "") or alert.metric) not in graded
            or alert.engine in (*ESTIMATING, CASCADE)
        )
    ]
    faults += [
        f"alerts.{index}.engine: got the text 'judge'; allowed: the name of its model, as the "
        "series have it"
        for index, alert in enumerate(config.alerts)
        if alert.engine == "judge"
    ]
    if faults:
        raise ConfigError(faults)


def plan_of(config: Config, *, remember: bool = True) -> tuple[Plan, Judge | None]:
    """What is scored, and the judge that answers a part of it; none without a `judge:` block.

    `remember`: whether the judge keeps its answers in the data folder. Raises ConfigError.
    """
    from scorers.registry import resolve

    if config.judge is None:
        return resolve(config), None
    # Only here: the judge's client takes half a second and 40 MB to load.
    from scorers.judge import judge_of
    from scorers.judged_plan import scorers_with

    judge = judge_of(config, partitions=partitions_of(config), cache=remember)
    assert judge is not None
    return resolve(config, scorers_with(judge)), judge


def open_bus(config: Config, foreign: Collection[str] = ()) -> Bus:
    """The stream, not started: on Kafka where the settings name it, else in the data folder.
    `foreign` topics are those that others write."""
    wanted = [*topics_of(config), *map(foreign_topic, foreign)]
    if config.bus.kafka is not None:
        # Only here: the client takes a tenth of a second to load.
        from assay.bus.kafka import KafkaBus

        return KafkaBus(config.bus.kafka, wanted)
    return EmbeddedBus(config.data_dir, wanted, max_size=config.bus.max_size)


def foreign_topic(name: str) -> Topic:
    """A topic that others write."""
    return Topic(name=name, partitions=0, retention=0.0, foreign=True)


def topics_of(config: Config) -> tuple[Topic, ...]:
    """The topics of the stream as the settings want them."""
    retention = config.retention
    partitions = partitions_of(config)
    found = topics(
        partitions=partitions,
        spans_retention=retention.spans,
        turns_retention=retention.turns,
        scores_retention=retention.scores,
    )
    return found if config.bus.kafka is None else (*found, *backfill_topics(partitions))


def state_topics_of(config: Config) -> tuple[Topic, ...]:
    """Where the groups that keep a state keep it, on Kafka."""
    count = partitions_of(config)
    kept = {"assembler": count, "store": count, "judge": count, "windows": 1}
    return tuple(
        Topic(name=state_topic(group), partitions=n, retention=0.0, compact=True)
        for group, n in kept.items()
    )


def partitions_of(config: Config) -> int:
    """Of the topics of spans, turns and scores, where they are created."""
    kafka = config.bus.kafka
    return EMBEDDED_PARTITIONS if kafka is None else kafka.partitions


def make_data_folder(folder: Path) -> None:
    """Make the data folder, for its owner alone: raw spans lie in it.

    Raises ConfigError where this process cannot write there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError([f"data_dir: cannot make {folder}: {error.strerror}"]) from None
    # A mounted volume belongs to who mounted it, who decides on its mode too.
    with suppress(PermissionError):
        folder.chmod(0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError([f"data_dir: {folder} is not writable by this user"])


def open_store(config: Config) -> Store | None:
    """The tables of turns and scores; none when they are switched off."""
    store = config.exporters.store
    if not store.enabled:
        return None
    url = store.url if store.url is not None else str(config.data_dir.absolute() / "store")
    return Store(url, options=store.options, retention=store.retention)
