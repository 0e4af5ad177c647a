from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from assay.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "quality.md"


def test_report():
    """What the local engines reached is printed from data that is installed with them."""
    result = CliRunner().invoke(app, ["metrics", "report"])
    assert result.exit_code == 0
    assert result.output == PAGE.read_text(encoding="utf-8")
    assert "direct_attack_attempt" in result.output
