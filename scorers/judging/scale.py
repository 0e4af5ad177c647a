"""The scales that a judge may answer on."""

from __future__ import annotations

from typing import Literal

import msgspec

from assay.records import Direction


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One value of an ordinal scale."""

    name: str
    means: str


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding beside the value: a list of texts, or a rating for each part of an input."""

    about: str
    of: tuple[str, ...] = ()
    """The only texts allowed; empty: free text."""
    over: str = ""
    """An input whose parts are each rated on the prompt's own scale."""


class Scale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which answers there are.

    - `levels`: one of the named integers.
    - `number`: any number from `low` to `high`.
    - `boolean`: true or false; the value is 1 or 0.
    - `labels`: one of the named words; there is no value.
    - `pair`: which of two responses is better, A or B.
    - `share`: a true-or-false verdict for each item of a list; the value is computed from the
      share of true ones. With `over` the items are the numbered parts of that input, each of
      which needs exactly one verdict; without it the judge lists them itself.
    """

    kind: Literal["levels", "number", "boolean", "labels", "pair", "share"]
    levels: dict[int, Level] = {}
    low: float | None = None
    high: float | None = None
    true: str = ""
    false: str = ""
    labels: dict[str, str] = {}
    items: str = ""
    """Name of the list in the answer."""
    item: str = ""
    """What an item is, for the judge."""
    verdict: str = ""
    """Name of an item's verdict."""
    over: str = ""
    curve: Literal["linear", "quadratic"] = "linear"
    """Of the share f: f itself, or 1 + 4 f^2."""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Least and greatest value; none where answers have no value."""
        match self.kind:
            case "levels":
                return float(min(self.levels)), float(max(self.levels))
            case "number":
                assert self.low is not None and self.high is not None
                return self.low, self.high
            case "share" if self.curve == "quadratic":
                return 1.0, 5.0
            case "boolean" | "share" | "pair":
                return 0.0, 1.0
        return None

    def value_of(self, share: float) -> float:
        """The value that a share of true verdicts, 0 to 1, stands for."""
        return 1.0 + 4.0 * share * share if self.curve == "quadratic" else share


def scale_faults(scale: Scale, threshold: float | None, direction: Direction) -> list[str]:
    """What is wrong with a scale and its threshold."""
    needs: dict[str, tuple[str, ...]] = {
        "levels": ("levels",),
        "number": ("low", "high"),
        "boolean": ("true", "false"),
        "labels": ("labels",),
        "pair": (),
        "share": ("items", "item", "verdict"),
    }
    missing = [key for key in needs[scale.kind] if getattr(scale, key) in (None, "", {})]
    if missing:
        return [f"scale.{key}: needed by a scale of kind {scale.kind}" for key in missing]
    faults = []
    for value, level in scale.levels.items():
        if not level.name.strip() or not level.means.strip():
            faults.append(f"scale.levels.{value}: needs a name and a meaning")
    if scale.kind == "levels" and len(scale.levels) < 2:
        faults.append("scale.levels: needs two levels or more")
    if scale.kind == "levels":
        values = sorted(scale.levels)
        if values != list(range(values[0], values[-1] + 1)):
            faults.append("scale.levels: allowed: whole numbers without a gap")
    if scale.kind == "number" and not scale.low < scale.high:  # type: ignore[operator]
        faults.append("scale.high: allowed: a number above scale.low")
    bounds = scale.bounds
    if direction == "true_is_bad" and scale.kind != "boolean":
        faults.append("direction: true_is_bad needs a scale of kind boolean")
    if threshold is not None and (bounds is None or not bounds[0] <= threshold <= bounds[1]):
        faults.append("threshold: allowed: a value of the scale")
    return faults
