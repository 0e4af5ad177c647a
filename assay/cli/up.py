"""`assay up`: the whole agent in one process.

`run` builds the stages against the flow of the data, from what leaves to what comes in, so that
each finds the next one ready; the doors open last. It stops them the other way round: the doors
close first, then each stage commits what it has.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from assay import __version__, catalogue
from assay.api import add_api
from assay.cli.alerting import add_alerts_api, make_alerts, make_events, make_notifier
from assay.cli.process import health_app, run_until_signalled, started
from assay.cli.source import RUNNING, Running, write_running
from assay.cli.status import Status
from assay.cli.wiring import check_plan, make_data_folder, open_bus, open_store, plan_of
from assay.config import Config
from assay.dead_letter_api import add_dead_letter_api
from assay.dead_letters import DeadLetters
from assay.health import Check
from assay.label_api import add_label_api
from assay.lookup import Lookup
from assay.metric import Metric
from assay.records import Subject
from assay.serving import HttpServer
from assay.store import Store
from assay.telemetry import process_registry
from collector.assembly import Assembler
from collector.intake import Intake
from collector.otlp_grpc import GrpcDoor
from collector.otlp_http import HttpDoor
from exporters.alerting.explainer import Explainer
from exporters.combiner import Combiner
from exporters.corrected import CorrectedRates
from exporters.owner import Configured, Owner
from exporters.rollup import Contract
from exporters.stage import StageSeries
from exporters.store_sink import StoreSink
from scorers.plan import Plan
from scorers.waiting_worker import WaitingWorker, waiting_part
from scorers.worker import Worker

if TYPE_CHECKING:
    from scorers.judge import Judge


def main(config: Config, *, verbose: bool) -> None:
    """Run until SIGINT or SIGTERM; a second one ends the process at once."""
    run_until_signalled(run(config), lambda running: _greet(config, running), verbose=verbose)


@contextlib.asynccontextmanager
async def run(config: Config) -> AsyncIterator[Running]:
    """The agent, running. Raises ConfigError or Permanent when it cannot start."""
    check_plan(config)
    make_data_folder(config.data_dir)
    plan, judge = plan_of(config)
    served = served_plans(plan, judge, config)
    registry = process_registry()
    checks: dict[str, Check] = {}
    async with AsyncExitStack() as stack:
        bus = await started(stack, open_bus(config))
        store = open_store(config)

        shared = StageSeries(registry)
        explainer = Explainer(store.query) if store is not None else None
        if explainer is not None:
            await started(stack, explainer)
        labels, contract = config.exporters.prometheus.labels, contract_of(served)
        owner = Owner(
            bus,
            shared,
            registry,
            configured=configured_by(served),
            contract=contract,
            max_series=config.exporters.prometheus.max_series,
            alerts=make_alerts(config, served, registry, checks, explainer),
        )
        combiner = Combiner(bus, shared, registry, contract=contract, labels=labels)
        for stage in (owner, combiner):
            await started(stack, stage)
            checks[stage.name] = stage.health
        await started(stack, make_notifier(config, owner, registry))
        if store is not None:
            sink = await started(stack, StoreSink(bus, shared, registry, store=store))
            checks[sink.name] = sink.health
            await started(stack, CorrectedRates(store, registry))
        if (events := make_events(config, bus, shared, registry)) is not None:
            await started(stack, events)
            checks[events.name] = events.health

        worker = await started(stack, Worker(bus, plan, registry))
        checks["local"] = worker.health
        if any_entry(waiting_part(plan)):
            checks["waiting"] = (await started(stack, WaitingWorker(bus, plan, registry))).health
        if judge is not None:
            from scorers.conversation_worker import ConversationWorker, conversation_part
            from scorers.judge_worker import JudgeWorker

            judging = await started(stack, JudgeWorker(bus, plan, judge, registry))
            checks["judge"] = judging.health
            if any_entry(conversation_part(plan, judge, config)):
                talks = ConversationWorker(bus, plan, judge, config, registry)
                checks["conversation"] = (await started(stack, talks)).health
        assembler = await started(stack, Assembler(bus, config, registry))
        checks["assembler"] = assembler.health

        lookup = Lookup(bus, store)
        facts: dict[str, str] = {"data_dir": str(config.data_dir)}
        status = await started(stack, Status(bus, registry, checks, facts))
        server = await started(
            stack,
            _server(config, registry, checks, lookup, status, owner, store, DeadLetters(bus)),
        )
        stack.push_async_callback(lookup.end_tails)
        facts["api"] = server.address

        intake = Intake(bus, config, registry)
        http = grpc = None
        if config.collector.grpc is not None:
            grpc = await started(stack, GrpcDoor(intake, config))
            facts["grpc"] = _at(config.collector.grpc, grpc.port)
        if config.collector.http is not None:
            http = await started(stack, HttpDoor(intake, config))
            scheme = "https" if config.collector.tls else "http"
            facts["http"] = f"{scheme}://{_at(config.collector.http, http.port)}"
        running = Running(
            pid=os.getpid(), api=facts["api"], http=facts.get("http"), grpc=facts.get("grpc")
        )
        write_running(config.data_dir, running)
        stack.callback((config.data_dir / RUNNING).unlink, missing_ok=True)
        yield running


def served_plans(plan: Plan, judge: Judge | None, config: Config) -> list[Plan]:
    """What each group scores."""
    served = [plan.part(lambda entry: not entry.waits), waiting_part(plan)]
    if judge is not None:
        from scorers.conversation_worker import conversation_part
        from scorers.judge_worker import judge_part

        served += [judge_part(plan, judge), conversation_part(plan, judge, config)]
    return served


def any_entry(plan: Plan) -> bool:
    """Whether the plan asks anything of any app."""
    return bool(plan.base) or any(plan.apps.values())


def configured_by(plans: Sequence[Plan]) -> Callable[[str], Sequence[Configured]]:
    """What is asked of each turn of an app."""

    @functools.lru_cache(1000)
    def configured(app: str) -> Sequence[Configured]:
        return tuple(
            Configured(entry.metric.name, entry.engine, entry.metric.kind, entry.metric.subject)
            for plan in plans
            for entry in plan.entries(app)
        )

    return configured


def contract_of(plans: Sequence[Plan]) -> Contract:
    """The contracts of the plans, users' own among them, and the catalogue's for the rest."""
    entries = [e for plan in plans for part in (plan.base, *plan.apps.values()) for e in part]
    own = {(e.metric.name, e.engine, e.metric.subject): e.metric for e in entries}

    def contract(name: str, engine: str, subject: Subject) -> Metric | None:
        return own.get((name, engine, subject)) or catalogue.contract(name, engine, subject)

    return contract


def _server(
    config: Config,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    lookup: Lookup,
    status: Status,
    owner: Owner,
    store: Store | None,
    letters: DeadLetters,
) -> HttpServer:
    app = health_app(config, registry, checks)
    add_api(app, lookup, status.now, config.exporters.prometheus.bearer)
    add_alerts_api(app, config, owner)
    add_label_api(app, store, config.exporters.prometheus.bearer)
    add_dead_letter_api(app, letters, config.exporters.prometheus.bearer)
    return HttpServer(app, config.exporters.prometheus.listen, "exporters.prometheus.listen")


def _at(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"


def _greet(config: Config, running: Running) -> None:
    """Say on standard output that the agent is ready, where, and what to do next."""
    lines = [
        f"Assay {__version__} is ready.",
        f"  OTLP/HTTP  {running.http or 'off'}",
        f"  OTLP/gRPC  {running.grpc or 'off'}",
        f"  metrics    http://{running.api}/metrics",
        f"  data       {config.data_dir}",
        "Next: point your app's OTEL_EXPORTER_OTLP_ENDPOINT here, or run `assay demo`; "
        "then `assay tail`.",
    ]
    print("\n".join(lines), flush=True, file=sys.stdout)
