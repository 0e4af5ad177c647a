from __future__ import annotations

import json
import re
import stat
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config import Config, Pattern
from assay.errors import Permanent
from assay.records import Document, Feedback, Message, ToolCall, ToolDefinition, Turn
from collector.redaction import KEY_FILE, Redactor, pseudonym_key

KINDS = ["email", "phone", "credit_card", "iban", "ip"]
KEY = b"k" * 32
ALL = Redactor(KINDS, KEY)
PSEUDONYM = re.compile(r"<([A-Z_]+)_[0-9a-f]{4}>")


def kinds(text: str) -> list[str]:
    return PSEUDONYM.findall(ALL.text(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("write to ann.o'neil+x@mail.example.co.uk.", "EMAIL"),
        ("жанна@почта.рф", "EMAIL"),
        ("MAIL: BOB@EXAMPLE.COM!", "EMAIL"),
        ("call +49 (30) 1234-5678 now", "PHONE"),
        ("(555) 123-4567", "PHONE"),
        ("555-123-4567", "PHONE"),
        ("1-555-123-4567", "PHONE"),
        ("5552234567", "PHONE"),
        ("030 12345678", "PHONE"),
        ("06 12 34 56 78", "PHONE"),
        ("0612345678", "PHONE"),
        ("هاتف +٤٩ ٣٠ ١٢٣٤٥٦٧", "PHONE"),
        ("tel:+4930123456", "PHONE"),
        ("(030) 1234567", "PHONE"),
        ("0049 30 1234567", "PHONE"),
        ("card 4111 1111 1111 1111 please", "CREDIT_CARD"),
        ("4111-1111-1111-1111", "CREDIT_CARD"),
        ("378282246310005", "CREDIT_CARD"),
        ("IBAN DE89 3704 0044 0532 0130 00.", "IBAN"),
        ("GB82WEST12345698765432", "IBAN"),
        ("de89370400440532013000", "IBAN"),
        ("from 192.168.0.14:8080", "IP"),
        ("2001:db8::ff00:42:8329", "IP"),
        ("fe80::1 is up", "IP"),
        ("http://[2001:db8::1]:443/", "IP"),
        ("::ffff:192.0.2.128", "IP"),
        ("GET /users/bob@x.com/orders", "EMAIL"),
        (r"line\nbob@x.com", "EMAIL"),
    ],
)
def test_each_kind_is_recognised(text: str, kind: str) -> None:
    """A value of each kind becomes one pseudonym of its type, with nothing of it left."""
    assert kinds(text) == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "order 4111 1111 1111 1112 shipped",  # Luhn fails
        "GB83WEST12345698765432",  # modulo 97 fails
        "XX89370400440532013000",
        "at 12:30:45 on 2024-05-06",
        "2024-05-06T12:30:45.123456Z",
        "1796040000000000000",
        "1796040000",
        "version 1.2.3 of v10.20.30.40",
        "std::vector<int> and ad::be",
        "300.1.2.3",
        "a 3 b 4 c 55 d",
        "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
        "me @ home, @handle, a@b",
        "0.1234567890123",
        "$1,299.00 for 12 items",
    ],
)
def test_look_alikes_stay(text: str) -> None:
    """Order numbers, dates, versions, identifiers and code are not taken for personal data."""
    assert ALL.text(text) == text


def test_equal_values_get_equal_pseudonyms() -> None:
    """However it is written, a value has one pseudonym; another value has another."""
    assert ALL.text("Bob@x.com") == ALL.text("bob@X.COM")
    assert ALL.text("4111 1111 1111 1111") == ALL.text("4111111111111111")
    assert ALL.text("DE89370400440532013000") == ALL.text("de89 3704 0044 0532 0130 00")
    assert ALL.text("+49 30 1234567") == ALL.text("0049-30-1234567")
    assert ALL.text("2001:db8:0::1") == ALL.text("2001:0db8::1")
    assert ALL.text("bob@x.com") != ALL.text("rob@x.com")


def test_the_key_decides() -> None:
    """Without the key nobody can tell which value a pseudonym stands for."""
    assert Redactor(KINDS, b"other").text("bob@x.com") != ALL.text("bob@x.com")


def test_words_after_an_iban_stay() -> None:
    """Only the account number is replaced, not the capitals that follow it."""
    text = ALL.text("DE89 3704 0044 0532 0130 00 IS MINE")
    assert PSEUDONYM.sub("*", text) == "* IS MINE"


def test_numbers_that_stand_side_by_side() -> None:
    """Values are found among other numbers, and each on its own."""
    text = ALL.text("10 4111 1111 1111 1111 4242 4242 4242 4242 000")
    assert PSEUDONYM.sub("*", text) == "10 * * 000"
    assert kinds("AB12 DE89 3704 0044 0532 0130 00") == ["IBAN"]


def test_only_the_named_kinds_are_replaced() -> None:
    """What the settings do not name stays."""
    text = "bob@x.com 192.168.0.14"
    assert "192.168.0.14" in Redactor(["email"], KEY).text(text)
    assert Redactor([], KEY).text(text) == text


def test_own_patterns() -> None:
    """A pattern of the user's is replaced under its own name."""
    own = Redactor([Pattern(name="TICKET", regex=r"T-\d+")], KEY)
    assert re.fullmatch(r"see <TICKET_[0-9a-f]{4}>", own.text("see T-1234"))


SECRETS = ("bob@x.com", "4111 1111 1111 1111", "+49 30 1234567")


