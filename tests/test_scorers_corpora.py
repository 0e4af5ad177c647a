"""Registered corpora: what is found under edits, at borders, in hostile texts; the commands."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from assay.cli.main import app
from assay.errors import Permanent
from assay.records import Turn
from scorers.corpora import registry
from scorers.corpora.registry import Lookup, add, corpora, remove
from scorers.corpora.winnowing import SHARED, fingerprints, word_hashes
from scorers.local.protected_material import ProtectedOptions, protected_material
from scorers.text import Text, prepared

WORDS = [f"w{number}" for number in range(3000)]


def text(seed, count=400):
    return " ".join(random.Random(seed).choices(WORDS, k=count))


def scorer_on(folder, **options):
    return protected_material.bind(ProtectedOptions(data_dir=str(folder), **options))


def ask(score, response):
    return score(Turn(turn_id="a-0", trace_id="a", response=response))


def test_repetition_is_found_and_named(tmp_path):
    """A long stretch counts whatever its case and punctuation; a short one does not."""
    add(tmp_path / "corpora", "songs", [("one", [text(1)]), ("two", [text(2)])])
    score = scorer_on(tmp_path)
    taken = text(2).split()[100:130]
    verdict = ask(score, "He sang: " + ", ".join(taken).upper() + "!")
    assert verdict.value == 1.0
    assert verdict.details == {
        "corpus": "songs",
        "source": "two",
        "words": 30,
        "passage": " ".join(taken),
    }
    assert ask(score, " ".join(taken[:15])).value == 0.0
    assert ask(score, text(3)).value == 0.0


def test_changed_words_do_not_hide_a_repetition(tmp_path):
    """A stretch goes on over single words that differ; the words that agree are counted."""
    add(tmp_path / "corpora", "songs", [("one", [text(1)])])
    taken = text(1).split()[50:90]
    for place in (13, 14, 30):
        taken[place] = "other"
    verdict = ask(scorer_on(tmp_path), " ".join(taken))
    assert verdict.details["words"] == 37


def test_nothing_is_scored_without_a_corpus(tmp_path):
    """Without a corpus, and after the last one went, the metric is skipped."""
    score = scorer_on(tmp_path)
    assert ask(score, text(1)).outcome_reason == "corpora absent"
    add(tmp_path / "corpora", "songs", [("one", [text(1)])])
    assert ask(score, text(1)).value == 1.0
    remove(tmp_path / "corpora", "songs")
    assert ask(scorer_on(tmp_path), text(1)).outcome_reason == "corpora absent"


def test_changes_are_seen_while_running(tmp_path, monkeypatch):
    """A corpus that is added or removed counts without a restart."""
    monkeypatch.setattr(registry, "RECHECK", 0.0)
    add(tmp_path, "a", [("one", [text(1)])])
    lookup = Lookup(tmp_path)
    assert lookup
    assert lookup.longest(prepared(text(2))) is None
    add(tmp_path, "b", [("two", [text(2)])])
    assert lookup
    assert lookup.longest(prepared(text(2))).corpus == "b"
    remove(tmp_path, "b")
    assert lookup
    assert lookup.longest(prepared(text(2))) is None


def test_segments_and_parts_lose_nothing(tmp_path, monkeypatch):
    """What stands at a border of parts or in any segment is found; memory is bounded by them."""
    monkeypatch.setattr(registry, "PART", 500)
    monkeypatch.setattr(registry, "OVERLAP", 50)
    monkeypatch.setattr(registry, "MOST_WORDS", 1000)
    pieces = [text(seed, 37) for seed in range(100)]
    added = add(tmp_path, "long", [("book", pieces)])
    assert added.words == 3700
    assert len(added.segments) > 3
    whole = " ".join(pieces).split()
    lookup = Lookup(tmp_path)
    assert lookup
    for start in range(0, 3660, 61):
        match = lookup.longest(Text(" ".join(whole[start : start + 40])))
        assert match.repetition.words == 40, start


def test_failed_adding_leaves_nothing(tmp_path):
    """A taken name, no words and a source that breaks leave the folder as it was."""
    add(tmp_path, "a", [("one", [text(1)])])
    before = sorted(path.name for path in tmp_path.iterdir())

    def breaks():
        yield "two", [text(2)]
        raise OSError("gone")

    with pytest.raises(Permanent, match="registered"):
        add(tmp_path, "a", [("two", [text(2)])])
    with pytest.raises(Permanent, match="no word"):
        add(tmp_path, "b", [("empty", ["  "])])
    with pytest.raises(OSError, match="gone"):
        add(tmp_path, "c", breaks())
    with pytest.raises(Permanent, match="no corpus"):
        remove(tmp_path, "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert [corpus.name for corpus in corpora(tmp_path)] == ["a"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 300), st.integers(SHARED, 60), st.integers(0, 40))
def test_shared_words_share_a_fingerprint(seed, start, length, before):
    """Any `SHARED` words in a row give a fingerprint that both texts have."""
    source = text(seed).split()
    stretch = source[start : start + length]
    if len(stretch) < SHARED:
        return
    other = text(seed + 1, before).split() + stretch + text(seed + 2, 20).split()
    both = (set(fingerprints(word_hashes(words)).hashes.tolist()) for words in (source, other))
    assert set.intersection(*both)


@pytest.mark.parametrize(
    "response", ["", " ", "a", "a " * 50_000, "🎵" * 3000, "中文" * 500, "\ud800 x", "\x00" * 99]
)
def test_odd_responses_are_scored(tmp_path, response):
    """Repeated words, symbols, scripts without blanks and broken text give a verdict."""
    add(tmp_path / "corpora", "odd", [("a", ["a " * 5000]), ("b", [text(1)])])
    assert ask(scorer_on(tmp_path), response).outcome == "scored"


def test_commands(tmp_path):
    """`add` takes files, folders and JSON lines; `list`, `remove`; faults are said."""
    config = tmp_path / "assay.yaml"
    config.write_text(f"data_dir: {tmp_path / 'data'}\n")
    (tmp_path / "books" / "sub").mkdir(parents=True)
    (tmp_path / "books" / "one.txt").write_text(text(1))
    (tmp_path / "books" / "sub" / "two.txt").write_text(text(2))
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "three", "text": "' + text(3) + '"}\n{"no": "text"}\n')

    def run(*words):
        return CliRunner().invoke(app, ["corpus", *words, "-c", str(config)])

    done = run("add", "all", str(tmp_path / "books"), str(rows))
    assert done.exit_code == 0
    assert "3 documents, 1,200 words" in done.output
    assert ask(scorer_on(tmp_path / "data"), text(3)).details["source"] == "three"
    assert '"name":"all"' in run("list", "--json").output
    assert isinstance(run("add", "all", str(rows)).exception, Permanent)
    assert isinstance(run("add", "none", str(tmp_path / "nothing.txt")).exception, Permanent)
    assert "1,200 words forgotten" in run("remove", "all").output
    assert run("list", "--json").output == ""
