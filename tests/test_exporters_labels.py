"""Label values: safe text, few values, and what does not fit folds into `other`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.records import SeriesKey
from exporters.labels import LIMITS, MAX_LENGTH, OTHER, Labels, label_text


@given(st.text(alphabet=st.characters(), max_size=700))
def test_label_text_is_printable_short_and_encodable(value: str) -> None:
    """Whatever comes, the label has no control character and no lone surrogate, and is short."""
    text = label_text(value)
    text.encode()
    assert len(text) <= MAX_LENGTH
    assert not any(ord(c) < 32 or 0x7F <= ord(c) <= 0x9F for c in text)
    assert label_text(text) == text


def test_hostile_values() -> None:
    """NUL, newlines, surrogates and 5,000 letters become harmless (case B82)."""
    assert label_text("a\x00b\r\nc") == "a b c"
    assert label_text("\ud83d!") == "\ufffd!"
    assert label_text("x" * 5000) == "x" * (MAX_LENGTH - 1) + "…"
    assert label_text("模型") == "模型"


def test_a_full_label_folds_and_counts() -> None:
    """Beyond its limit a label's new values are `other`; known ones stay; each fold is counted."""
    labels = Labels()
    for i in range(LIMITS["model"]):
        assert labels.admit("model", f"m{i}") == f"m{i}"
    assert labels.admit("model", "one more") == OTHER
    assert labels.admit("model", "m3") == "m3"
    assert labels.admit("model", "") == ""
    assert labels.folded["model"] == 1


def test_a_full_page_folds_model_and_version_first_then_app() -> None:
    """A series that may not be opened joins the widest one that keeps its metric."""
    key = SeriesKey("shop", "prod", "relevance", "local", "defect", "response", "m1", "v1")
    wide = SeriesKey("shop", "prod", "relevance", "local", "defect", "response", OTHER, OTHER)
    labels = Labels()
    assert labels.fold_key(key, {wide}) == wide
    assert labels.fold_key(key, set()) == SeriesKey(
        OTHER, OTHER, "relevance", "local", "defect", "response", OTHER, OTHER
    )
    assert labels.folded["series"] == 2
