"""METEOR without a download."""

import gzip

import pytest
from nltk.translate.meteor_score import single_meteor_score

from scorers.computed.meteor import Synonyms, meteor
from scorers.data.build_synonyms import main

SECTIONS = {
    "n": ("Goose Swan\ngoose fool\nfool sap\n", "geese goose\n"),
    "v": ("fool gull\n", ""),
    "a": ("", ""),
    "r": ("", ""),
}
TEXT = "".join(f"= {pos}\n{sets}- {pos}\n{forms}" for pos, (sets, forms) in SECTIONS.items())


def names(table, word):
    return {lemma.name() for synset in table.synsets(word) for lemma in synset.lemmas()}


@pytest.mark.parametrize(
    ("response", "truth", "low", "high"),
    [
        ("the cat sat", "the cat sat", 0.98, 1.0),
        ("the dog sat", "the cat sat", 0.3, 0.67),
        ("refund processing", "refunds processed", 0.9, 1.0),
        ("paris", "paris", 0.5, 0.5),
        ("the car", "the auto", 0.9, 1.0),
        ("word", "", 0.0, 0.0),
    ],
)
def test_meteor(response, truth, low, high):
    """Equal words, stems and synonyms align; one identical word gives the formula's one half."""
    assert low <= meteor(response, truth) <= high


def test_synonyms_count():
    """With the synonyms a pair scores more than nltk gives without any."""
    without = single_meteor_score(["the", "auto"], ["the", "car"], wordnet=Synonyms(""))
    assert meteor("the car", "the auto") > without


def test_the_table_is_read_as_wordnet_is():
    """Synonyms of every part of speech, by exception and by rule; capitals as written."""
    table = Synonyms(TEXT)
    assert names(table, "geese") == {"Goose", "Swan", "goose", "fool"}
    assert names(table, "fools") == {"goose", "fool", "sap", "gull"}
    assert names(table, "swan") == {"Goose", "Swan"}
    assert names(table, "unheard") == set()


def test_the_table_is_built_from_wordnets_files(tmp_path, monkeypatch):
    """The builder keeps single words without markers, and writes the same bytes again."""
    for name in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{name}").write_text("  1 a licence\n")
        (tmp_path / f"{name}.exc").write_text("")
    (tmp_path / "data.noun").write_text(
        "  1 a licence\n00001740 03 n 02 goose 0 wild_goose 0 000 | a bird\n"
    )
    (tmp_path / "data.adj").write_text("00001740 00 a 01 galore(ip) 0 000 | in abundance\n")
    (tmp_path / "noun.exc").write_text("geese goose\nhot_dogs hot_dog\n")
    monkeypatch.setattr("scorers.data.build_synonyms.__file__", str(tmp_path / "build.py"))
    main(tmp_path)
    first = (tmp_path / "synonyms.txt.gz").read_bytes()
    main(tmp_path)
    assert (tmp_path / "synonyms.txt.gz").read_bytes() == first
    text = gzip.decompress(first).decode()
    assert text.startswith("= n\ngoose\n- n\ngeese goose\n= v\n")
    assert "\ngalore\n" in text
