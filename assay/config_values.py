"""The kinds of value that a setting may have, each with the words that say what is allowed.

A validator raises ValueError with exactly those words. Text is accepted for numbers and switches
because `${ENV}` expands to text.
"""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, StringConstraints

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_PERIODS = {"day": 86400.0, "week": 7 * 86400.0, "month": 30 * 86400.0, "year": 365 * 86400.0}
_FREQUENCY = re.compile(r"(\d+(?:\.\d+)?)\s*per\s+(day|week|month|year)")
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?b|b)", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+")
STORE_SCHEMES = ("file", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")


def _plain(value: Any) -> float | None:
    """The finite number that `value` is or spells; a switch is no number."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < float("inf") else None


def _number(value: Any) -> float:
    number = _plain(value)
    if number is None:
        raise ValueError("a number")
    return number


def _count(value: Any) -> int:
    number = _plain(value)
    if number is None or number != int(number) or number < 1:
        raise ValueError("a whole number from 1")
    return int(number)


def _ratio(value: Any) -> float:
    number = _plain(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError("a number from 0 to 1")
    return number


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise ValueError("true or false")
    return bool(value == "true")


def seconds(value: Any) -> float:
    """The seconds that a duration stands for. Raises ValueError."""
    number = _plain(value)
    if number is not None and number >= 0:
        return number
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a duration such as 500ms, 6s, 10m, 3h or 90d")
    return float(match[1]) * _UNITS[match[2]]


def seconds_between(value: Any) -> float:
    """The mean seconds between events of a frequency such as `1 per month`. Raises ValueError."""
    match = _FREQUENCY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not float(match[1]):
        number = None if isinstance(value, str) else _plain(value)
        if number is None or number <= 0:
            raise ValueError("a frequency such as 1 per month, 2 per week or 1 per day")
        return number
    return _PERIODS[match[2]] / float(match[1])


def size(value: Any) -> int:
    """The bytes that a size stands for. Raises ValueError."""
    number = _plain(value)
    if number is not None and number >= 1:
        return int(number)
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a size such as 512kB, 32MB or 1GiB")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def split_address(text: str) -> tuple[str, int]:
    """Host (without the brackets of IPv6) and port of `host:port`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not digits or int(port) > 65535 or not _HOST.fullmatch(host):
        raise ValueError("an address host:port such as 127.0.0.1:4318 or [::1]:4318")
    return host.strip("[]"), int(port)


def _address(value: Any) -> str:
    split_address(value if isinstance(value, str) else "")
    return str(value)


def _secret(value: Any) -> SecretStr:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str) or not text or text != text.strip() or not text.isprintable():
        raise ValueError("text that is not empty and has no white space at its ends")
    return SecretStr(text)


def _store_url(value: str) -> str:
    parts = urlsplit(value)
    if "@" in parts.netloc and parts.scheme not in ("abfs", "abfss"):
        raise ValueError("a location without a user or key in it: those belong under options")
    if not value.strip() or ("://" in value and parts.scheme not in STORE_SCHEMES):
        raise ValueError(f"a folder, or a url that begins with one of {', '.join(STORE_SCHEMES)}")
    return value


def _api_url(value: str) -> str:
    parts = urlsplit(value.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("a url such as https://host/v1, without ? and #")
    if "@" in parts.netloc:
        raise ValueError("a url without a user or key in it")
    return value.strip().rstrip("/").removesuffix("/chat/completions").rstrip("/")


def _regex(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a Python regular expression ({error})") from error
    return value


Number = Annotated[float, BeforeValidator(_number)]
"""A finite number."""
Count = Annotated[int, BeforeValidator(_count)]
"""A whole number from 1."""
Ratio = Annotated[float, BeforeValidator(_ratio)]
"""A number from 0 to 1."""
Switch = Annotated[bool, BeforeValidator(_switch)]
"""true or false."""
Duration = Annotated[float, BeforeValidator(seconds)]
"""Seconds; written as 500ms, 6s, 10m, 3h, 90d or a number of seconds."""
Frequency = Annotated[float, BeforeValidator(seconds_between)]
"""Mean seconds between events; written as `1 per month`."""
Size = Annotated[int, BeforeValidator(size)]
"""Bytes; written as 512kB, 32MB, 1GiB or a number of bytes."""
Address = Annotated[str, BeforeValidator(_address)]
"""host:port; port 0 takes any free one."""
Secret = Annotated[SecretStr, BeforeValidator(_secret)]
"""Text that is shown nowhere."""
StoreUrl = Annotated[str, AfterValidator(_store_url)]
"""A local folder or an object store."""
ApiUrl = Annotated[str, AfterValidator(_api_url)]
"""Base of an HTTP API, without a slash at its end and without /chat/completions."""
Regex = Annotated[str, AfterValidator(_regex)]
"""A Python regular expression."""
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text that is not empty; blanks at its ends are dropped."""
