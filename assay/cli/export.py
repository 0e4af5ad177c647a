"""`assay export`: scores to Prometheus and to the store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection

from assay.cli.alerting import add_alerts_api, make_alerts, make_events, make_notifier
from assay.cli.process import Process, started
from assay.cli.up import configured_by, contract_of, served_plans
from assay.cli.wiring import open_store, plan_of
from assay.config import Config
from assay.errors import ConfigError
from exporters.alerting.explainer import Explainer
from exporters.combiner import Combiner
from exporters.corrected import CorrectedRates
from exporters.owner import Owner
from exporters.stage import StageSeries
from exporters.store_sink import StoreSink

SINKS = ("prometheus", "store", "otlp_events")


@contextlib.asynccontextmanager
async def run(
    config: Config, listen: str | None, sinks: Collection[str] = ()
) -> AsyncIterator[list[str]]:
    """The sinks (none named: all that the settings have), running; gives what is served. Of any
    number of Prometheus sinks one owns the windows and exposes them, the others stand by."""
    wrong = [
        f"--sink: got {name!r}; allowed: {', '.join(SINKS)}" for name in sinks if name not in SINKS
    ]
    store = open_store(config)
    if "store" in sinks and store is None:
        wrong.append("--sink store: allowed: with exporters.store.enabled")
    if "otlp_events" in sinks and config.exporters.otlp_events.endpoint is None:
        wrong.append("--sink otlp_events: allowed: with exporters.otlp_events.endpoint")
    if wrong:
        raise ConfigError(wrong)
    wanted = set(sinks or SINKS)
    async with Process(config, listen) as process:
        shared = StageSeries(process.registry)
        if "prometheus" in wanted:
            served = served_plans(*plan_of(config, remember=False), config)
            prometheus = config.exporters.prometheus
            contract = contract_of(served)
            explainer = Explainer(store.query) if store is not None else None
            if explainer is not None:
                await started(process.stack, explainer)
            owner = Owner(
                process.bus,
                shared,
                process.registry,
                configured=configured_by(served),
                contract=contract,
                max_series=prometheus.max_series,
                alerts=make_alerts(config, served, process.registry, process.checks, explainer),
            )
            combiner = Combiner(
                process.bus, shared, process.registry, contract=contract, labels=prometheus.labels
            )
            for stage in (owner, combiner):
                await process.add(stage.name, stage)
            await started(process.stack, make_notifier(config, owner, process.registry))
            add_alerts_api(process.app, config, owner)
        if "otlp_events" in wanted:
            events = make_events(config, process.bus, shared, process.registry)
            if events is not None:
                await process.add(events.name, events)
        if "store" in wanted and store is not None:
            sink = StoreSink(process.bus, shared, process.registry, store=store)
            await process.add(sink.name, sink)
            await started(process.stack, CorrectedRates(store, process.registry))
        yield [f"metrics    http://{process.address}/metrics"]
