"""What the scorers see in a text: words, sentences, stems, scripts. Pure functions.

Each keeps its last results, so that the metrics of one turn share the work. No word spans a blank,
so a text is cut at blanks, and what each piece holds is kept by the piece: most pieces were seen
before. Nothing here is tied to English except `stem` and `content`, which say so.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from scorers.kept import Kept

# Scripts that are written without spaces between words: a word here is one letter with its marks.
# Han, kana, Thai, Lao, Myanmar, Khmer, Tibetan and their extensions.
_SPACELESS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Letters, digits and combining marks: Python's \w leaves out the marks, which would cut words of
# Devanagari, Arabic with vowels, or Thai in two.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711"
    "\u0730-\u074a\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd"
    "\u0a01-\u0a03\u0a3c-\u0a51\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd"
    "\u0c00-\u0c04\u0c3c-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d82\u0d83"
    "\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u0f71-\u0f84"
    "\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a"
    "\ufe20-\ufe2f"
)
_WORD = re.compile(
    rf"[{_SPACELESS}][{_MARKS}]*|(?:(?![{_SPACELESS}])[^\W_][{_MARKS}]*)+"
    rf"(?:['’](?:(?![{_SPACELESS}])[^\W_][{_MARKS}]*)+)*"
)
_SPACELESS_LETTER = re.compile(rf"[{_SPACELESS}]")
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
_BOUNDARY = re.compile(
    # One character first, so that the search can skip to it.
    r"[.!?\n。！？｡।](?:(?<=[.!?])[\"'”’)\]]*\s+|(?<=\n)\n*|(?<=[。！？｡।]))"
)
_ABBREVIATION = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|e\.g|i\.e|approx|No|Inc|Ltd|Co|[A-Z])\.$"
)

_ABBREVIATED = Kept(lambda piece: _ABBREVIATION.search(piece) is not None)

STOPWORDS = frozenset(
    """
    a about above after again against all also am an and any are aren't as at be because been
    before being below between both but by can can't cannot could couldn't did didn't do does
    doesn't doing don't down during each either else few for from further get got had hadn't has
    hasn't have haven't having he he'd he'll he's her here here's hers herself him himself his how
    however i i'd i'll i'm i've if in into is isn't it it's its itself just let let's like may me
    might more most must my myself no nor not of off on once only or other our ours ourselves out
    over own please same she she'd she'll she's should shouldn't so some such than that that's the
    their theirs them themselves then there there's these they they'd they'll they're they've this
    those through to too under until up us very was wasn't we we'd we'll we're we've were weren't
    what what's when where which while who whom whose why will with won't would wouldn't yes you
    you'd you'll you're you've your yours yourself yourselves
    """.split()  # noqa: SIM905 - a list literal would be a page long
)
"""English words that say little by themselves."""


@lru_cache(maxsize=256)
def normal(text: str) -> str:
    """`text` with compatibility forms folded (NFKC): full-width letters and ligatures are plain."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


@lru_cache(maxsize=256)
def lowered(text: str) -> str:
    """`normal` text in lower case with plain apostrophes: what patterns are written for."""
    return normal(text).lower().replace("’", "'")


def _words_of(piece: str) -> tuple[str, ...]:
    return tuple((_ASCII_WORD if piece.isascii() else _WORD).findall(piece))


_WORDS = Kept(_words_of)


@lru_cache(maxsize=256)
def words(text: str) -> tuple[str, ...]:
    """The words of `text` in lower case; single letters where the script has no spaces.

    Where there is no word at all, the symbols stand for words, so that two equal emoji are equal.
    """
    low = lowered(text)
    found = tuple(chain.from_iterable(map(_WORDS.__getitem__, low.split())))
    return found or tuple(c for c in low if unicodedata.category(c)[0] == "S")


@lru_cache(maxsize=256)
def word_set(text: str) -> frozenset[str]:
    """The different `words` of `text`."""
    return frozenset(words(text))


def split_spaceless(token: str) -> list[str]:
    """`token` cut into letters where its script has no spaces; otherwise the token itself."""
    return _WORD.findall(token) if _SPACELESS_LETTER.search(token) else [token]


@lru_cache(maxsize=256)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences and lines of `text`, trimmed, none empty."""
    found: list[str] = []
    carried = ""
    start = 0
    for match in _BOUNDARY.finditer(text):
        piece = carried + text[start : match.end()]
        start = match.end()
        last = piece[-12:].split()[-1:]
        if last and _ABBREVIATED[last[0]] and "\n" not in match.group():
            carried = piece
            continue
        carried = ""
        found.append(piece.strip())
    found.append((carried + text[start:]).strip())
    return tuple(filter(None, found))


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """An English word without its inflection; short words and others are given back as they are."""
    if len(word) < 4 or not word.isascii() or word[-1].isdigit():
        return word
    for ending in ("'s", "s'"):
        word = word.removesuffix(ending)
    for ending, instead in _ENDINGS:
        if word.endswith(ending):
            base = word[: len(word) - len(ending)] + instead
            if len(base) >= 3 and not _VOWELS.isdisjoint(base):
                word = base
                break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 4 else word


_VOWELS = frozenset("aeiouy")
_ENDINGS = (
    ("sses", "ss"),
    ("xes", "x"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("ies", "y"),
    ("ied", "y"),
    ("ingly", ""),
    ("edly", ""),
    ("ing", ""),
    ("ed", ""),
    ("ers", "er"),
    ("es", "e"),
    ("ss", "ss"),
    ("us", "us"),
    ("is", "is"),
    ("s", ""),
    ("ly", ""),
)


def _stems(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(stem(word) for word in found if word not in STOPWORDS)


_CONTENT = Kept(lambda piece: _stems(_WORDS[piece]))


@lru_cache(maxsize=256)
def content(text: str) -> tuple[str, ...]:
    """The stems of the words of `text` that carry meaning, in order: no English function words."""
    found = tuple(chain.from_iterable(map(_CONTENT.__getitem__, lowered(text).split())))
    return found or _stems(words(text))


@lru_cache(maxsize=256)
def content_set(text: str) -> frozenset[str]:
    """The different stems of `content`."""
    return frozenset(content(text))


@lru_cache(maxsize=256)
def latin_share(text: str) -> float:
    """The share of Latin letters among the letters of `text`, 0 to 1; 1 when it has no letters."""
    if text.isascii():
        return 1.0
    letters = [character for character in normal(text) if character.isalpha()]
    latin = sum(character < "\u0250" or "\u1e00" <= character < "\u1f00" for character in letters)
    return latin / len(letters) if letters else 1.0
