"""What the backfill commands do: the importer, the scorers and the store put together."""

from __future__ import annotations

import asyncio
import datetime
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from assay.bus.contract import Bus
from assay.cli.options import config_path, with_metrics
from assay.cli.published import published
from assay.cli.show import console, moment, plain, print_lines, table
from assay.cli.wiring import make_data_folder, open_bus, open_store
from assay.config import Config, load
from assay.config_values import seconds
from assay.cores import cores
from assay.errors import ConfigError, Permanent
from assay.store import Store
from collector.importers import Importer, Problem
from exporters.history import write_history
from scorers import backfill_plan as plans
from scorers.backfill import Backfill
from scorers.backfill_diff import diff
from scorers.backfill_known import Known
from scorers.backfill_run import Run, Runs, Selected, new_run, thawed
from scorers.backfill_source import StoredTurns, TurnSource, text
from scorers.backfill_spool import SpooledTurns
from scorers.judge import judge_of
from scorers.judged_plan import all_entries, conversations_of, digests_of, plan_of, unsampled

SHOWN_PROBLEMS = 20
SPOOL = "turns.sqlite"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    sources: tuple[str, ...]
    metrics: str | None
    since: str | None
    until: str | None
    app: str | None
    when: str | None
    sample: float
    limit: int | None
    rescore: bool
    share: float
    via: str


def begin(
    path: Path | None,
    options: Options,
    *,
    processes: int | None,
    openmetrics: Path | None,
    yes: bool,
) -> None:
    """Say what the run would take, ask, and work on it."""
    config = with_metrics(load(config_path(path)), options.metrics)
    make_data_folder(config.data_dir)
    run = new_run(
        config,
        _selected(options, config),
        limit=options.limit,
        rescore=options.rescore,
        share=options.share,
        via=_via(options, config),
    )
    runs = Runs(config.data_dir)
    folder = runs.folder(run.run_id)
    try:
        asyncio.run(_work(run, runs, config, processes, openmetrics, yes, fresh=True))
    finally:
        if not (folder / "run.json").exists():
            for left in folder.glob("*") if folder.is_dir() else ():
                left.unlink()
            with suppress(OSError):
                folder.rmdir()


def resume(
    path: Path | None,
    name: str,
    *,
    limit: int | None,
    processes: int | None,
    openmetrics: Path | None,
    yes: bool,
) -> None:
    """Work on a run that was ended."""
    config = load(config_path(path))
    runs = Runs(config.data_dir)
    run = runs.find(name)
    run.limit = limit
    config = thawed(run, config)
    asyncio.run(_work(run, runs, config, processes, openmetrics, yes, fresh=False))


def list_runs(path: Path | None, as_json: bool) -> None:
    """A row for each run."""
    runs = Runs(load(config_path(path)).data_dir)
    found = runs.list()
    if as_json:
        print_lines(found)
        return
    table(
        ("run", "made", "state", "from", "turns", "scores", "errors", "cost"),
        (
            (
                run.run_id,
                moment(run.created_at),
                _state(runs, run),
                ", ".join(run.selected.files) or run.selected.kind,
                f"{run.counts.turns:,}",
                f"{run.counts.scores:,}",
                f"{run.counts.errors:,}",
                f"${run.counts.cost:.2f}",
            )
            for run in found
        ),
    )


def show_run(path: Path | None, name: str, as_json: bool) -> None:
    """The run's record, and what it found by metric."""
    config = load(config_path(path))
    runs = Runs(config.data_dir)
    run = runs.find(name)
    if as_json:
        print_lines([run])
        return
    out = console()
    out.print(Text(f"{run.run_id}  {_state(runs, run)}", "bold"))
    for key, value in msgspec.to_builtins(run.selected).items():
        if value not in (None, 0, [], 1.0):
            shown = moment(value) if key in ("since", "until") else value
            out.print(Text(f"{key:>8}  ", "dim") + Text(plain(shown)))
    _summary(run)
    rows = asyncio.run(
        store_of(config).query(
            "SELECT metric, subject, engine, scorer_version AS version, count(*) AS scores, "  # noqa: S608
            "avg(value) AS mean, "
            "sum(CASE WHEN engine = 'cascade' THEN value * weight "
            "WHEN passed = false THEN weight END) / "
            "sum(CASE WHEN passed IS NOT NULL THEN weight END) AS defect_rate, "
            "sum(CASE WHEN outcome = 'error' THEN 1 ELSE 0 END) AS errors "
            f"FROM scores WHERE run = {text(run.run_id)} "
            "GROUP BY metric, subject, engine, scorer_version ORDER BY metric, subject, engine"
        )
    )
    table(
        ("metric", "subject", "engine", "version", "scores", "mean", "defect rate", "errors"),
        ([_cell(value) for value in row.values()] for row in rows),
    )


def cancel(path: Path | None, name: str) -> None:
    """End a run."""
    runs = Runs(load(config_path(path)).data_dir)
    run = runs.find(name)
    runs.cancel(run)
    print(f"{run.run_id}: cancelled")


