"""What `assay evaluate` does: data, target, scorers and reports put together."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from assay.cli.options import config_path, with_metrics
from assay.cli.score import Bad
from assay.cli.show import console, moment, plain, print_lines, table
from assay.cli.wiring import make_data_folder
from assay.config import Config, load
from assay.errors import ConfigError, Permanent
from scorers.evaluate import Evaluation
from scorers.evaluate_data import DataRow, read_rows
from scorers.evaluate_mapping import Mapper
from scorers.evaluate_report import check_report, write_report
from scorers.evaluate_run import EvaluationRun, EvaluationRuns
from scorers.evaluate_summary import Summary, shortfalls, summarise
from scorers.evaluate_target import FunctionTarget, HttpTarget, ModelTarget, Sampling, Target
from scorers.judge import judge_of

KEY = "ASSAY_TARGET_KEY"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    data: Path
    metrics: str | None = None
    maps: tuple[str, ...] = ()
    target: str | None = None
    system: Path | None = None
    examples: Path | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    base_url: str | None = None
    name: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    out: tuple[Path, ...] = ()
    fail_under: tuple[str, ...] = ()


def evaluate(path: Path | None, options: Options, as_json: bool) -> int:
    """Evaluate, print and write what was found; 1 when a bound of `fail_under` is not reached, or
    nothing was scored."""
    config = with_metrics(load(config_path(path)), options.metrics)
    bounds = bounds_of(options.fail_under)
    for out in options.out:
        check_report(out)
    run = asyncio.run(make_run(config, options))
    runs = EvaluationRuns(config.data_dir)
    _show(run, as_json)
    for out in options.out:
        write_report(out, run, runs.results(run))
    short = shortfalls(run.summaries, bounds)
    if not run.rows:
        short.append("no row could be scored")
    for line in short:
        print(f"assay: {line}", file=sys.stderr)
    return int(bool(short))


async def make_run(config: Config, options: Options) -> EvaluationRun:
    """The run, made and saved."""
    mapper, tags = Mapper(options.maps), tags_of(options.tags)
    rows, bad = rows_of(options.data)
    target = target_of(options, config)
    judge = judge_of(config)
    try:
        make_data_folder(config.data_dir)
        runs = EvaluationRuns(config.data_dir)
        run = runs.create(options.name, options.description, tags)
        evaluation = Evaluation(
            config, judge, run_id=run.run_id, report=bad.report, mapper=mapper, target=target
        )
        began = time.monotonic()
        with runs.results_file(run).open("wb") as file:
            async for result in evaluation.results(rows):
                file.write(msgspec.json.encode(result) + b"\n")
        run.data, run.target = str(options.data), target.name if target is not None else ""
        run.metrics = evaluation.metrics()
        run.bad_rows = bad.count
        run.seconds = time.monotonic() - began
        run.summaries = summarise(runs.results(run))
        run.rows = sum(1 for _ in runs.results(run))
        runs.save(run)
    finally:
        if target is not None:
            await target.stop()
        if judge is not None:
            await judge.stop()
    if bad.count:
        print(f"assay: {bad.count} bad rows were left out", file=sys.stderr)
    return run


def rows_of(path: Path) -> tuple[list[DataRow], Bad]:
    """The rows of a file, and what reports those that are bad."""
    bad = Bad(str(path))
    rows = list(read_rows(path, bad.report))
    if not rows:
        raise Permanent(f"{path}: there are no rows" + (" that can be read" if bad.count else ""))
    return rows, bad


def bounds_of(given: Sequence[str]) -> dict[str, float]:
    """Least pass rate by metric, `*` for all. Raises ConfigError."""
    bounds: dict[str, float] = {}
    faults = []
    for text in given:
        name, equals, number = text.rpartition("=")
        try:
            bound = float(number)
            if not 0.0 <= bound <= 1.0 or (equals and not name):
                raise ValueError
        except ValueError:
            faults.append(f"--fail-under: got {text!r}; allowed: 0.9 or metric=0.9, from 0 to 1")
            continue
        bounds[name or "*"] = bound
    if faults:
        raise ConfigError(faults)
    return bounds


def tags_of(given: Sequence[str]) -> dict[str, str]:
    """Tags by key. Raises ConfigError."""
    pairs = [text.partition("=") for text in given]
    if any(not (key and equals) for key, equals, _ in pairs):
        raise ConfigError(["--tag: allowed: key=value"])
    return {key: value for key, _, value in pairs}


def list_runs(path: Path | None, tag: str | None, as_json: bool) -> None:
    """A row for each evaluation."""
    found = EvaluationRuns(load(config_path(path)).data_dir).list()
    if tag is not None:
        wanted = tags_of([tag]).items()
        found = [run for run in found if wanted <= run.tags.items()]
    if as_json:
        print_lines(found)
        return
    table(
        ("run", "made", "name", "data", "target", "rows", "bad", "tags"),
        (
            (
                run.run_id,
                moment(run.created_at),
                plain(run.name, 40),
                plain(run.data, 60),
                plain(run.target, 40),
                f"{run.rows:,}",
                f"{run.bad_rows:,}",
                plain(", ".join(f"{key}={value}" for key, value in run.tags.items()), 60),
            )
            for run in found
        ),
    )


def show_run(path: Path | None, name: str, out: Sequence[Path], as_json: bool) -> None:
    """An evaluation again."""
    runs = EvaluationRuns(load(config_path(path)).data_dir)
    run = runs.find(name)
    if run is None:
        raise Permanent(f"no evaluation {name}: `assay evaluations list` shows them")
    _show(run, as_json)
    for file in out:
        write_report(file, run, runs.results(run))


def _show(run: EvaluationRun, as_json: bool) -> None:
    if as_json:
        print_lines([run])
        return
    out = console()
    out.print(Text(f"{plain(run.name)}  {run.run_id}", "bold"))
    if run.description:
        out.print(Text(plain(run.description)))
    table(
        ("metric", "subject", "engine", "scored", "mean", "pass rate", "defect rate", "not scored"),
        (_row(summary) for summary in run.summaries),
    )
    speed = f", {run.rows / run.seconds:,.0f} rows/s" if run.seconds > 0 else ""
    out.print(Text(f"{run.rows:,} rows, {run.bad_rows:,} bad{speed}", "dim"))


def _row(summary: Summary) -> tuple[str, ...]:
    interval = summary.defect_rate
    return (
        plain(summary.metric, 40),
        summary.subject,
        plain(summary.engine, 30),
        f"{summary.scored:,}",
        "" if summary.mean is None else f"{summary.mean.value:.4g}",
        "" if summary.pass_rate is None else f"{summary.pass_rate:.1%}",
        ""
        if interval is None
        else f"{interval.value:.1%} ({interval.lower:.1%} to {interval.upper:.1%})",
        ", ".join(f"{n:,} {plain(why, 60)}" for why, n in summary.unscored.items()),
    )


def target_of(options: Options, config: Config) -> Target | None:
    """The target that was named. Raises ConfigError or Permanent for one that cannot be asked."""
    name = options.target
    if name is None:
        return None
    if name.startswith(("http://", "https://")):
        key = os.environ.get(KEY)
        return HttpTarget(name, {"authorization": f"Bearer {key}"} if key else None)
    kind, _, model = name.partition(":")
    if kind != "model":
        sys.path.insert(0, str(Path.cwd()))
        return FunctionTarget(name)
    judge = config.judge
    base_url = options.base_url or (judge.base_url if judge is not None else None)
    if not model or base_url is None:
        raise ConfigError(["--target: model:NAME needs --base-url, or a judge in the settings"])
    key = os.environ.get(KEY)
    if key is None and options.base_url is None and judge is not None and judge.api_key is not None:
        key = judge.api_key.get_secret_value()
    return ModelTarget(
        model,
        base_url=base_url,
        api_key=key,
        system=_text(options.system),
        examples=_examples(options.examples),
        sampling=Sampling(
            temperature=options.temperature, top_p=options.top_p, max_tokens=options.max_tokens
        ),
    )


def _text(path: Path | None) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path is not None else None
    except (OSError, UnicodeDecodeError) as error:
        raise Permanent(f"{path}: {error}") from error


def _examples(path: Path | None) -> list[dict[str, str]]:
    text = _text(path)
    found: list[dict[str, Any]] = []
    for number, line in enumerate((text or "").splitlines(), 1):
        if line.strip():
            try:
                found.append(msgspec.json.decode(line, type=dict[str, str]))
            except msgspec.DecodeError as error:
                raise Permanent(f"{path}:{number}: {error}") from error
    return found
