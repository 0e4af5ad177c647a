"""What `assay compare` does: finds both sides, pairs them, and shows where they differ."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.cli.backfill_work import moment_of, store_of
from assay.cli.evaluate_work import Options, make_run
from assay.cli.options import config_path, with_metrics
from assay.cli.show import console, plain, print_lines, table
from assay.config import Config, load
from assay.errors import ConfigError, Permanent
from assay.records import Score
from scorers import compare as comparing
from scorers.backfill_run import Runs
from scorers.backfill_source import date_text, text
from scorers.evaluate import Result, whole_plan
from scorers.evaluate_run import EvaluationRuns
from scorers.judge import judge_of
from scorers.judged_plan import waiting_scores

IN_FLIGHT = 64
DAY = 86400 * 10**9


def compare(
    path: Path | None,
    baseline: str,
    candidate: str,
    *,
    metrics: str | None,
    pairwise: str | None,
    jailbreak: bool,
    since: str,
    as_json: bool,
) -> None:
    """Print the comparison of two sides."""
    config = load(config_path(path))
    wanted = metrics or ("content_safety" if jailbreak else None)
    first = _side(baseline, config, wanted, since)
    second = _side(candidate, config, wanted, since)
    rows: Sequence[Any]
    if isinstance(first, list) and isinstance(second, list):
        pairs = comparing.pairs_of(first, second)
        if not pairs:
            raise Permanent("no row of one side has its pair on the other: rows need the same `id`")
        if jailbreak:
            _show_vulnerabilities(comparing.vulnerabilities(pairs), as_json)
            return
        rows = comparing.compare_pairs(pairs)
        preferred = asyncio.run(_prefer(config, pairwise, pairs)) if pairwise else []
    elif jailbreak or pairwise:
        raise Permanent("--jailbreak and --pairwise need two evaluations or data sets")
    else:
        rows = comparing.compare_pools(_pooled(first), _pooled(second))
        preferred = []
    if not rows and not preferred:
        raise Permanent("the sides have no metric in common")
    if as_json:
        print_lines([*rows, *preferred])
        return
    _show(rows)
    _show_wins(preferred)


Side = list[Result] | dict[comparing.Key, comparing.Pool]


def _side(name: str, config: Config, metrics: str | None, since: str) -> Side:
    """Results where the rows can be paired, else pooled scores."""
    runs = EvaluationRuns(config.data_dir)
    run = runs.find(name)
    if run is not None:
        return list(runs.results(run))
    if Path(name).is_file():
        options = Options(data=Path(name), name=Path(name).stem)
        made = asyncio.run(make_run(with_metrics(config, metrics), options))
        return list(runs.results(made))
    backfills = [one.run_id for one in Runs(config.data_dir).list() if one.run_id.startswith(name)]
    if backfills:
        return asyncio.run(_stored(config, f"run = {text(backfills[-1])}"))
    app, at, version = name.rpartition("@")
    if not at:
        raise Permanent(f"{name}: no evaluation, file, backfill, or app@version")
    start = moment_of(since, "--since")
    where = (
        f"run = 'live' AND app = {text(app)} AND version = {text(version)} "
        f"AND date >= {date_text(start // DAY)}"
    )
    return asyncio.run(_stored(config, where))


async def _stored(config: Config, where: str) -> dict[comparing.Key, comparing.Pool]:
    store = store_of(config)
    found: list[Score] = []
    columns = "metric, subject, engine, direction, value, passed, weight, outcome"
    sql = f"SELECT {columns} FROM scores_latest WHERE {where}"  # noqa: S608 - quoted
    async for rows in store.stream(sql):
        found += [msgspec.convert(_present(row), Score) for row in rows]
    if not found:
        raise Permanent("the store has no scores of it")
    return comparing.pool(found)


def _present(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _pooled(side: Side) -> dict[comparing.Key, comparing.Pool]:
    if isinstance(side, dict):
        return side
    return comparing.pool(score for result in side for score in result.scores.scores)


async def _prefer(
    config: Config, metrics: str, pairs: Sequence[tuple[Result, Result]]
) -> list[comparing.Wins]:
    """Ask the judge which response of each pair is better."""
    if config.judge is None:
        raise ConfigError(["--pairwise: needs a judge in the settings"])
    names = ",".join(
        name if "@" in name else f"{name.strip()}@judge" for name in metrics.split(",")
    )
    chosen = with_metrics(config, names)
    judge = judge_of(chosen)
    assert judge is not None
    room = asyncio.Semaphore(IN_FLIGHT)
    try:
        entries = whole_plan(chosen, judge).base

        async def ask(baseline: Result, candidate: Result) -> tuple[Score, ...]:
            async with room:
                turn = msgspec.structs.replace(
                    candidate.turn, baseline_response=baseline.turn.response
                )
                return await waiting_scores(turn, entries, judge, "compare")

        answers = await asyncio.gather(*(ask(*pair) for pair in pairs))
    finally:
        await judge.stop()
    return comparing.wins(score for scores in answers for score in scores)


def _show(rows: Sequence[comparing.Comparison]) -> None:
    table(
        ("metric", "engine", "pairs", "mean", "difference", "p", "defect rate", "difference", "p"),
        (
            (
                f"{plain(row.metric, 40)} ({row.subject})",
                plain(row.engine, 24),
                f"{row.pairs:,}" if row.paired else "not paired",
                _change(row.baseline_mean, row.candidate_mean, ".4g"),
                _limits(row.mean, "+.3g"),
                _p(row.mean),
                _change(row.baseline_rate, row.candidate_rate, ".1%"),
                _limits(row.rate, "+.1%"),
                _p(row.rate),
            )
            for row in rows
        ),
    )


def _show_wins(rows: Sequence[comparing.Wins]) -> None:
    if rows:
        table(
            ("preference", "engine", "candidate", "baseline", "tie", "unanswered", "win rate", "p"),
            (
                (
                    plain(row.metric, 40),
                    plain(row.engine, 24),
                    f"{row.candidate:,}",
                    f"{row.baseline:,}",
                    f"{row.tie:,}",
                    f"{row.unanswered:,}",
                    _limits(row.win_rate, ".1%"),
                    _p(row.win_rate),
                )
                for row in rows
            ),
        )


def _show_vulnerabilities(rows: Sequence[comparing.Vulnerability], as_json: bool) -> None:
    if as_json:
        print_lines(rows)
        return
    if not rows:
        raise Permanent("neither side has scores of harms: --metrics content_safety")
    table(
        ("harm", "engine", "pairs", "made harmful by the attack", "rate", "not scored"),
        (
            (
                row.metric,
                plain(row.engine, 24),
                f"{row.pairs:,}",
                f"{row.defects:,}",
                ""
                if row.rate is None
                else f"{row.rate.value:.1%} ({row.rate.lower:.1%} to {row.rate.upper:.1%})",
                f"{row.unscored:,}",
            )
            for row in rows
        ),
    )
    console().print("Defect: harmful under attack where the baseline was not, or was less so.")


def _change(before: float | None, after: float | None, form: str) -> str:
    return "" if before is None or after is None else f"{before:{form}} -> {after:{form}}"


def _limits(found: Any, form: str) -> str:
    if found is None:
        return ""
    return f"{found.value:{form}} ({found.lower:{form}} to {found.upper:{form}})"


def _p(found: Any) -> str:
    return "" if found is None else f"{found.p:.2g}"
