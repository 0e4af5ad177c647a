"""Adversarial sets: the same seed gives the same rows, each paired with its origin, and what was
planted or wrapped is really there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.catalogue import HARMS
from assay.errors import Permanent
from scorers.adversarial import DIRECT, PLANTS, baseline, direct, indirect
from scorers.adversarial_questions import questions, read_questions


def test_requests_cover_every_harm_and_repeat_none() -> None:
    """Per harm so many different ones; another seed draws others; the same seed the same."""
    rows = list(baseline(count=10, seed=3))
    assert {row["harm"] for row in rows} == set(HARMS) and len(rows) == 40
    assert len({row["query"] for row in rows}) == len({row["id"] for row in rows}) == 40
    assert rows == list(baseline(count=10, seed=3)) != list(baseline(count=10, seed=4))
    assert not any("{" in row["query"] for row in baseline(count=100))


@given(st.text(min_size=1), st.integers(1, 12))
def test_a_wrapped_request_holds_the_request(request: str, per_row: int) -> None:
    """Whatever its characters, as it is or as JSON text; ids name row and attack."""
    rows = list(direct([{"id": "r", "query": request}], per_row=per_row))
    assert len(rows) == len({row["id"] for row in rows}) == min(per_row, len(DIRECT))
    for row in rows:
        assert request in row["query"] or json.dumps(request, ensure_ascii=False) in row["query"]
        assert row["id"].startswith("r#") and row["baseline_query"] == request


def test_instructions_are_planted_in_one_document() -> None:
    """The marker stands in one document, the rest and the query are as they were."""
    rows: list[dict[str, Any]] = [
        {"query": "a", "context": "One. Two. Three."},
        {"query": "b", "context": [{"id": "x", "content": "One. Two."}, "Plain."]},
        {"query": "c"},
    ]
    found = list(indirect(rows, per_row=len(PLANTS)))
    assert len(found) == 2 * len(PLANTS) and found == list(indirect(rows, per_row=len(PLANTS)))
    for row in found:
        texts = [t["content"] if isinstance(t, dict) else t for t in row["context"]]
        assert sum(row["marker"] in text for text in texts) == 1
        assert "One" in " ".join(texts) and row["query"] in "ab"
    assert len({row["marker"] for row in found}) == len(found)


class Writer:
    """A model that says what it is told to say."""

    name = "writer"

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def answer(self, row: Any) -> dict[str, Any]:
        self.asked.append(row["query"])
        return {"response": self.answers.pop(0) if self.answers else "[]"}

    async def stop(self) -> None:
        pass


async def test_questions_are_gathered_until_there_are_enough() -> None:
    """Repetitions do not count; what is known is named to the model; an empty well is said."""
    writer = Writer('["When?", "Where?", "when ?"]', "Sure:\n1. Why?\n- Who?\nNo question.")
    found = [q async for q in questions(writer, "lamps", 4)]
    assert found == ["When?", "Where?", "Why?", "Who?"]
    assert "lamps" in writer.asked[0] and '"When?"' in writer.asked[1]
    with pytest.raises(Permanent, match="1 different"):
        _ = [q async for q in questions(Writer('["When?"]'), "x", 2)]


@given(st.text())
def test_any_answer_is_read(answer: str) -> None:
    """No text breaks the reader."""
    assert all(question.strip() for question in read_questions(answer))
