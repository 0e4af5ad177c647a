"""`assay score` without a file: the stream's turns to scores."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection

from assay.cli.process import Process
from assay.cli.up import any_entry
from assay.cli.wiring import make_data_folder, plan_of
from assay.config import Config
from assay.errors import ConfigError

GROUPS = ("local", "judge", "conversation", "backfill")
LIVE = ("local", "judge", "conversation")


@contextlib.asynccontextmanager
async def run(
    config: Config, listen: str | None, groups: Collection[str] = ()
) -> AsyncIterator[list[str]]:
    """Members of the groups (none named: all that live turns need), running; gives what is
    served. Raises ConfigError for a group that does not exist."""
    wrong = [
        f"--group: got {name!r}; allowed: {', '.join(GROUPS)}"
        for name in groups
        if name not in GROUPS
    ]
    if "backfill" in groups and config.bus.kafka is None:
        wrong.append("--group backfill: allowed: with bus.kafka in the settings")
    if config.judge is None:
        wrong += [
            f"--group {name}: allowed: with a judge: block in the settings"
            for name in ("judge", "conversation")
            if name in groups
        ]
    if wrong:
        raise ConfigError(wrong)
    make_data_folder(config.data_dir)
    plan, judge = plan_of(config)
    wanted = set(groups or LIVE)
    async with Process(config, listen) as process:
        if judge is not None:
            process.stack.push_async_callback(judge.stop)
        if "local" in wanted:
            from scorers.waiting_worker import WaitingWorker, waiting_part
            from scorers.worker import Worker

            await process.add("local", Worker(process.bus, plan, process.registry))
            # A group of its own, and no process of its own to deploy: it costs nothing but waiting.
            if any_entry(waiting_part(plan)):
                waiting = WaitingWorker(process.bus, plan, process.registry)
                await process.add("waiting", waiting)
        if "judge" in wanted and judge is not None:
            from scorers.judge_worker import JudgeWorker

            await process.add("judge", JudgeWorker(process.bus, plan, judge, process.registry))
        if "conversation" in wanted and judge is not None:
            from scorers.conversation_worker import ConversationWorker, conversation_part

            if any_entry(conversation_part(plan, judge, config)):
                await process.add(
                    "conversation",
                    ConversationWorker(process.bus, plan, judge, config, process.registry),
                )
        if "backfill" in wanted:
            from scorers.backfill_worker import BackfillWorker

            await process.add("backfill", BackfillWorker(process.bus, config, process.registry))
        yield [f"metrics    http://{process.address}/metrics"]
