"""The words agree with the code: settings, metrics, commands, paths."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from assay.cli.main import app
from assay.cli.reference import TABLES, rewrite

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
PLACES = re.findall(r"`([\w/]+\.py)`((?:,? `[A-Za-z_]\w*`)*)", ARCHITECTURE)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_readme_is_the_codes(name: str) -> None:
    """Settings and metrics stand in the README as the code has them: `make docs` writes them."""
    assert f"<!-- {name} -->\n{TABLES[name]()}\n<!-- end of {name} -->" in README


def test_tables_are_rewritten_between_their_marks() -> None:
    """A stale table is replaced, the text around it stays."""
    stale = "before\n<!-- settings -->\nold\n<!-- end of settings -->\nafter"
    fresh = rewrite(stale)
    assert fresh.startswith("before\n<!-- settings -->\n| setting |") and fresh.endswith("\nafter")
    assert rewrite(fresh) == fresh


@pytest.mark.parametrize(("path", "names"), PLACES, ids=[path for path, _ in PLACES])
def test_what_the_map_names_exists(path: str, names: str) -> None:
    """Each file of ARCHITECTURE.md is there and has the names that stand beside it."""
    tree = ast.parse((ROOT / path).read_text())
    known = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    known |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    known |= {
        alias.asname or alias.name
        for n in ast.walk(tree)
        if isinstance(n, ast.ImportFrom)
        for alias in n.names
    }
    assert set(re.findall(r"\w+", names)) <= known


def test_the_map_names_files() -> None:
    """The pattern that finds the places finds them."""
    assert len(PLACES) > 20
    for folder in re.findall(r"`([\w/]+/)`", ARCHITECTURE):
        assert (ROOT / folder).is_dir()


def commands() -> set[str]:
    """Every command as it is typed."""
    found = set()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", {})
        if not below or command.invoke_without_command:
            found.add(f"assay {name}")
        found |= {f"assay {name} {sub}" for sub in below}
    return found


def test_the_readme_has_every_command_and_no_other() -> None:
    """The table of commands is complete, and what it names exists."""
    section = README.partition("## Commands")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    named = set()
    for line in table:
        for typed in re.findall(r"`(assay [^`]*)`", line.split(" | ")[0]):
            words = re.sub(r" (--\S+|[A-Za-z,]*[A-Z][^ ]*|a,b)", "", typed)
            named.add(words.strip())
    assert named == commands()


def test_the_changelog_has_an_unreleased_part() -> None:
    """Changes that users see are written down before a release."""
    assert "\n## Unreleased\n\n- [" in (ROOT / "CHANGELOG.md").read_text()


def test_the_example_settings_are_right(tmp_path: Path) -> None:
    """The settings that the README shows load, and their metrics can be scored."""
    from assay.cli.wiring import check_plan
    from assay.config import load

    blocks = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    examples = [block for block in blocks if "scrape_configs" not in block]
    assert len(examples) == 3
    env = {"ASSAY_API_KEY": "k-1", "LLM_KEY": "k-2", "SLACK_WEBHOOK": "http://127.0.0.1/hook"}
    for example in examples:
        path = tmp_path / "assay.yaml"
        path.write_text(textwrap.dedent(example))
        load(path, env, checks=[check_plan])


def test_the_lock_has_every_dependency() -> None:
    """What pyproject.toml asks for stands in the lock with one version."""

    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", re.split(r"[<>=;\[ ]", name)[0].lower())

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    locked = [plain(line) for line in lines if "==" in line]
    assert {plain(name) for name in asked} <= set(locked)
    assert len(locked) == len(set(locked)) == len(lines) - 1
