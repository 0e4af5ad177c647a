"""The rooms import the core and never each other; the core imports no room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("collector", "scorers", "exporters", "dashboards")
FILES = sorted(
    path.relative_to(ROOT) for room in ("assay", *ROOMS) for path in (ROOT / room).rglob("*.py")
)


def imported(tree: ast.AST) -> Iterator[str]:
    """First parts of all imported names, also of imports inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.partition(".")[0]


def strangers(path: Path, source: str) -> set[str]:
    """The rooms that the file at `path` imports and must not."""
    if path.parts[:2] == ("assay", "cli"):
        return set()
    return set(imported(ast.parse(source))) & (set(ROOMS) - {path.parts[0]})


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_file_imports_no_other_room(path: Path) -> None:
    """Every file keeps to its own room and the core."""
    assert strangers(path, (ROOT / path).read_text()) == set()


def test_the_rule_sees_a_breach() -> None:
    """An import between rooms, or of a room by the core, is found; the command room may."""
    breach = "def f():\n    from scorers.plan import Plan\n"
    assert strangers(Path("collector/x.py"), breach) == {"scorers"}
    assert strangers(Path("assay/x.py"), "import exporters.rollup") == {"exporters"}
    assert strangers(Path("assay/cli/up.py"), breach) == set()