def show_diff(path: Path | None, name: str, as_json: bool) -> None:
    """The run beside the live scores of the same turns."""
    config = load(config_path(path))
    run = Runs(config.data_dir).find(name)
    rows = asyncio.run(diff(store_of(config), run.run_id))
    if as_json or not rows:
        print_lines(rows)
        if not rows:
            print("no turn has scores of this run and live ones", file=sys.stderr)
        return
    table(
        ("metric", "engine", "live engine", "turns", "agreement", "mean", "defect rate"),
        (
            (
                f"{row.metric} ({row.subject})",
                row.engine,
                row.live_engine,
                f"{row.turns:,}",
                _cell(row.agreement),
                f"{_cell(row.live_mean)} -> {_cell(row.mean)} {_shift(row.shift)}",
                f"{_cell(row.live_defect_rate)} -> {_cell(row.defect_rate)} "
                f"{_shift(row.defect_shift)}",
            )
            for row in rows
        ),
    )


async def _work(
    run: Run,
    runs: Runs,
    config: Config,
    processes: int | None,
    openmetrics: Path | None,
    yes: bool,
    *,
    fresh: bool,
) -> None:
    config = plans.with_share(config, run.share)
    judge = judge_of(config)
    try:
        plan = plan_of(config, judge, run.selected.sample)
        sampled = unsampled(config) if run.selected.kind == "files" else config
        conversations = conversations_of(sampled, judge, run.selected.sample)
        asked = [plan] if conversations is None else [plan, conversations.plan]
        _same_scorers(run, plans.scorers_in(*asked), fresh)
        store = store_of(config)
        source = await _open(run, runs, config, store, fresh)
        known = Known(
            store,
            ((entry, digests_of(entry, judge)) for entry in all_entries(*asked)),
            run.run_id,
            rescore=run.rescore,
        )
        estimate = await plans.estimate(
            run, source, known, plan, judge, processes or cores(), conversations
        )
        _say(run, estimate)
        if not estimate.todo and not estimate.whole:
            if not fresh:
                run.state = "done"
                runs.save(run)
            why = "every score is there" if estimate.turns else "no turn was selected"
            print(f"Nothing to do: {why}.")
            return
        if not yes and not typer.confirm("Begin?"):
            raise Permanent("not begun")
        runs.save(run)
        async with AsyncExitStack() as stack:
            stack.enter_context(runs.hold(run))
            fleet = await stack.enter_async_context(_fleet(config)) if run.via == "kafka" else None
            progress = stack.enter_context(_progress(estimate.todo + estimate.whole))
            work = Backfill(
                run, runs, source, store, plan, known, judge, conversations,
                processes=processes, fleet=fleet, on_progress=progress.show,
            )  # fmt: skip
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, work.stop)
            await work.work()
    finally:
        if judge is not None:
            await judge.stop()
    _summary(run)
    if openmetrics is not None:
        samples = await write_history(store, run.run_id, openmetrics)
        print(f"{openmetrics}: {samples:,} samples")


def _same_scorers(run: Run, scorers: list[tuple[str, str, str, str]], fresh: bool) -> None:
    if fresh:
        run.scorers = scorers
    elif run.scorers != scorers:
        changed = sorted({row[0] for row in set(run.scorers) ^ set(scorers)})
        raise Permanent(
            f"{run.run_id} was begun with other versions of {', '.join(changed)}: "
            "begin a new run; what this one has scored stays"
        )


async def _open(run: Run, runs: Runs, config: Config, store: Store, fresh: bool) -> TurnSource:
    """The run's turns; files and the stream are read once, into the run's folder."""
    if run.selected.kind == "store":
        return StoredTurns(store, run.selected)
    folder = runs.folder(run.run_id)
    source = SpooledTurns(folder / SPOOL, run.selected)
    if not fresh:
        return source
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if run.selected.kind == "kafka":
        # In a thread, where the reading has a loop of its own while the file is written.
        await asyncio.to_thread(source.fill, published(config, run.selected.since))
        return source
    problems: list[Problem] = []
    with Importer(config, folder / "spans.sqlite", problems.append) as importer:
        importer.take_in([Path(file) for file in run.selected.files])
        source.fill(importer.turns())
    for problem in problems[:SHOWN_PROBLEMS]:
        print(f"{problem.file}:{problem.line}: {problem.reason}", file=sys.stderr)
    if len(problems) > SHOWN_PROBLEMS:
        print(f"and {len(problems) - SHOWN_PROBLEMS} more", file=sys.stderr)
    dropped = ", ".join(f"{count} {reason}" for reason, count in importer.dropped.items())
    print(
        f"read {importer.spans:,} spans of {importer.traces:,} traces"
        + (f"; left out: {dropped}" if dropped else "")
    )
    return source


@asynccontextmanager
async def _fleet(config: Config) -> AsyncIterator[Bus]:
    bus = open_bus(config)
    try:
        await bus.start()
        yield bus
    finally:
        await bus.stop()


