"""Which language a text is in, as far as scripts and common words tell: for engines that must know
what they cannot judge. Deterministic and cautious: none where it is not clear."""

from __future__ import annotations

import re
from itertools import chain
from typing import NamedTuple

from scorers.pieces import STOPWORDS, normal
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
    "sv": "och att det är jag du inte en ett på av för med som har kan vi ni hur vad din till",
    "da": "og at det er jeg du ikke en et på af for med som har kan vi hvordan hvad din til",
    "no": "og å det er jeg du ikke en et på av for med som har kan vi hvordan hva din til",
    "fi": "ja on ei että se hän minä sinä me te kun niin mutta tai voi ovat olla mitä miten oli",
    "pl": "i w z na nie się jest to że do jak co czy dla ale może mój twój proszę są po od",
    "cs": "a je v na se že to s z do jak co pro ale může můj prosím jsou si jsem "
    "který nebo kdy bude mám svou tento",
    "ro": "și în de la nu este un o cu pe ce sau pentru mai cum că sunt din vă dumneavoastră",
    "hu": "a az és nem egy hogy van is meg mi ez ha vagy mit kell lehet csak de hogyan kérem",
    "tr": "ve bir bu için ile de da ne mi mı değil çok nasıl var olarak benim size gibi daha kadar",
    "id": "dan yang di ini itu untuk dengan tidak saya anda apa bisa dari akan ke pada adalah",
    "vi": "và là của không có cho tôi bạn được một các này khi với trong như những thế nào",
    "nl": "de het een en is niet ik je u wij met voor op van dat die te hoe wat kan mijn zijn aan",
}
_ENGLISH = STOPWORDS | set(_COMMON["en"].split())
_OTHERS: dict[str, list[str]] = {}
"""By common word the languages but English in which it is one; no English word."""
for _code, _words in _COMMON.items():
    for _word in set(_words.split()) - _ENGLISH:
        _OTHERS.setdefault(_word, []).append(_code)
_OTHER_WORDS = frozenset(_OTHERS)

_SAMPLE = 60
"""Pieces that are looked at. Different common words vote, not how often they stand there."""
_LEAST = 2
"""Votes without which no language is named."""
_CLEAR = 1.3
"""How many times the votes of the next language a language needs."""


class Votes(NamedTuple):
    """What speaks for the languages of a text."""

    script: str | None
    """The language that the script names; none for Latin letters."""
    words: dict[str, int]
    """Of each language its common words in the text."""


def language_of(raw: str) -> str | None:
    """The ISO 639-1 code of the text's language; none when it is too short or not clear."""
    votes = prepared(raw).of(_votes)
    if votes.script is not None:
        return votes.script
    (most, best), (second, _) = sorted(
        [*((count, code) for code, count in votes.words.items()), (0, ""), (0, "")], reverse=True
    )[:2]
    return best if most >= _LEAST and most > _CLEAR * second else None


def reads(raw: str) -> bool:
    """Whether what was made for English can say anything about the text: no other is likelier."""
    text = prepared(raw)
    votes = text.of(_votes)
    others = max((count for code, count in votes.words.items() if code != "en"), default=0)
    return (
        text.latin_share >= 0.5
        and votes.script is None
        and (others < _LEAST or _CLEAR * votes.words.get("en", 0) >= others)
    )


def _votes(text: Text) -> Votes:
    sample = text.pieces[:_SAMPLE]
    if not text.raw.isascii():
        sampled = normal(text.sentence(0, _SAMPLE))
        letters = sum(map(str.isalpha, sampled))
        for code, letter in _SCRIPTS:
            # Half of the letters, less where kana stand among Han characters.
            share = 0.1 if code == "ja" else 0.5
            if letters and len(letter.findall(sampled)) >= share * letters:
                return Votes(code, {})
    present = set(chain.from_iterable([piece.words for piece in sample]))
    found = {"en": len(present & _ENGLISH)}
    for word in present & _OTHER_WORDS:
        for code in _OTHERS[word]:
            found[code] = found.get(code, 0) + 1
    return Votes(None, found)
