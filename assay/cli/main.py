"""`assay`: every command and its options. What a command does is in a module of its own, imported
when it runs, so that `assay --help` answers at once."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay import __version__
from assay.cli import (
    adversarial,
    alerts,
    backfill,
    compare,
    corpus,
    dead_letter,
    evaluate,
    explain,
    grafana,
    label,
    prompts,
    rules,
    stages,
    topics,
)
from assay.cli.options import AsJson, ConfigFile, config_path
from assay.errors import AssayError, ConfigError

if TYPE_CHECKING:
    from assay.cli.source import Source
    from assay.config import Config

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
turns = typer.Typer(help="The turns that came in, and their scores.", no_args_is_help=True)
conversations = typer.Typer(help="Turns joined by their conversation.", no_args_is_help=True)
metrics = typer.Typer(help="The catalogue of metrics.", no_args_is_help=True)
config_app = typer.Typer(help="The settings.", no_args_is_help=True)
doctor = typer.Typer(help="Check the installation; each fault with its fix.")
app.add_typer(turns, name="turns")
app.add_typer(conversations, name="conversations")
app.add_typer(metrics, name="metrics")
app.add_typer(config_app, name="config")
app.add_typer(doctor, name="doctor", invoke_without_command=True)
app.add_typer(prompts.prompts, name="prompts")
app.add_typer(dead_letter.commands, name="dead-letter")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"assay {__version__}")
        raise typer.Exit


@app.callback()
def assay(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Watch the quality of LLM applications: OpenTelemetry traces in, scores out."""


Since = Annotated[str, typer.Option(help="How far back: 10m, 3h, 2d.")]
App = Annotated[str | None, typer.Option("--app", help="Only this app (service.name).")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the latest.")]


def settings(path: Path | None) -> Config:
    """The settings that a command works with, checked as a whole."""
    from assay.cli.wiring import check_plan
    from assay.config import load

    return load(config_path(path), checks=[check_plan])


def _source(path: Path | None) -> tuple[Config, Source]:
    from assay.cli.source import open_source
    from assay.config import load

    config = load(config_path(path))
    return config, open_source(config)


def _selection(
    since: str, app_name: str | None, limit: int, conversation: str | None = None
) -> Any:
    from assay.config_values import seconds
    from assay.lookup import Selection

    try:
        return Selection(
            since=seconds(since), app=app_name, conversation_id=conversation, limit=limit
        )
    except ValueError as error:
        raise typer.BadParameter(f"{since!r}: allowed: {error}", param_hint="--since") from None


@app.command()
def up(
    config: ConfigFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run the whole agent: OTLP in, scores, /metrics and the store out."""
    from assay.cli.up import main as run_up

    run_up(settings(config), verbose=verbose)


@app.command()
def demo(
    config: ConfigFile = None,
    rate: Annotated[float, typer.Option(min=0.01, max=200, help="Conversations a second.")] = 2.0,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    mix: Annotated[
        str | None, typer.Option(help="Shares of kinds, such as good=70,ungrounded=20,unsafe=10.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same conversations.")] = 7,
    app_name: Annotated[str, typer.Option("--app", help="service.name of the shop.")] = "demo-shop",
    endpoint: Annotated[
        str | None, typer.Option(help="OTLP/HTTP door; default: that of the running agent.")
    ] = None,
) -> None:
    """Send conversations of a simulated help desk; starts the agent if none answers."""
    from assay.cli.demo import run as run_demo
    from assay.cli.shop import MIX, parse_mix

    try:
        shares = parse_mix(mix) if mix is not None else MIX
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--mix") from None
    run_demo(
        settings(config),
        config_path(config),
        endpoint=endpoint,
        rate=rate,
        conversations=count,
        mix=shares,
        seed=seed,
        app=app_name,
    )


@app.command()
def tail(config: ConfigFile = None, app_name: App = None, as_json: AsJson = False) -> None:
    """Show each turn with its scores and reasons as it is scored. Ctrl-C stops."""
    from assay.cli.show import show_tail

    show_tail(_source(config)[1].tail(app_name), as_json)


@app.command()
def status(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show what the running agent does: stages, lag, stream, ledger."""
    from assay.cli.show import show_status

    show_status(_source(config)[1].status(), as_json)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="A select over turns, scores or scores_latest.")],
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask the store in SQL."""
    from assay.cli.show import show_rows

    show_rows(_source(config)[1].query(sql), as_json)


@app.command()
def score(
    file: Annotated[
        str | None,
        typer.Argument(help="JSON lines, - for standard input; without it: the stream's turns."),
    ] = None,
    metric_names: Annotated[
        str | None,
        typer.Option(
            "--metrics", "-m", help="Metrics or sets, comma-separated; default: settings'."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Of the stream's scorers: local or judge; default: all."),
    ] = None,
    listen: stages.Listen = None,
    verbose: stages.Verbose = False,
    config: ConfigFile = None,
) -> None:
    """Score rows of a file, one TurnScores a line in the same order; or, without a file, run a
    scorer of the stream."""
    if file is None:
        return stages.score(config, group or (), listen, verbose=verbose)
    from assay.cli.score import run as run_score

    raise typer.Exit(run_score(file, metric_names, config_path(config)))


@app.command()
def schema(
    record: Annotated[str | None, typer.Argument(help="Turn, TurnScores, ...")] = None,
) -> None:
    """Print the JSON Schema of the records."""
    from assay.cli.schema import print_schema

    print_schema(record)


@turns.command("list")
def turns_list(
    config: ConfigFile = None,
    since: Since = "1h",
    app_name: App = None,
    conversation: Annotated[str | None, typer.Option(help="Only this conversation.")] = None,
    limit: Limit = 30,
    as_json: AsJson = False,
) -> None:
    """List the latest turns."""
    from assay.cli.show import show_turns

    selection = _selection(since, app_name, limit, conversation)
    show_turns(_source(config)[1].turns(selection), as_json)


@turns.command("show")
def turns_show(
    turn_id: Annotated[str, typer.Argument(help="A turn's id, or how it begins.")],
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show all about one turn: content, and why each metric did or did not score it."""
    from assay.cli.show import show_turn
    from assay.errors import Permanent

    found = _source(config)[1].turn(turn_id)
    if found is None:
        raise Permanent(f"no turn {turn_id}")
    show_turn(found, as_json)


