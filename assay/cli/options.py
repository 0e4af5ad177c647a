"""Options that many commands have, and the settings that they lead to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.errors import ConfigError

if TYPE_CHECKING:
    from assay.config import Config

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Settings file; default: ./assay.yaml if it is there."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        "-m",
        help="Metrics or sets, comma-separated, each with an engine if wanted: "
        "quality,f1_score,groundedness@judge. Default: the settings'.",
    ),
]


def config_path(path: Path | None) -> Path | None:
    """The file that was named, else ASSAY_CONFIG, else ./assay.yaml, else none."""
    if path is not None:
        return path
    if "ASSAY_CONFIG" in os.environ:
        return Path(os.environ["ASSAY_CONFIG"])
    return Path("assay.yaml") if Path("assay.yaml").exists() else None


def with_metrics(config: Config, text: str | None) -> Config:
    """The settings with the metrics of the option in place of their own. Raises ConfigError that
    names the position in the option."""
    from assay.config import MetricSettings

    if text is None:
        return config
    names = [name.strip() for name in text.split(",")]
    empty = [f"--metrics.{i}: allowed: a name" for i, name in enumerate(names) if not name]
    if empty:
        raise ConfigError(empty)
    metrics: list[str | dict[str, MetricSettings]] = []
    for name in names:
        metric, at, engine = name.partition("@")
        metrics.append({metric: MetricSettings(engine=engine)} if at else metric)
    return config.model_copy(update={"metrics": metrics, "apps": {}})
