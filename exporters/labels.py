"""Label values: text that no page can break on, and few enough of them.

Whatever an app calls itself or its model ends up here. Text is made printable and short; a label
holds at most a stated number of values, and what comes after them is `other`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import lru_cache

import msgspec

from assay.records import SeriesKey

MAX_LENGTH = 128
"""Characters of a label value; longer ones end in an ellipsis."""
OTHER = "other"
LIMITS = {
    "app": 200,
    "environment": 20,
    "metric": 200,
    "engine": 50,
    "model": 100,
    "version": 100,
    "reason": 64,
}
"""Distinct values per label; `kind`, `subject` and `outcome` are closed sets."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


@lru_cache(maxsize=4096)
def label_text(value: str) -> str:
    """`value` as a label: control characters become a space, lone surrogates U+FFFD; cut to
    MAX_LENGTH."""
    text = _UNPRINTABLE.sub(" ", _SURROGATE.sub("\ufffd", value[: 4 * MAX_LENGTH])).strip()
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"


class Labels:
    """The values that each label holds, learnt as they come."""

    def __init__(self, limits: dict[str, int] | None = None) -> None:
        self._limits = LIMITS if limits is None else limits
        self._values: dict[str, set[str]] = {label: set() for label in self._limits}
        self.folded: dict[str, int] = dict.fromkeys((*self._limits, "series"), 0)
        """How often a value became `other`, by label; `series` when the page was full."""

    def admit(self, label: str, value: str) -> str:
        """`value` when the label holds it or has room, else `other`. Empty is always there."""
        values = self._values[label]
        if value in values or not value or value == OTHER:
            return value
        if len(values) < self._limits[label]:
            values.add(value)
            return value
        self.folded[label] += 1
        return OTHER

    def learn(self, key: SeriesKey) -> None:
        """`key` is there already: its values are held whatever the limits."""
        for label, values in self._values.items():
            if value := getattr(key, label, ""):
                values.add(value)

    def admit_key(self, key: SeriesKey) -> SeriesKey:
        """`key` with every value made safe and admitted."""
        return SeriesKey(
            app=self.admit("app", label_text(key.app)),
            environment=self.admit("environment", label_text(key.environment)),
            metric=self.admit("metric", label_text(key.metric)),
            engine=self.admit("engine", label_text(key.engine)),
            kind=key.kind,
            subject=key.subject,
            model=self.admit("model", label_text(key.model)),
            version=self.admit("version", label_text(key.version)),
        )

    def fold_key(self, key: SeriesKey, taken: Container[SeriesKey]) -> SeriesKey:
        """The series that `key` joins when no further one may be opened: first without its model
        and version, then without its app and environment."""
        self.folded["series"] += 1
        wide = msgspec.structs.replace(
            key, model=key.model and OTHER, version=key.version and OTHER
        )
        if wide in taken:
            return wide
        return msgspec.structs.replace(wide, app=OTHER, environment=OTHER)