@conversations.command("list")
def conversations_list(
    config: ConfigFile = None,
    since: Since = "1h",
    app_name: App = None,
    limit: Limit = 30,
    as_json: AsJson = False,
) -> None:
    """List the latest conversations."""
    from assay.cli.show import show_conversations

    selection = _selection(since, app_name, limit)
    show_conversations(_source(config)[1].conversations(selection), as_json)


@conversations.command("show")
def conversations_show(
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    config: ConfigFile = None,
    since: Since = "3d",
    app_name: App = None,
    as_json: AsJson = False,
) -> None:
    """Show a conversation: its turns in order, with their scores; of each app that has one."""
    from assay.cli.show import show_conversation
    from assay.errors import Permanent

    found = _source(config)[1].conversations(_selection(since, app_name, 10, conversation))
    if not found:
        raise Permanent(f"no conversation {conversation} in the last {since}")
    for one in found:
        show_conversation(one, as_json)


@metrics.command("list")
def metrics_list(as_json: AsJson = False) -> None:
    """List the catalogue: kind, subject, engines, scale, threshold."""
    from assay.cli.metrics import list_metrics

    list_metrics(as_json)


@metrics.command("show")
def metrics_show(
    name: Annotated[str, typer.Argument(help="A metric's name, or another name it has.")],
    as_json: AsJson = False,
) -> None:
    """Show a metric's contract."""
    from assay.cli.metrics import show_metric

    show_metric(name, as_json)


@metrics.command("report")
def metrics_report() -> None:
    """Print what the local engines reached on labelled data, as Markdown."""
    from assay.cli.metrics import print_report

    print_report()


@config_app.command("check")
def config_check(config: ConfigFile = None) -> None:
    """Check the settings; every fault with its key and what is allowed."""
    path = config_path(config)
    settings(path)
    typer.echo(f"{path if path is not None else 'the defaults'}: right")


@config_app.command("show")
def config_show(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show the settings in force; secrets are stars."""
    from assay.cli.schema import print_settings

    print_settings(settings(config), as_json)


@doctor.callback()
def doctor_all(context: typer.Context, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Check the installation; each fault with its fix."""
    if context.invoked_subcommand is None:
        from assay.cli.doctor import run as run_doctor

        raise typer.Exit(run_doctor(config_path(config), as_json))


@doctor.command("dialects")
def doctor_dialects(
    file: Annotated[Path, typer.Argument(help="OTLP export requests: JSON lines, may be .gz.")],
    as_json: AsJson = False,
) -> None:
    """Explain how a capture was read: per span, by which reader, what was taken."""
    from assay.cli.doctor import explain_capture

    explain_capture(file, as_json)


stages.register(app)
topics.register(app)
rules.register(app)
explain.register(app)
app.add_typer(alerts.commands, name="alerts")
app.add_typer(grafana.commands, name="grafana")
backfill.register(app)
evaluate.register(app)
compare.register(app)
label.register(app)
corpus.register(app)
adversarial.register(app)


def main(call: Callable[[], Any] = app) -> None:
    """The console script: faults go to standard error, one a line, with exit status 2 for
    settings and 1 for the rest. What the terminal's encoding lacks is shown as `?`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        call()
    except ConfigError as error:
        for fault in error.faults:
            print(f"assay: {fault}", file=sys.stderr)
        sys.exit(2)
    except AssayError as error:
        print(f"assay: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of a pipe went away, as `head` does; closing flushes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