def test_every_text_of_a_turn_is_redacted_and_its_names_are_not() -> None:
    """Whatever a person may have written is redacted at any depth; ids and names stay."""
    pii = "bob@x.com"
    turn = Turn(
        turn_id="0" * 32 + "-0",
        trace_id="0" * 32,
        app="1.2.3.4",
        version="10.0.0.1",
        model="m@x.com",
        conversation_id=pii,
        user_id=pii,
        operation=f"GET /users/{pii}",
        query=pii,
        response=pii,
        system=pii,
        error=pii,
        messages=(
            Message(role="user", content=pii),
            Message(role="assistant", tool_calls=(ToolCall(name="f", arguments={"to": [pii]}),)),
        ),
        documents=(Document(id="d1", title=pii, content=f"x {pii}"),),
        tool_definitions=(ToolDefinition(name="f", description=pii, parameters={"d": pii}),),
        tool_calls=(ToolCall(name="f", arguments={pii: {"a": (pii, 1)}}, result=pii, error=pii),),
        response_format={"x": pii},
        ground_truth=(pii, "b"),
        baseline_response=pii,
        feedback=(Feedback(name="thumb", comment=pii),),
        labels={"user": pii},
    )
    redacted = ALL.turn(turn)
    text = msgspec.json.encode(redacted).decode()
    assert pii not in text
    assert len(set(PSEUDONYM.findall(text))) == 1
    assert (redacted.app, redacted.version, redacted.model) == ("1.2.3.4", "10.0.0.1", "m@x.com")
    assert redacted.turn_id == turn.turn_id
    assert msgspec.json.decode(text, type=Turn) == redacted.__class__(
        **{f: getattr(msgspec.json.decode(text, type=Turn), f) for f in Turn.__struct_fields__}
    )


def test_a_turn_without_personal_data_is_the_same_object() -> None:
    """Nothing is copied where nothing is found."""
    turn = Turn(turn_id="a-0", trace_id="a", query="hello", documents=(Document(content="x"),))
    assert ALL.turn(turn) is turn


def test_a_card_number_that_is_a_json_number_is_replaced() -> None:
    """Numbers inside arguments are looked at too."""
    turn = Turn(
        turn_id="a-0",
        trace_id="a",
        tool_calls=(ToolCall(arguments={"n": 4111111111111111, "k": 3}),),
    )
    arguments = ALL.turn(turn).tool_calls[0].arguments
    assert PSEUDONYM.fullmatch(arguments["n"])
    assert arguments["k"] == 3


@pytest.mark.parametrize(
    "value",
    [
        {"card": 4111111111111111, "ok": True, "n": 1.5},
        {"text": "line\nbob@x.com\n+49 30 1234567\ttab"},
        [["bob@x.com"], {"bob@x.com": None}],
        {"nested": json.dumps({"mail": "\nbob@x.com"})},
    ],
)
def test_json_texts_stay_json(value: object) -> None:
    """A text that is JSON is still JSON, with the value replaced and the rest as it was."""
    text = json.dumps(value)
    redacted = ALL.text(text)
    back = json.loads(redacted)
    assert type(back) is type(value)
    assert "bob@x.com" not in redacted
    assert "4111111111111111" not in redacted
    assert PSEUDONYM.search(redacted)
    assert "nbob" not in json.dumps(back)


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=20), st.sampled_from(SECRETS),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


@given(JSON, st.booleans())
def test_any_json_stays_json_and_loses_its_secrets(value: object, ascii_only: bool) -> None:
    """Redaction never breaks the structure of JSON text and leaves no secret in it."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    redacted = ALL.text(text)
    json.loads(redacted)
    for secret in SECRETS:
        assert f'"{secret}"' not in redacted


@given(st.text(), st.sampled_from(SECRETS), st.text())
def test_a_secret_between_spaces_never_survives(before: str, secret: str, after: str) -> None:
    """Whatever stands around it, a value that stands alone is replaced."""
    assert secret not in ALL.text(f"{before} {secret} {after}")


@given(st.text())
def test_redaction_is_stable(text: str) -> None:
    """Redacting what is redacted changes nothing."""
    once = ALL.text(text)
    assert ALL.text(once) == once


@pytest.mark.parametrize(
    "piece",
    ["a", "1", "1 ", "a@", "a.", "a@a.", "+1-", "(0", "0 ", ":", "a:", "DE89 ", "1.", "'", "\\n0"],
)
def test_no_text_takes_long(piece: str) -> None:
    """The time grows with the length of the text and no faster, whatever the text is."""
    ALL.text(piece * 1000)
    start = time.perf_counter()
    ALL.text(piece * 50_000)
    assert time.perf_counter() - start < 3.0


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    """The data folder keeps the key, readable by its owner alone, and a restart finds it again."""
    config = Config(data_dir=tmp_path / "data")
    key = pseudonym_key(config)
    assert len(key) == 32
    assert pseudonym_key(config) == key
    mode = (tmp_path / "data" / KEY_FILE).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_configured_key_is_used(tmp_path: Path) -> None:
    """With a key in the settings nothing is written."""
    config = Config.model_validate(
        {"data_dir": tmp_path / "data", "collector": {"redact_key": "s3cret"}}
    )
    assert pseudonym_key(config) == b"s3cret"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("content", ["", "zz", "abcd"])
def test_a_damaged_key_is_said_so(tmp_path: Path, content: str) -> None:
    """A key file that is no key stops the start; its content is not quoted."""
    (tmp_path / KEY_FILE).write_text(content)
    with pytest.raises(Permanent, match="no usable key") as raised:
        pseudonym_key(Config(data_dir=tmp_path))
    assert content == "" or content not in str(raised.value).replace(str(tmp_path), "")
