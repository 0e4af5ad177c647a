"""Generated rules: committed as generated, right for promtool, and about series that exist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from debian_tools import program
from promql import grouping_labels, selectors

from assay import series
from assay.config import load
from exporters.alerting.rules import Rule, rules_of
from exporters.rules.expressions import expression
from exporters.rules.generate import RECORDED, rules_file

FOLDER = Path(__file__).parent.parent / "dashboards" / "prometheus"
ROWS = {row.name: row for row in vars(series).values() if isinstance(row, series.Row)}
RULES = rules_of(load(FOLDER / "assay.yaml"))
EXPRESSIONS = [rule["expr"] for group in yaml.safe_load(rules_file(RULES))["groups"]
               for rule in group["rules"]]  # fmt: skip


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, cwd=FOLDER, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_committed_rules_are_the_codes() -> None:
    """The file that is shipped is what `assay rules` makes of the settings beside it."""
    assert (FOLDER / "assay.rules.yaml").read_text() == rules_file(RULES)


def test_promtool_accepts_the_rules() -> None:
    """promtool finds nothing wrong with the shipped rules."""
    assert "SUCCESS" in promtool("check", "rules", "assay.rules.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["assay.rules.test.yaml", "assay.rules.week.test.yaml"])
def test_rules_fire_when_they_should_and_only_then(name: str) -> None:
    """The shipped tests of the rules pass in promtool."""
    assert "SUCCESS" in promtool("test", "rules", name)


def test_hostile_names_stay_strings(tmp_path: Path) -> None:
    """No app name, label or runbook breaks out of its expression or template."""
    rule = Rule(
        alert='a"} or vector(1) # {{ $labels }}',
        cause="objective",
        metric="groundedness",
        app='x"} or up{a="\\',
        labels={"team": "{{ .Secret }}"},
        runbook="{{ $value }}\nnext",
    )
    path = tmp_path / "rules.yaml"
    path.write_text(rules_file([rule]))
    assert "SUCCESS" in promtool("check", "rules", str(path))
    [found] = [r for g in yaml.safe_load(path.read_text())["groups"] for r in g["rules"]
               if r.get("alert") == rule.alert]  # fmt: skip
    assert found["labels"]["team"] == '{{ "{{" }} .Secret }}'
    assert r'app="x\"} or up{a=\"\\"' in found["expr"]


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_rules_name_series_and_labels_that_exist(expr: str) -> None:
    """Every series and label of a rule is one that Assay exposes or records."""
    for name, labels in selectors(expr):
        if name not in RECORDED:
            assert labels <= set(ROWS[name].labels)
    known = {label for row in ROWS.values() for label in row.labels}
    assert grouping_labels(expr) <= known


def test_every_cause_has_a_rule() -> None:
    """The shipped settings have an alert of each cause."""
    causes = {rule.cause for rule in RULES}
    assert len(causes) == 10
    assert all(expression(rule) for rule in RULES)
