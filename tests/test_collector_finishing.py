from __future__ import annotations

from assembly_drive import Stream, request, span

from assay.config import Config
from collector.finishing import MAX_LABEL


def finish(config: dict, *records: bytes):
    stream = Stream(Config.model_validate(config))
    for record in records:
        stream.append(record, 0)
    [turn] = stream.finish()
    return turn


LABELS = {"collector": {"labels": ["tier", "zone"]}}


def test_labels_come_from_the_answering_span_first() -> None:
    """Then from any span, then from a resource; what nobody has is no label."""
    root = span(1, 1, tier="root")
    turn = finish(LABELS, request([root, span(1, 2, 1, query="Q?", tier="own")]))
    assert turn.labels == {"tier": "own"}
    turn = finish(LABELS, request([root, span(1, 2, 1, query="Q?")], zone="eu"))
    assert turn.labels == {"tier": "root", "zone": "eu"}


def test_labels_are_short_texts() -> None:
    """Numbers become text, long values are cut."""
    turn = finish(LABELS, request([span(1, 1, query="Q?", tier=7, zone="x" * 500)]))
    assert turn.labels == {"tier": "7", "zone": "x" * MAX_LABEL}


def test_environment_and_version_come_from_the_resource() -> None:
    """The environment under its present and its former name."""
    for name in ("deployment.environment.name", "deployment.environment"):
        turn = finish(
            {}, request([span(1, 1, query="Q?")], **{name: "prod", "service.version": "7"})
        )
        assert (turn.environment, turn.version) == ("prod", "7")


def test_policies_see_labels_and_what_is_cut_is_what_was_decided_on() -> None:
    """A policy may ask for a label; the turn bears the policy's name and probability."""
    config = {
        **LABELS,
        "sampling": {
            "ratio": 0,
            "keep": [{"when": "labels.tier == 'gold'", "ratio": 1, "name": "gold"}],
        },
    }
    turn = finish(config, request([span(1, 1, query="Q?", tier="gold")]), request([span(2, 1)]))
    assert (turn.stratum, turn.inclusion_probability) == ("gold", 1.0)
