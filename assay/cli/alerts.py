"""`assay alerts`: what fires, and telling people less of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import AsJson, ConfigFile, config_path

if TYPE_CHECKING:
    from assay.cli.source import Remote

commands = typer.Typer(help="The alerts: list, silence, start baselines anew.")
Api = Annotated[
    str | None,
    typer.Option("--api", help="host:port of the exporter; default: the agent of the data folder."),
]


@commands.callback(invoke_without_command=True)
def alerts(
    context: typer.Context, config: ConfigFile = None, api: Api = None, as_json: AsJson = False
) -> None:
    """List the alerts, the tests for regressions and the silences."""
    if context.invoked_subcommand is None:
        show(agent_of(config, api).ask("GET", "alerts"), as_json)


@commands.command()
def silence(
    name: Annotated[str, typer.Argument(help="Name of the alert.")],
    lasting: Annotated[str, typer.Option("--for", help="How long: 30m, 4h, 2d.")] = "2h",
    match: Annotated[
        list[str] | None, typer.Option("--match", "-m", help="Only with this label: app=shop.")
    ] = None,
    comment: Annotated[str, typer.Option(help="Why.")] = "",
    config: ConfigFile = None,
    api: Api = None,
) -> None:
    """Tell nobody of an alert for a while; it is still shown."""
    from assay.config import load
    from assay.config_values import seconds
    from assay.errors import Permanent

    # Another agent, at --api, may have other settings.
    named = [alert.name for alert in load(config_path(config)).alerts]
    if api is None and name not in named:
        raise Permanent(f"no alert is called {name}; in the settings: {', '.join(named) or 'none'}")
    matches = {"alert": name}
    for text in match or ():
        label, equals, value = text.partition("=")
        if not equals or not label:
            raise typer.BadParameter(f"{text!r}: allowed: label=value", param_hint="--match")
        matches[label] = value
    try:
        length = seconds(lasting)
    except ValueError as error:
        raise typer.BadParameter(f"{lasting!r}: allowed: {error}", param_hint="--for") from None
    body = {"matches": matches, "seconds": length, "comment": comment}
    found = agent_of(config, api).ask("POST", "silences", body)
    typer.echo(f"silenced as {found['id']}; `assay alerts unsilence {found['id']}` ends it")


@commands.command()
def unsilence(
    silence_id: Annotated[str, typer.Argument(help="As `assay alerts` lists it.")],
    config: ConfigFile = None,
    api: Api = None,
) -> None:
    """End a silence."""
    agent_of(config, api).ask("DELETE", f"silences/{silence_id}")


@commands.command()
def rebaseline(config: ConfigFile = None, api: Api = None) -> None:
    """Start the baseline of every regression anew: how things are is how they should be."""
    agent_of(config, api).ask("POST", "baselines", {})


def show(listed: dict[str, Any], as_json: bool) -> None:
    """Print what the API tells of the alerts."""
    from assay.cli.show import plain, print_lines, table

    if as_json:
        print_lines([listed])
        return
    order = {"firing": 0, "pending": 1, "resolved": 2}
    table(
        ("state", "alert", "cause", "app", "metric", "engine", "since", "what"),
        [
            (
                f"{alert['state']}{' (silenced)' if alert['silenced'] else ''}",
                *(plain(alert["labels"].get(k), 60) for k in ("alert", "cause", "app", "metric")),
                plain(alert["labels"].get("engine"), 40),
                _ago(alert["since"]),
                plain(alert["annotations"].get("summary"), 200),
            )
            for alert in sorted(listed["alerts"], key=lambda a: order[a["state"]])
        ],
    )
    if listed["regression"]:
        table(
            ("regression test", "app", "metric", "engine", "evidence", "no news up to"),
            [
                (
                    *(plain(test[k], 60) for k in ("alert", "app", "metric", "engine")),
                    f"{test['evidence']:.3g}",
                    "no baseline yet" if test["baseline"] is None else f"{test['baseline']:.1%}",
                )
                for test in listed["regression"]
            ],
        )
    for one in listed["silences"]:
        matches = ", ".join(f"{k}={v}" for k, v in one["matches"].items())
        left = (one["until"] - time.time()) / 60
        typer.echo(plain(f"silence {one['id']}: {matches}, for {left:.0f} minutes more", 200))


def agent_of(config: Path | None, api: str | None) -> Remote:
    """The agent that runs on the data folder, or answers at `api`. Raises Permanent."""
    from assay.cli.source import Remote, answering
    from assay.config import load
    from assay.errors import Permanent

    settings = load(config_path(config))
    found = Remote(api, settings) if api is not None else answering(settings)
    if found is None:
        raise Permanent(f"nothing runs on the data folder {settings.data_dir}: `assay up`")
    return found


def _ago(at: float) -> str:
    seconds = max(0.0, time.time() - at)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit} ago"
    return f"{seconds:.0f}s ago"
