"""What personal data looks like: shapes that find candidates, and the checks that confirm them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple


class Found(NamedTuple):
    """A value within a candidate."""

    value: str
    """In its normal form: the same however it is written."""
    start: int
    end: int


class Rule(NamedTuple):
    """One kind of personal data."""

    name: str
    pattern: re.Pattern[str]
    """Matches candidates."""
    find: Callable[[str], Iterable[Found]]
    """The values in a candidate, in order and apart."""
    possible: Callable[[str], object]
    """A quick look: falsy when the text holds no such value."""


def _begin(first: str, not_after: str) -> str:
    """A character of the class `first` with which a value can begin: after no character of
    `not_after`, or right after an escape of JSON text such as \\n.

    The class comes before the assertions, since a search for a class is many times faster.
    """
    return rf"[{first}](?:(?<=\\[nrtbf][{first}])|(?<![\\{not_after}][{first}]))"


_WORD = r"\w.+%-"
_EMAIL = re.compile(
    _begin(r"\w.+%'-", _WORD) + r"[\w.+%'-]{0,63}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w@])"
)
_CARD = re.compile(_begin("2-6", _WORD) + r"(?:[ -]?\d){12,60}(?!\w|\.\d)")
_IBAN = re.compile(_begin("A-Za-z", _WORD) + r"[A-Za-z]\d{2}(?: ?[A-Za-z\d]){11,60}")
_ADDRESS = re.compile(
    _begin(r"\d", _WORD) + r"\d{0,2}(?:\.\d{1,3}){3}(?!\w|\.\d)"
    "|" + _begin(r"\da-fA-F:", r"\w:.") + r"[\da-fA-F:]{2,38}[\d.]{0,15}"
)
_PHONE = re.compile(
    _begin(r"+(\d", r"\w.-") + r"(?:"
    r"(?<=\+)\d(?:[ ().\-/]{0,2}\d){6,14}"  # international
    r"|(?<=0)0[1-9]\d(?:[ ().\-/]{0,2}\d){6,12}"  # international with 00
    r"|(?<=1)[ .-](?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])\d{3}[ .-]\d{4}"  # North American
    r"|(?<=\()[2-9]\d\d\) ?\d{3}[ .-]\d{4}"
    r"|(?<=[2-9])\d\d[ .-]\d{3}[ .-]\d{4}"
    r"|(?<=[2-9])\d\d[2-9]\d{6}"
    r"|(?<=\()0\d{1,4}\)[ /-]?(?:[ \-/]?\d){5,10}"  # with trunk prefix
    r"|(?<=0)\d{1,4}[ /-](?:[ \-/]?\d){5,10}"
    r"|(?<=0)\d(?:[ .-]?\d\d){4}"  # ten digits in pairs
    r")(?!\w|[.-]\d)"
)
_LONG_NUMBER = re.compile(r"\d(?:[ ().\-/]{0,2}\d){6}")
_LONG_ASCII_NUMBER = re.compile(r"[0-9](?:[ ().\-/]{0,2}[0-9]){6}")
_DOTTED = re.compile(r"\d\.\d{1,3}\.\d")
_GROUP = re.compile(r"[^\W_]+")

_IBAN_LENGTHS = {
    country: int(length)
    for country, length in re.findall(
        r"([A-Z]{2})(\d\d)",
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 "
        "DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 "
        "IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 "
        "MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 "
        "SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30",
    )
}
"""Of the IBAN registry (ISO 13616): characters by country."""


def _digits(text: str) -> str:
    return "".join(str(int(c)) for c in text if c.isdecimal())


def _email(text: str) -> Iterator[Found]:
    yield Found(text.lower(), 0, len(text))


def _phone(text: str) -> Iterator[Found]:
    """E.164: at most 15 digits."""
    digits = _digits(text)
    if 7 <= len(digits) <= 15:
        yield Found(digits.removeprefix("00"), 0, len(text))


def _cards(text: str) -> Iterator[Found]:
    """ISO/IEC 7812: 13 to 19 digits, the last of which is Luhn's check digit."""
    taken = 0
    ends = [match.end() for match in _GROUP.finditer(text)]
    for group in _GROUP.finditer(text):
        start = group.start()
        if start < taken or text[start] not in "23456":
            continue
        for end in (end for end in ends if end > start):
            digits = _digits(text[start:end])
            if 13 <= len(digits) <= 19 and _luhn(digits):
                yield Found(digits, start, end)
                taken = end
                break


def _luhn(digits: str) -> bool:
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + doubled) % 10 == 0


def _ibans(text: str) -> Iterator[Found]:
    """ISO 13616: the country's length, and 1 modulo 97. Words around it are not part of it."""
    taken = 0
    for group in _GROUP.finditer(text):
        start = end = group.start()
        wanted = _IBAN_LENGTHS.get(text[start : start + 2].upper(), 0)
        seen = 0
        while seen < wanted and end < len(text):
            seen += text[end] != " "
            end += 1
        if start < taken or not wanted or seen < wanted or text[end : end + 1].isalnum():
            continue
        value = text[start:end].replace(" ", "").upper()
        if int("".join(str(int(c, 36)) for c in value[4:] + value[:4])) % 97 == 1:
            yield Found(value, start, end)
            taken = end


def _address(text: str) -> Iterator[Found]:
    """An IP address. Short ones, and those without a digit, are names in code far more often."""
    trimmed = text if text.endswith("::") else text.rstrip(":.")
    if len(trimmed) < 5 or not any(c.isdecimal() for c in trimmed):
        return
    try:
        yield Found(str(ipaddress.ip_address(trimmed)), 0, len(trimmed))
    except ValueError:
        return


def _may_hold_number(text: str) -> bool:
    # Digits of all scripts are searched for many times more slowly.
    pattern = _LONG_ASCII_NUMBER if text.isascii() else _LONG_NUMBER
    return pattern.search(text) is not None


def _may_hold_address(text: str) -> bool:
    return "::" in text or text.count(":") > 6 or _DOTTED.search(text) is not None


# What is checked best goes first: the digits of a card must not be taken for a phone's.
RULES: dict[str, Rule] = {
    "email": Rule("EMAIL", _EMAIL, _email, lambda text: "@" in text),
    "iban": Rule("IBAN", _IBAN, _ibans, _may_hold_number),
    "credit_card": Rule("CREDIT_CARD", _CARD, _cards, _may_hold_number),
    "ip": Rule("IP", _ADDRESS, _address, _may_hold_address),
    "phone": Rule("PHONE", _PHONE, _phone, _may_hold_number),
}
