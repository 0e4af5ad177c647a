"""Which language a text is in, as far as scripts and common words tell: for engines that must know
what they cannot judge. Deterministic and cautious: none where it is not clear."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scorers.joined import distinct
from scorers.pieces import STOPWORDS, normal
from scorers.text import Text, of_each, prepared
from scorers.vocabulary import current

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
_FIRST_SCRIPT = "\u0370"
"""Before it stand Latin letters and their marks."""

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
_CODES = tuple(_COMMON)
_ENGLISH = STOPWORDS | set(_COMMON["en"].split())
_LANGUAGES = dict.fromkeys(_ENGLISH, 1)
"""By common word the bits of the languages in which it is one: of English, or of others."""
for _number, _words in enumerate(_COMMON.values()):
    for _word in set(_words.split()) - _ENGLISH:
        _LANGUAGES[_word] = _LANGUAGES.get(_word, 0) | 1 << _number

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
    words: tuple[int, ...]
    """Of each language how many of its common words the text has, English first."""


def language_of(raw: str) -> str | None:
    """The ISO 639-1 code of the text's language; none when it is too short or not clear."""
    return languages_of((prepared(raw),))[0]


def languages_of(texts: Sequence[Text]) -> list[str | None]:
    """Of each text what `language_of` gives."""
    return list(map(_clear, of_each(texts, _votes)))


def _clear(votes: Votes) -> str | None:
    if votes.script is not None:
        return votes.script
    (second, _), (most, best) = sorted(zip(votes.words, _CODES, strict=True))[-2:]
    return best if most >= _LEAST and most > _CLEAR * second else None


def reads(raw: str) -> bool:
    """Whether what was made for English can say anything about the text: no other is likelier."""
    return reads_each((prepared(raw),))[0]


def reads_each(texts: Sequence[Text]) -> list[bool]:
    """Of each text whether `reads` holds of it."""
    return of_each(texts, _readable)


def _readable(texts: Sequence[Text]) -> list[bool]:
    return [
        votes.script is None
        and text.latin_share >= 0.5
        and ((others := max(votes.words[1:])) < _LEAST or _CLEAR * votes.words[0] >= others)
        for text, votes in zip(texts, of_each(texts, _votes), strict=True)
    ]


def _votes(texts: Sequence[Text]) -> list[Votes]:
    known = current()
    samples = [text.pieces(known)[:_SAMPLE] for text in texts]
    words, owners = known.words_of(np.concatenate(samples))
    text = np.repeat(np.arange(len(texts)), list(map(len, samples)))[owners]
    common = known.words.column(_languages, np.intp)
    kept = np.flatnonzero(common[words])
    # A word votes once.
    text, words = np.divmod(distinct(text[kept] * len(common) + words[kept]), len(common))
    languages = common[words]
    votes = np.zeros((len(texts), len(_CODES)), np.intp)
    votes[:, 0] = np.bincount(text[languages == 1], minlength=len(texts))
    others = np.flatnonzero(languages > 1)
    text, languages = text[others], languages[others]
    for number in range(1, len(_CODES)):
        own = text[languages >> number & 1 == 1]
        votes[:, number] = np.bincount(own, minlength=len(texts))
    return [
        Votes(None if text.raw.isascii() else _script(text), tuple(counts))
        for text, counts in zip(texts, votes.tolist(), strict=True)
    ]


def _languages(word: str) -> int:
    return _LANGUAGES.get(word, 0)


def _script(text: Text) -> str | None:
    sampled = normal(text.sentence(0, _SAMPLE))
    if max(sampled, default="") < _FIRST_SCRIPT:
        return None
    letters = sum(map(str.isalpha, sampled))
    for code, letter in _SCRIPTS:
        # Half of the letters, less where kana stand among Han characters.
        share = 0.1 if code == "ja" else 0.5
        if letters and len(letter.findall(sampled)) >= share * letters:
            return code
    return None
