"""A reply gives exactly one value on the scale, or a closed reason."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_drive import CASES, own_prompt

from assay.records import ERROR_REASONS
from scorers.judging.library import load_file, load_library
from scorers.judging.prompt import Prompt
from scorers.judging.reader import Unreadable, read

LIBRARY = load_library()
GROUNDEDNESS = LIBRARY.find("groundedness")
PRO = LIBRARY.find("groundedness_pro")
PAIR = LIBRARY.find("pairwise_summarization_quality")
INTENTS = LIBRARY.find("retrieval_score", "context")
RATED = LIBRARY.find("retrieval_score_prompt", "context")
RUBRIC = LIBRARY.find("rubric")
CODE = LIBRARY.find("code_vulnerability")
PII = LIBRARY.find("pii_leakage")


@pytest.fixture(scope="module")
def warranty(tmp_path_factory):
    file, text = load_file(own_prompt(tmp_path_factory.mktemp("own")) / "warranty.yaml")
    return Prompt(file, "response", text)


def _cases(name):
    for case in json.loads((CASES / f"{name}.judge.json").read_text())["cases"]:
        yield pytest.param(case, id=f"{name}-{case['name']}")


def _contents(case):
    return [reply["body"]["choices"][0]["message"]["content"] for reply in case["replies"]]


REASONS = {
    "type": "unparsable",
    "missing": "unparsable",
    "label": "unparsable",
    "range": "out_of_range",
}


@pytest.mark.parametrize("case", [*_cases("B44"), *_cases("B45")])
def test_typed_values_and_ranges(case, warranty):
    """Types and ranges that are not as asked give the value that was meant, or a counted error."""
    expect = case["expect"]
    options = expect.get("either", [expect])
    wanted = {REASONS[word] for option in options for word in option.get("reason_in", ())}
    try:
        reading = read(_contents(case)[-1], warranty)
    except Unreadable as error:
        assert error.reason in wanted
    else:
        scores = [o.get("score", o.get("score_if_ok")) for o in options]
        assert reading.value in scores
        assert reading.value is not None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"reason": "r", "unsupported": [], "score": 4}', 4.0),
        ('```json\n{"reason": "r", "score": 4}\n```', 4.0),
        ('Here is my verdict:\n{"reason": "r", "score": 4}\nThat is all.', 4.0),
        ('<think>maybe {"score": 1}?</think>\n{"reason": "r", "score": 4}', 4.0),
        ('{"Reason": "r", "SCORE": "4"}', 4.0),
        ('{"score": 4.0}', 4.0),
        ('{"reason": "}\nThe rubric says:\n\tyes", "score": 4}', 4.0),
        ("4", 4.0),
        ('{"result": {"score": 4}}', 4.0),
        ('[{"score": 4}]', 4.0),
        ('{"score": 4} and again {"score": 4}', 4.0),
        ('{"reason": "the text says {\\"score\\": 1}", "score": 4}', 4.0),
        ('{"reason": "r",\n "score": 4} [see above]', 4.0),
    ],
)
def test_one_value_is_read(text, value):
    """One value is read wherever the object stands."""
    reading = read(text, GROUNDEDNESS)
    assert reading.value == value
    assert reading.label == "right but incomplete"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unparsable"),
        ("   ", "unparsable"),
        ("The score is 4.", "unparsable"),
        ("Score: 4/5", "unparsable"),
        ('{"score": 4} no, rather {"score": 2}', "unparsable"),
        ('{"score": 4, "score": 2}', "unparsable"),
        ('{"score": 4, "Score": 2}', "unparsable"),
        ('{"score": 4.5}', "out_of_range"),
        ('{"score": 0}', "out_of_range"),
        ('{"score": 6}', "out_of_range"),
        ('{"score": NaN}', "out_of_range"),
        ('{"score": Infinity}', "out_of_range"),
        ('{"score": 1' + "0" * 400 + "}", "out_of_range"),
        ('{"score": true}', "unparsable"),
        ('{"score": [4]}', "unparsable"),
        ('{"score": {"value": 4}}', "unparsable"),
        ('{"score": "4 of 5"}', "unparsable"),
        ('{"score": "four"}', "unparsable"),
        ('{"score": null}', "unparsable"),
        ('{"reason": "no value"}', "unparsable"),
        ('{"score": 4', "unparsable"),
        ("<think>it is 4", "unparsable"),
        ("[" * 100_000, "unparsable"),
        ('{"a":' * 50_000, "unparsable"),
        ("x" * 300_000, "unparsable"),
        ("I'm sorry, but I can't assist with that.", "refused"),
        ("I cannot evaluate this content.", "refused"),
    ],
)
def test_no_single_value_is_an_error(text, reason):
    """Nothing is clamped, guessed, averaged or taken from prose."""
    with pytest.raises(Unreadable) as caught:
        read(text, GROUNDEDNESS)
    assert caught.value.reason == reason


def test_truth_values():
    """A boolean scale takes true and false, also as words, and no numbers."""
    assert read('{"score": true}', PRO).value == 1.0
    assert read('{"score": "False"}', PRO).value == 0.0
    assert read("true", PRO).value == 1.0
    for text in ('{"score": 1}', '{"score": "yes"}', '{"score": null}'):
        with pytest.raises(Unreadable):
            read(text, PRO)


def test_pair_takes_one_of_two_names():
    """A pair is answered by A or B and nothing else."""
    assert read('{"label": "b"}', PAIR).label == "B"
    with pytest.raises(Unreadable) as caught:
        read('{"label": "both"}', PAIR)
    assert caught.value.reason == "out_of_range"


def test_share_of_intents():
    """The value is 1 + 4 f^2 of the answered share; no intents means that it does not apply."""
    item = '{{"item": "{}", "reason": "r", "answered": {}}}'
    for flags, value in (("1", 5.0), ("0", 1.0), ("10", 2.0), ("1110", 3.25)):
        items = ",".join(
            item.format(n, "true" if f == "1" else "false") for n, f in enumerate(flags)
        )
        assert read(f'{{"reason": "r", "intents": [{items}]}}', INTENTS).value == value
    assert not read('{"reason": "r", "intents": []}', INTENTS).applicable


def _verdicts(*numbers, met=True):
    return json.dumps({"verdicts": [{"n": n, "reason": "r", "met": met} for n in numbers]})


def test_rubric_weighs_its_criteria():
    """The value is the weighted share of criteria that are met, matched by number."""
    reply = {"verdicts": [{"n": 2, "met": True}, {"n": 1, "met": False}, {"n": "3", "met": "true"}]}
    assert read(json.dumps(reply), RUBRIC, {"criteria": [2.0, 1.0, 1.0]}).value == 0.5


@pytest.mark.parametrize(
    "reply",
    [
        _verdicts(1, 2),
        _verdicts(1, 2, 3, 4),
        _verdicts(1, 1, 3),
        _verdicts(0, 1, 2),
        _verdicts(),
        _verdicts(1, 2, 3, met=None),
        _verdicts(1, 2, 3, met=1),
        '{"verdicts": {"1": true, "2": true, "3": true}}',
        '{"verdicts": [true, true, true]}',
        '{"verdicts": [{"n": 1}, {"n": 2}, {"n": 3}]}',
        '{"verdicts": [{"n": true, "met": true}, {"n": 2, "met": true}, {"n": 3, "met": true}]}',
        *(_contents(case.values[0])[0] for case in _cases("B55")),
    ],
)
def test_wrong_number_of_verdicts_is_an_error(reply):
    """Missing, additional, repeated or odd verdicts never become a share of something else."""
    with pytest.raises(Unreadable) as caught:
        read(reply, RUBRIC, {"criteria": [1.0, 1.0, 1.0]})
    assert caught.value.reason == "unparsable"


def test_each_document_needs_its_rating():
    """Ratings of documents are read by number, each exactly once and on the scale."""
    parts = {"context": [1.0, 1.0]}
    ratings = [{"n": 2, "score": 1}, {"n": 1, "score": 5}]
    reading = read(json.dumps({"documents": ratings, "score": 4}), RATED, parts)
    assert (reading.value, reading.details["documents"]) == (4.0, [5.0, 1.0])
    for wrong in (
        ratings[:1],
        [*ratings, {"n": 3, "score": 1}],
        [ratings[0], {"n": 1, "score": 9}],
    ):
        with pytest.raises(Unreadable):
            read(json.dumps({"documents": wrong, "score": 4}), RATED, parts)


def test_judge_may_say_that_it_does_not_apply():
    """`applicable: false` needs no further value; without the key the metric applies."""
    assert not read('{"reason": "no code", "applicable": false, "score": false}', CODE).applicable
    assert read('{"reason": "r", "score": true}', CODE).value == 1.0


def test_notes_keep_to_their_vocabulary():
    """Findings outside a note's vocabulary are dropped, free ones are kept."""
    reading = read('{"types": ["email", "shoe size"], "score": true}', PII)
    assert reading.details == {"types": ["email"]}
    free = read('{"unsupported": ["a", "", 3, "b"], "score": 3}', GROUNDEDNESS)
    assert free.details == {"unsupported": ["a", "b"]}


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["score", "Score", "reason", "verdicts", "x"]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_gives_a_level_or_a_closed_reason(value):
    """No JSON makes the reader fail otherwise, and every value it gives is a level."""
    for prompt in (GROUNDEDNESS, PRO, PAIR, INTENTS, RUBRIC, CODE):
        try:
            reading = read(json.dumps(value), prompt, {"criteria": [1.0, 1.0]})
        except Unreadable as error:
            assert error.reason in ERROR_REASONS
        else:
            if reading.value is not None:
                low, high = prompt.scale.bounds
                assert low <= reading.value <= high
            if prompt is GROUNDEDNESS:
                assert reading.value in (1.0, 2.0, 3.0, 4.0, 5.0)


@given(st.text(alphabet='{}[]":,0123456789.truefalsenul score\\`\n', max_size=300))
def test_any_text_gives_a_level_or_a_closed_reason(text):
    """No text makes the reader fail otherwise."""
    try:
        assert read(text, GROUNDEDNESS).value in (1.0, 2.0, 3.0, 4.0, 5.0)
    except Unreadable as error:
        assert error.reason in ERROR_REASONS


@given(
    st.integers(1, 5),
    st.text(max_size=40),
    st.sampled_from(["{}", "```json\n{}\n```", "So: {}", "[{}]"]),
)
def test_every_level_survives_its_wrapping(level, reason, wrapping):
    """A level is read back whatever its reason holds and however it is wrapped."""
    body = json.dumps({"reason": reason, "unsupported": [], "score": level})
    assert read(wrapping.replace("{}", body), GROUNDEDNESS).value == level
