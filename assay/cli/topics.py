"""`assay topics`: the topics on the brokers, and making them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from assay.cli.options import AsJson, ConfigFile, config_path


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(topics)


def topics(
    config: ConfigFile = None,
    create: Annotated[bool, typer.Option("--create", help="Make those that are missing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the stream's topics: partitions, records, lag of each group."""
    from assay.cli.show import print_lines, table
    from assay.config import load
    from assay.errors import ConfigError

    settings = load(config_path(config))
    if settings.bus.kafka is None:
        raise ConfigError(["bus.kafka: it is required: the embedded log makes its topics itself"])
    rows = asyncio.run(_rows(settings, create))
    if as_json:
        print_lines(rows)
        return
    table(
        ("topic", "partitions", "retention", "kept", "records", "lag"),
        [
            (
                row["topic"],
                str(row["partitions"]),
                f"{row['retention_seconds']:.0f} s",
                "latest of each key" if row["compact"] else "by age",
                str(row["records"]),
                ", ".join(f"{group} {lag}" for group, lag in row["lag"].items()),
            )
            for row in rows
        ],
    )


async def _rows(settings: Any, create: bool) -> list[dict[str, Any]]:
    from assay.bus.kafka import KafkaBus
    from assay.cli.wiring import state_topics_of, topics_of

    wanted = [*topics_of(settings), *state_topics_of(settings)]
    bus = KafkaBus(settings.bus.kafka, wanted, create=create)
    await bus.start()
    try:
        stats = await bus.topic_stats()
        return [
            {
                "topic": settings.bus.kafka.prefix + topic.name,
                "partitions": bus.partitions(topic.name),
                "retention_seconds": topic.retention,
                "compact": topic.compact,
                "records": stats[topic.name].records,
                "lag": stats[topic.name].lag,
            }
            for topic in wanted
        ]
    finally:
        await bus.stop()
