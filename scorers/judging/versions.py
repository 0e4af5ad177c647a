"""Every wording that a prompt ever had here: kept at start, compared, and brought back.

A version lies in the data folder as `prompts/<name>/<digest>/<name>.yaml`, the text as it was; its
file time is when it was first used.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from assay.errors import Permanent
from assay.records import Subject
from assay.store import Store
from scorers.judging.library import Library, load_file
from scorers.judging.prompt import Prompt, PromptFile

ARCHIVE = "prompts"
"""The archive's place in the data folder."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One wording of a prompt."""

    name: str
    version: str
    """As its file says."""
    digests: dict[Subject, str]
    """What stands in the Scores that it gave, by subject."""
    first_used: int
    """Nanoseconds since the Unix epoch."""
    current: bool
    text: str

    @property
    def digest(self) -> str:
        """Of its first subject: the version's own name."""
        return next(iter(self.digests.values()))


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, or a conversation, that two versions judged differently."""

    subject_id: str
    app: str
    subject: Subject
    engine: str
    first: str | None
    second: str | None
    """The values as text, or the labels where there are none."""
    first_passed: bool | None
    second_passed: bool | None


_DIFFER = """
SELECT DISTINCT a.subject_id, a.app, a.subject, a.engine,
    coalesce(CAST(a.value AS VARCHAR), a.label) AS first,
    coalesce(CAST(b.value AS VARCHAR), b.label) AS second,
    a.passed AS first_passed, b.passed AS second_passed
FROM scores AS a JOIN scores AS b
    ON a.subject_id = b.subject_id AND a.subject = b.subject AND a.engine = b.engine
WHERE a.prompt_digest IN ({first}) AND b.prompt_digest IN ({second})
    AND a.outcome = 'scored' AND b.outcome = 'scored'
    AND (a.value <> b.value OR a.label <> b.label)
ORDER BY a.subject_id, a.subject, a.engine
"""


class Archive:
    """The versions in `folder`."""

    def __init__(self, folder: Path, library: Library) -> None:
        self._folder = folder
        self._library = library

    def keep(self) -> None:
        """Keep every prompt of the library that is not kept yet."""
        for prompt in self._library:
            if prompt.subject != prompt.file.subjects[0]:
                continue
            path = self._folder / prompt.name / prompt.digest / f"{prompt.name}.yaml"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(prompt.source, encoding="utf-8")

    def history(self, name: str) -> list[Version]:
        """The versions of a prompt, the first used first. Raises Permanent for an unknown name."""
        current = {p.digest for p in self._library if p.name == name}
        bases = {prompt.name: prompt.file for prompt in self._library}
        found = [
            _version(path, bases, current) for path in (self._folder / name).glob(f"*/{name}.yaml")
        ]
        if not found:
            raise Permanent(f"no version of a prompt {name!r} is kept in {self._folder}")
        return sorted(found, key=lambda version: version.first_used)

    def find(self, name: str, which: str) -> Version:
        """The version that `which` names: the beginning of a digest, or a version number that only
        one has. Raises Permanent."""
        history = self.history(name)
        found = [v for v in history if any(d.startswith(which) for d in v.digests.values())]
        found = found or [version for version in history if version.version == which]
        if len(found) != 1:
            known = ", ".join(f"{v.digest} (version {v.version})" for v in history)
            raise Permanent(f"{which!r} names {len(found)} versions of {name}; there are: {known}")
        return found[0]

    def diff(self, name: str, first: str, second: str) -> str:
        """What changed from one version to another, line by line."""
        old, new = self.find(name, first), self.find(name, second)
        lines = difflib.unified_diff(
            old.text.splitlines(),
            new.text.splitlines(),
            f"{name} {old.digest}",
            f"{name} {new.digest}",
            lineterm="",
        )
        return "\n".join(lines)

    def use(self, name: str, which: str, folder: Path) -> Path:
        """Write a version into the user's folder, where it takes effect at the next start."""
        version = self.find(name, which)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.yaml"
        path.write_text(version.text, encoding="utf-8")
        return path


async def disagreements(store: Store, first: Version, second: Version) -> list[Disagreement]:
    """The stored turns and conversations that the same model judged differently by the two
    versions, by their ids. Raises as `Store.query`."""
    rows = await store.query(
        _DIFFER.format(first=_listed(first.digests), second=_listed(second.digests))
    )
    return [msgspec.convert(row, Disagreement) for row in rows]


def _listed(digests: Mapping[Subject, str]) -> str:
    return ", ".join(f"'{digest}'" for digest in digests.values())


def _version(path: Path, bases: dict[str, PromptFile], current: set[str]) -> Version:
    file, text = load_file(path, bases)
    digests = {subject: Prompt(file, subject, text).digest for subject in file.subjects}
    return Version(
        name=file.name,
        version=file.version,
        digests=digests,
        first_used=path.stat().st_mtime_ns,
        current=bool(current & set(digests.values())),
        text=text,
    )
