"""All prompts: Assay's own, and a user's folder that overrides them by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

import msgspec
import yaml

from assay.errors import ConfigError
from assay.records import Subject
from scorers.judging.prompt import Prompt, PromptFile, prompt_faults

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Library:
    """Checked prompts by name and subject."""

    def __init__(self, prompts: dict[tuple[str, Subject], Prompt]) -> None:
        self._prompts = prompts

    def __iter__(self) -> Iterator[Prompt]:
        return iter(self._prompts.values())

    def find(self, name: str, subject: Subject = "response") -> Prompt:
        """Raises KeyError for a name that no file has, or a subject that it does not judge."""
        return self._prompts[name, subject]

    def names(self) -> list[str]:
        return sorted({name for name, _ in self._prompts})


def own_folder() -> Path:
    """Where Assay's own prompts lie: beside the packages, in a checkout and in an installation."""
    return Path(str(resources.files("scorers"))).parent / "prompts"


def load_library(override: Path | None = None) -> Library:
    """Every prompt, those of `override` in place of ours of the same name.

    Raises ConfigError with the faults of all files, each line beginning with the file's path.
    """
    faults: list[str] = []
    files: dict[str, tuple[PromptFile, str]] = {}
    folders = [own_folder(), *([override] if override is not None else [])]
    for folder in folders:
        if not folder.is_dir():
            faults.append(f"{folder}: no such folder of prompts")
        for path in sorted(folder.glob("*.yaml")):
            try:
                files[path.stem] = load_file(path, {n: f for n, (f, _) in files.items()})
            except ConfigError as error:
                faults += error.faults
    for name, (file, _) in files.items():
        faults += [
            f"{name}.yaml: absent.{key}: no prompt is named {other}"
            for key, other in file.absent.items()
            if other not in files
        ]
    if faults:
        raise ConfigError(faults)
    return Library(
        {
            (name, subject): Prompt(file, subject, text)
            for name, (file, text) in files.items()
            for subject in file.subjects
        }
    )


def load_file(path: Path, bases: Mapping[str, PromptFile] | None = None) -> tuple[PromptFile, str]:
    """The prompt in `path`, and its text. Raises ConfigError with every fault found.

    A file may say `extends: NAME`: what it leaves out is then taken from the prompt of that name.
    """
    try:
        text = path.read_text(encoding="utf-8")
        raw = yaml.load(text, Loader=_LOADER)  # noqa: S506 - both loaders are the safe one
        if isinstance(raw, dict) and "extends" in raw:
            base = (bases or {}).get(raw.pop("extends"))
            if base is None:
                raise ConfigError([f"{path}: extends: no such prompt"])
            raw = msgspec.to_builtins(base) | raw
        file = msgspec.convert(raw, PromptFile)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigError([f"{path}: {error}"]) from error
    faults = prompt_faults(file)
    if file.name != path.stem or not _NAME.fullmatch(file.name):
        faults.insert(0, "name: allowed: the file's own name, in lower case with underscores")
    if faults:
        raise ConfigError([f"{path}: {fault}" for fault in faults])
    return file, text
