"""Which language a text is in, as far as scripts and common words tell: for engines that must know
what they cannot judge. Deterministic and cautious: none where it is not clear."""

from __future__ import annotations

import re

from scorers.pieces import normal
from scorers.text import Text, prepared

_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ko", re.compile("[\uac00-\ud7af\u1100-\u11ff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
"""A script names its most common language here; Cyrillic and Arabic hold others too."""

_COMMON = {
    "en": "the and is are you your for with this that not have was can will what how of to in "
    "it my  please on be we do does an i me",
    "de": "der die das und ist nicht sie ich wir mit für auf ein eine zu den dem wie was kann "
    "bitte im  es ihr ihre werden haben",
    "fr": "le la les et est une pas vous nous je pour avec dans sur que qui des du au ce "
    "votre mon  comment puis être",
    "es": "el la los las y es una un no para con por que en su del se mi como puedo usted "
    "está qué  cómo lo al",
    "it": "il la le gli e è una un non per con che di del della sono come posso mio nel più "
    "questo ho",
    "pt": "o a os as e é uma um não para com por que em do da seu você como posso está no na "
    "meu mais",
    "nl": "de het een en is niet ik je u wij met voor op van dat die te hoe wat kan mijn zijn aan",
}
_VOTERS = {language: frozenset(common.split()) for language, common in _COMMON.items()}

_SAMPLE = 120
"""Pieces that are looked at. Different common words vote, not how often they stand there."""


def language_of(raw: str) -> str | None:
    """The ISO 639-1 code of the text's language; none when it is too short or not clear."""
    return prepared(raw).of(_language)


def reads(raw: str) -> bool:
    """Whether what was made for English can say anything about the text."""
    return prepared(raw).of(_reads)


def _language(text: Text) -> str | None:
    sample = text.pieces[:_SAMPLE]
    if not text.raw.isascii():
        sampled = normal(text.sentence(0, _SAMPLE))
        letters = sum(map(str.isalpha, sampled))
        for code, letter in _SCRIPTS:
            # Half of the letters, less where kana stand among Han characters.
            share = 0.1 if code == "ja" else 0.5
            if letters and len(letter.findall(sampled)) >= share * letters:
                return code
    present = frozenset().union(*[piece.words for piece in sample])
    votes = [(len(voters & present), language) for language, voters in _VOTERS.items()]
    (second, _), (most, best) = sorted(votes)[-2:]
    return best if most >= 2 and most > 1.3 * second else None


def _reads(text: Text) -> bool:
    return text.latin_share >= 0.5 and text.of(_language) in (None, "en")
