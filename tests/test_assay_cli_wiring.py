"""The data folder: made for its owner alone, or a fault of the settings that names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.cli.wiring import check_plan, make_data_folder
from assay.config import Config
from assay.errors import ConfigError


def test_the_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Raw spans lie in it."""
    make_data_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_folder_under_a_file_is_a_fault_of_the_settings(tmp_path: Path) -> None:
    """It says which folder and why, and no traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot make .*file/data: Not a directory"):
        make_data_folder(tmp_path / "file" / "data")


def test_a_folder_that_may_not_be_written_is_a_fault_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mounted volume's owner is somebody else, who lets others read only."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", refused)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="not writable"):
        make_data_folder(tmp_path)


@pytest.mark.parametrize(
    ("judge", "engine", "fault"),
    [
        (False, None, "level"),
        (True, None, None),
        (True, "m", None),
        (True, "local", "level"),
        (True, "judge", "engine"),
    ],
)
def test_an_alert_that_could_never_fire_is_refused(
    judge: bool, engine: str | None, fault: str | None
) -> None:
    """A judge alone tells severities, and its series have the name of its model."""
    settings: dict[str, object] = {
        "metrics": ["violence", *([{"violence": {"engine": "judge"}}] if judge else [])],
        "judge": {"base_url": "http://127.0.0.1:1/v1", "model": "m"} if judge else None,
        "alerts": [{"name": "a", "metric": "violence", "level": "low", "engine": engine}],
    }
    config = Config.model_validate(settings)
    if fault is None:
        check_plan(config)
    else:
        with pytest.raises(ConfigError, match=rf"^alerts\.0\.{fault}: "):
            check_plan(config)
