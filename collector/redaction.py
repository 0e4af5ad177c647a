"""Personal data in turns replaced by keyed pseudonyms such as `<EMAIL_7f3a>`.

The digits are those of an HMAC of the normalised value: equal values stay equal, in a question, a
document and an answer alike, so that comparing them still works, and without the key nothing leads
back. Candidates are found by shape and confirmed by check digits or structure where there are any.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from assay.config import Config, Pattern
from assay.errors import Permanent
from assay.records import Turn
from collector.personal_data import RULES, Found, Rule
from collector.texts import map_texts

KEY_FILE = "redact.key"
KEY_BYTES = 32


class Redactor:
    """Replaces what the settings name. Without any it changes nothing."""

    def __init__(self, kinds: Sequence[str | Pattern], key: bytes) -> None:
        self._key = key
        self._rules = [rule for kind, rule in RULES.items() if kind in kinds]
        self._rules += [_own(kind) for kind in kinds if isinstance(kind, Pattern)]

    def turn(self, turn: Turn) -> Turn:
        """The turn with every text redacted, also within arguments, results and documents."""
        redacted: Turn = map_texts(turn, self.text) if self._rules else turn
        return redacted

    def text(self, text: str) -> str:
        """`text` redacted. What was valid JSON stays valid JSON."""
        new = self._replace(text)
        if new == text or text.lstrip()[:1] not in ("{", "["):
            return new
        if _is_json(new) or not _is_json(text):
            return new
        value = msgspec.json.decode(text)
        return msgspec.json.encode(map_texts(value, self._replace)).decode()

    def _replace(self, text: str) -> str:
        known: dict[Any, Any] = {}
        for rule in self._rules:
            # Several rules share one quick look.
            if rule.possible not in known:
                known[rule.possible] = rule.possible(text)
            if known[rule.possible]:
                text = rule.pattern.sub(partial(self._pseudonym, rule), text)
        return text

    def _pseudonym(self, rule: Rule, match: re.Match[str]) -> str:
        candidate, out, done = match[0], "", 0
        for value, start, end in rule.find(candidate):
            data = f"{rule.name}\x1f{value}".encode(errors="surrogatepass")
            digest = hmac.digest(self._key, data, "sha256").hex()
            out += f"{candidate[done:start]}<{rule.name}_{digest[:4]}>"
            done = end
        return out + candidate[done:]


def pseudonym_key(config: Config) -> bytes:
    """The key of the pseudonyms: the configured one, else one made once in the data folder.

    Raises Permanent when there is a key file that cannot be used: with another key in its place,
    equal values would no longer be equal to what was redacted before.
    """
    if config.collector.redact_key is not None:
        return config.collector.redact_key.get_secret_value().encode()
    path = config.data_dir / KEY_FILE
    try:
        if not path.exists():
            _make_key(path)
        key = bytes.fromhex(path.read_text())
    except (OSError, ValueError) as error:
        raise Permanent(f"{path}: no usable key of pseudonyms: {type(error).__name__}") from error
    if len(key) != KEY_BYTES:
        raise Permanent(f"{path}: no usable key of pseudonyms: not {KEY_BYTES} bytes")
    return key


def _make_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _own(pattern: Pattern) -> Rule:
    return Rule(
        pattern.name,
        re.compile(pattern.regex),
        lambda text: [Found(text, 0, len(text))] if text else [],
        lambda text: True,
    )


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True
