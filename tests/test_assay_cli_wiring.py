"""The data folder: made for its owner alone, or a fault of the settings that names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.cli.wiring import make_data_folder
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
