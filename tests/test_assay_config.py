"""The settings: what is accepted, and what each fault says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assay.config import Config, effective, load
from assay.config_values import seconds, split_address
from assay.errors import ConfigError


@pytest.fixture
def check(tmp_path: Path) -> Any:
    """Loads YAML text or plain values, and gives the faults."""

    def faults(settings: Any, env: dict[str, str] | None = None) -> list[str]:
        path = tmp_path / "assay.yaml"
        path.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))
        try:
            load(path, env or {})
        except ConfigError as error:
            return error.faults
        return []

    return faults


def test_no_file_gives_defaults() -> None:
    """Every key is optional."""
    assert load(None) == Config()


def test_an_empty_file_and_empty_sections_are_defaults(check: Any) -> None:
    """A key with nothing behind it is the same as an absent one."""
    assert check("") == []
    assert check("collector:\nsampling:\nexporters:\n  store:\n") == []


@pytest.mark.parametrize("value", ["1,0", "50%", "True ", "-0.1", 1.5, "nan", "", ".inf", True, []])
def test_a_ratio_that_is_none_is_refused(check: Any, value: Any) -> None:
    """Misspelt ratios are refused with key, value and what is allowed; none becomes another."""
    (fault,) = check({"sampling": {"ratio": value}})
    assert fault.startswith("sampling.ratio: got ")
    assert fault.endswith("allowed: a number from 0 to 1")
    if isinstance(value, str) and value:
        assert repr(value) in fault


@pytest.mark.parametrize("value", ["True ", "yes please", "", 1, 0, "on", None])
def test_a_switch_takes_true_and_false_only(check: Any, value: Any) -> None:
    """Nothing else is taken for one of them."""
    (fault,) = check({"exporters": {"store": {"enabled": value}}})
    assert fault.startswith("exporters.store.enabled: ") and "true or false" in fault


@pytest.mark.parametrize("value", ["0,8", "80%", True, float("nan")])
def test_a_threshold_must_be_a_number(check: Any, value: Any) -> None:
    """A decimal comma or a percent sign is refused."""
    (fault,) = check({"metrics": [{"f1_score": {"threshold": value}}]})
    assert fault.startswith("metrics.0.f1_score.threshold: got ")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("127.0.0.1:9/v1", None),
        ("http://user:pw@127.0.0.1/v1", None),
        ("http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9"),
        ("http://127.0.0.1:9/v1/chat/completions", "http://127.0.0.1:9/v1"),
    ],
)
def test_a_base_url_has_one_form(tmp_path: Path, value: str, kept: str | None) -> None:
    """Spellings of the same endpoint become one; what is no url is refused."""
    path = tmp_path / "assay.yaml"
    path.write_text(yaml.safe_dump({"judge": {"base_url": value, "model": "m"}}))
    if kept is None:
        with pytest.raises(ConfigError, match=r"judge\.base_url"):
            load(path)
    else:
        judge = load(path).judge
        assert judge is not None
        assert judge.base_url == kept


def test_all_faults_come_at_once(check: Any) -> None:
    """One start shows every fault: unset variables, wrong values, unknown keys, disagreements."""
    faults = check(
        {
            "collector": {"http": "nowhere", "api_keys": ["${NOT_SET}"], "gprc": None},
            "sampling": {"keep": [{"when": "eror", "ratio": 1}]},
            "retention": {"spans": "5m"},
            "metrics": [7],
            "alarms": [],
        }
    )
    keys = [fault.split(":")[0] for fault in faults]
    assert keys == [
        "collector.api_keys.0",
        "collector.http",
        "collector.gprc",
        "metrics.0",
        "alarms",
        "retention.spans",
        "sampling.keep.0.when",
    ]


def test_an_unknown_key_names_the_known_ones(check: Any) -> None:
    """The nearest key is suggested, and all are listed."""
    (fault,) = check({"assembly": {"setle": "6s"}})
    assert fault.startswith("assembly.setle: unknown key; did you mean settle? allowed here: ")


def test_a_key_that_stands_twice_is_refused(check: Any) -> None:
    """The later of two is not silently taken."""
    (fault,) = check("sampling: {ratio: 1}\nsampling: {ratio: 0}\n")
    assert "line 1" in fault and "stands twice" in fault


@pytest.mark.parametrize("text", ["a: [", "\t", "a: b: c", "- 1", "&a [*a]", "? [x]\n: 1"])
def test_what_is_no_mapping_is_a_fault(check: Any, text: str) -> None:
    """Broken YAML and documents that are no mapping are faults, never another exception."""
    assert len(check(text)) >= 1


@pytest.mark.parametrize(
    "settings",
    [
        {"collector": {"api_keys": [" CANARY"], "redact_key": ["CANARY"]}},
        {"collector": {"api_keys": "CANARY"}},
        {"collector": {"api_key": "CANARY"}},
        {"judge": {"base_url": "ftp://CANARY@x", "model": "m", "api_key": {"x": "CANARY"}}},
        {"judge": {"base_url": "http://x", "model": "m", "headers": {"a": " CANARY"}}},
        {"exporters": {"store": {"url": "s3://CANARY:CANARY@b", "options": {"k": ["CANARY"]}}}},
        {"exporters": {"prometheus": {"bearer": "CANARY "}}},
        "collector: {api_keys: [CANARY",
    ],
)
def test_no_fault_shows_a_secret(check: Any, settings: Any) -> None:
    """What may be a key is never echoed, wherever it was put."""
    faults = check(settings)
    assert faults
    assert not any("CANARY" in fault for fault in faults)


def test_variables_expand_and_an_empty_key_is_no_key(check: Any, tmp_path: Path) -> None:
    """A variable that is set but empty does not open the door."""
    assert check({"collector": {"api_keys": ["${KEY}"]}}, {"KEY": "k-1"}) == []
    (fault,) = check({"collector": {"api_keys": ["${KEY}"]}}, {"KEY": ""})
    assert "text that is not empty" in fault
    assert check({"sampling": {"ratio": "${RATIO}"}}, {"RATIO": "0.25"}) == []


def test_the_effective_settings_hide_secrets(tmp_path: Path) -> None:
    """What is shown has every setting and no secret."""
    path = tmp_path / "assay.yaml"
    path.write_text(
        "collector: {api_keys: [CANARY1], redact_key: CANARY2}\n"
        "judge: {base_url: http://x/v1, model: m, api_key: CANARY3, headers: {h: CANARY4}}\n"
        "exporters: {prometheus: {bearer: CANARY5},"
        " store: {options: {AWS_SECRET_ACCESS_KEY: CANARY6, AWS_REGION: here}}}\n"
    )
    shown = str(effective(load(path)))
    assert "CANARY" not in shown
    assert "here" in shown and "settle" in shown


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"retention": {"spans": "70m"}}, "retention.spans"),
        ({"assembly": {"idle": "1s"}}, "assembly.idle"),
        ({"collector": {"http": "127.0.0.1:9464"}}, "exporters.prometheus.listen"),
        ({"sampling": {"unit": "conversation", "head_ratio": 0.5}}, "sampling.unit"),
        ({"sampling": {"keep": [{"when": "error"}]}}, "sampling.keep.0"),
        ({"sampling": {"keep": [{"when": "error", "ratio": 1, "per": "app"}]}}, "sampling.keep.0"),
    ],
)
def test_settings_that_disagree_are_refused(check: Any, settings: Any, key: str) -> None:
    """Values that are right alone and wrong together are one fault, at one key."""
    (fault,) = check(settings)
    assert fault.startswith(f"{key}: ")


def test_checks_see_what_is_right(tmp_path: Path) -> None:
    """A further check runs beside faults elsewhere, on the sections that are right."""
    path = tmp_path / "assay.yaml"
    path.write_text("sampling: {ratio: 9}\nmetrics: [rogue]\n")
    seen: list[Config] = []

    def further(config: Config) -> None:
        seen.append(config)
        raise ConfigError(["metrics.0: no metric rogue"])

    with pytest.raises(ConfigError) as caught:
        load(path, checks=[further])
    assert [fault.split(":")[0] for fault in caught.value.faults] == ["sampling.ratio", "metrics.0"]
    assert seen[0].metrics == ["rogue"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500ms", 0.5), ("6s", 6), ("10m", 600), ("1.5 h", 5400), ("90d", 7776e3)],
)
def test_durations(text: str, expected: float) -> None:
    """Units from milliseconds to days; a bare number is seconds."""
    assert seconds(text) == expected
    assert seconds(expected) == expected


def test_addresses() -> None:
    """IPv6 stands in brackets, port 0 is any."""
    assert split_address("[::1]:0") == ("::1", 0)
    assert split_address("localhost:4318") == ("localhost", 4318)


@given(st.text(max_size=30))
def test_an_address_is_right_or_refused(text: str) -> None:
    """Any text either splits into host and port or raises ValueError."""
    try:
        host, port = split_address(text)
    except ValueError:
        return
    assert host and 0 <= port <= 65535


_KEYS = st.sampled_from([*Config.model_fields, "http", "ratio", "keep", "options", "x"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_any_document_loads_or_is_refused(tmp_path_factory: Any, document: Any) -> None:
    """Whatever stands in the file, the outcome is settings or a ConfigError with faults."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(document))
    try:
        load(path, {})
    except ConfigError as error:
        assert error.faults


def test_a_wrong_key_takes_no_other_of_its_section_along(tmp_path):
    """What needs the section still finds it, and faults between right settings are told as well."""
    path = tmp_path / "assay.yaml"
    path.write_text(
        "judge: {base_url: 'http://127.0.0.1:9/v1', model: m, budget: {tokens_per_day: x}}\n"
        "assembly: {settle: 5s, idle: 1s, late: never}\n"
        "sampling: {ratio: 2, keep: [{when: 'app ===', ratio: 1}]}\n"
    )

    def needs_a_judge(config):
        if config.judge is None:
            raise ConfigError(["metrics: a judge is needed"])

    with pytest.raises(ConfigError) as raised:
        load(path, {}, checks=[needs_a_judge])
    keys = {fault.split(":")[0] for fault in raised.value.faults}
    assert keys == {
        "judge.budget.tokens_per_day",
        "assembly.late",
        "assembly.idle",
        "sampling.ratio",
        "sampling.keep.0.when",
    }
