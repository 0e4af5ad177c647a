"""What stands between two blanks of a text: words, stems, the end of a sentence.

No word spans a blank, and most pieces were seen before, so that what is known of a piece is kept
(`scorers.vocabulary`). Nothing here is tied to English except `stem`, `STOPWORDS` and the
abbreviations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from string import punctuation

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
_ENDS = re.compile(r"[.!?][\"'”’)\]]*\Z")
_ABBREVIATION = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|e\.g|i\.e|approx|No|Inc|Ltd|Co|[A-Z])\.\Z"
)
_NAME = re.compile(r"(?<!\w)[A-Z]\w*[a-zA-Z]\w*")
_DIGITS = {
    word: str(number)
    for number, word in [
        *enumerate(
            """
            zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
            fifteen sixteen seventeen eighteen nineteen
            """.split()  # noqa: SIM905 - shorter than a list literal
        ),
        *zip(
            range(20, 100, 10),
            "twenty thirty forty fifty sixty seventy eighty ninety".split(),  # noqa: SIM905
            strict=True,
        ),
    ]
}
_COUNTED = re.compile(r"(\d+)(?:st|nd|rd|th|s)\Z")

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


def normal(text: str) -> str:
    """`text` with compatibility forms folded (NFKC): full-width letters and ligatures are plain."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def lowered(text: str) -> str:
    """`normal` text in lower case with plain apostrophes: what patterns are written for."""
    return text.lower() if text.isascii() else normal(text).lower().replace("’", "'")


def words_in(low: str) -> list[str]:
    """The words of a `lowered` text in order; single letters where the script has no spaces."""
    return (_ASCII_WORD if low.isascii() else _WORD).findall(low)


def split_spaceless(token: str) -> list[str]:
    """`token` cut into letters where its script has no spaces; otherwise the token itself."""
    return _WORD.findall(token) if _SPACELESS_LETTER.search(token) else [token]


def stem(word: str) -> str:
    """An English word without its inflection; short words and others are given back as they are."""
    if word[:1].isdigit() and (counted := _COUNTED.match(word)):
        return counted[1]
    if len(word) < 4 or not word.isascii() or word[-1].isdigit():
        return word
    for ending in ("'s", "s'"):
        word = word.removesuffix(ending)
    for ending, instead in _ENDINGS.get(word[-1:], ()):
        if word.endswith(ending):
            base = word[: len(word) - len(ending)] + instead
            if len(base) >= 3 and not _VOWELS.isdisjoint(base):
                word = base
                break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 4 else word


_VOWELS = frozenset("aeiouy")
# By last letter, the first that fits.
_ENDINGS = {
    "s": (
        ("sses", "ss"),
        ("xes", "x"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("ies", "y"),
        ("ers", "er"),
        ("es", "e"),
        ("ss", "ss"),
        ("us", "us"),
        ("is", "is"),
        ("s", ""),
    ),
    "d": (("ied", "y"), ("ed", "")),
    "g": (("ing", ""),),
    "y": (("ingly", ""), ("edly", ""), ("ly", "")),
}


def stem_of(word: str) -> str:
    """The stem of a word that carries meaning, a small number as digits; otherwise empty."""
    return "" if word in STOPWORDS else _DIGITS.get(word) or stem(word)


def stems_of(words: Iterable[str]) -> tuple[str, ...]:
    """`stem_of` of those `words` that carry meaning."""
    return tuple(filter(None, map(stem_of, words)))


def words_of(piece: str) -> list[str]:
    """The words of a piece in lower case, in order."""
    low = lowered(piece)
    bare = low.strip(punctuation)
    return [bare] if bare.isascii() and bare.isalnum() else words_in(low)


def ends(piece: str) -> bool:
    """Whether a sentence ends with the piece."""
    return (
        not piece[-1:].isalnum()
        and _ENDS.search(piece) is not None
        and not _ABBREVIATION.search(piece)
    )


def breaks(piece: str) -> bool:
    """Whether a capital after the piece says nothing."""
    return piece.endswith((".", "!", "?", ":", '"', "'", "“"))


def names(piece: str) -> list[str]:
    """The stems of the capitalised words."""
    return [] if piece.islower() else list(map(stem, _named(piece)))


def named_first(piece: str) -> bool:
    """Whether the first of `names` begins the piece."""
    if not "A" <= piece[:1] <= "Z":
        return False
    said = _named(piece)
    return bool(said) and lowered(piece).startswith(said[0])


def _named(piece: str) -> list[str]:
    if piece.isascii() and piece.isalnum():
        capital = "A" <= piece[0] <= "Z" and not piece[1:].isdigit() and len(piece) > 1
        found = [piece.lower()] if capital else []
    else:
        found = [name.lower() for name in _NAME.findall(piece)]
    return [low for low in found if low not in STOPWORDS]