def _via(options: Options, config: Config) -> str:
    if options.via not in ("here", "kafka"):
        raise ConfigError([f"--via: got {options.via!r}; allowed: here, kafka"])
    if options.via == "kafka" and config.bus.kafka is None:
        raise ConfigError(["--via kafka: allowed: with bus.kafka in the settings"])
    return options.via


def _selected(options: Options, config: Config) -> Selected:
    kinds = {name if name in ("store", "kafka") else "files" for name in options.sources}
    if len(kinds) > 1:
        raise ConfigError(["--from: allowed: store, kafka or files, not both"])
    kind = kinds.pop()
    if kind == "kafka" and config.bus.kafka is None:
        raise ConfigError(["--from kafka: allowed: with bus.kafka in the settings"])
    files = tuple(str(Path(name).absolute()) for name in options.sources if kind == "files")
    try:
        return Selected(
            kind=kind,  # type: ignore[arg-type]
            files=files,
            since=moment_of(options.since, "--since"),
            # Without an end, turns that come in while it runs would move the goal.
            until=moment_of(options.until, "--until") or (0 if files else time.time_ns()),
            app=options.app,
            when=options.when,
            sample=options.sample,
        )
    except ValueError as error:
        raise ConfigError([f"--{error}"]) from None


def moment_of(given: str | None, option: str) -> int:
    """Nanoseconds since the epoch of a date, or of so long ago; 0 for none. Raises ConfigError."""
    if given is None:
        return 0
    try:
        return int((time.time() - seconds(given)) * 1e9)
    except ValueError:
        pass
    try:
        when = datetime.datetime.fromisoformat(given)
    except ValueError:
        allowed = "30d, 6h, 2026-10-01 or 2026-10-01T12:00"
        raise ConfigError([f"{option}: got {given!r}; allowed: {allowed}"]) from None
    return int(when.astimezone().timestamp() * 1e9)


def _say(run: Run, found: plans.Estimate) -> None:
    """What the run would do."""
    about = "about " if found.about else ""
    lines = [
        f"{run.run_id}",
        f"  turns       {found.turns:,} selected, {about}{found.todo:,} to score",
    ]
    if found.conversations:
        lines.append(
            f"  whole       {found.conversations:,} conversations, {about}{found.whole:,} to score"
        )
    lines.append(f"  scores      {about}{found.entries:,} to make, {found.known:,} there already")
    if found.judge_calls:
        cost = "of unknown price" if found.cost is None else f"about ${found.cost:.2f}"
        lines.append(
            f"  judge       about {found.judge_calls:,} calls, {found.input_tokens:,} tokens in, "
            f"{found.output_tokens:,} out, {cost}"
        )
    lines.append(f"  time        about {datetime.timedelta(seconds=round(found.seconds))}")
    print("\n".join(lines), flush=True)


def _summary(run: Run) -> None:
    counts = run.counts
    speed = f", {counts.turns / counts.seconds:,.0f} turns/s" if counts.seconds > 0 else ""
    whole = f"{counts.conversations:,} conversations, " if counts.conversations else ""
    print(
        f"{run.run_id}: {run.state}; {counts.turns:,} turns, {whole}{counts.scores:,} scores, "
        f"{counts.errors:,} errors, {counts.judge_calls:,} judge calls, ${counts.cost:.2f}{speed}"
    )
    if counts.left:
        what = "turns and conversations" if counts.conversations else "turns"
        print(f"{counts.left:,} {what} are left: `assay backfill resume {run.run_id}`")
    elif run.state in ("running", "limited"):
        print(f"not finished: `assay backfill resume {run.run_id}`")


class _progress:
    """A bar while a run works; on a pipe nothing but the summary."""

    def __init__(self, total: int) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}"),
            console=console(),
            disable=not sys.stdout.isatty(),
        )
        self._total = total
        self._before: int | None = None

    def __enter__(self) -> _progress:
        self._bar.start()
        self._task = self._bar.add_task("scoring", total=self._total, facts="")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, run: Run) -> None:
        counts = run.counts
        done = counts.turns + counts.conversations
        if self._before is None:
            self._before = done
        facts = f"{counts.errors:,} errors  ${counts.cost:.2f}"
        self._bar.update(self._task, completed=done - self._before, facts=facts)


def _state(runs: Runs, run: Run) -> str:
    return "interrupted" if run.state == "running" and not runs.is_held(run) else run.state


def store_of(config: Config) -> Store:
    """The store. Raises Permanent when it is switched off."""
    store = open_store(config)
    if store is None:
        raise Permanent("there is no store: exporters.store.enabled is false")
    return store


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:.4g}"
        case int():
            return f"{value:,}"
        case _:
            return plain(value, 60)


def _shift(found: Any) -> str:
    return (
        "" if found is None else f"({found.value:+.3g}, {found.lower:+.3g} to {found.upper:+.3g})"
    )
