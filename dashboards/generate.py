"""Writes the boards: `python -m dashboards.generate`. A test holds files and code together."""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.boards.judge import judge
from dashboards.boards.overview import overview
from dashboards.boards.pipeline import pipeline
from dashboards.boards.quality import quality
from dashboards.boards.safety import safety
from dashboards.boards.tools import tools

BOARDS = {
    "overview": overview,
    "app-quality": quality,
    "safety": safety,
    "tools-and-agents": tools,
    "judge": judge,
    "pipeline-health": pipeline,
}
FOLDER = Path(__file__).parent / "grafana"


def rendered() -> dict[str, str]:
    """The text of each board by its file's name."""
    encoder = JSONEncoder(sort_keys=True, indent=2)
    return {
        f"{name}.json": f"{encoder.encode(board().build())}\n" for name, board in BOARDS.items()
    }


if __name__ == "__main__":
    for name, text in rendered().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
