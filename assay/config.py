"""The settings: one YAML file, every key optional, all faults reported at once.

`load` reads, expands `${ENV}`, checks and returns a `Config`. Unknown keys are refused. A setting's
name, type, default and help stand in one row here; the docs are checked against them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)

from assay.errors import ConfigError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?b|b)", re.IGNORECASE)
_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _duration(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a duration such as 500ms, 6s, 10m, 3h or 90d")
    return float(match[1]) * _UNITS[match[2]]


def _size(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a size such as 512kB, 32MB or 1GiB")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def _ratio(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return float(value)


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds; written as 500ms, 6s, 10m, 3h, 90d or a number of seconds."""
Size = Annotated[int, BeforeValidator(_size)]
"""Bytes; written as 512kB, 32MB, 1GiB or a number of bytes."""
Ratio = Annotated[float, BeforeValidator(_ratio)]
"""A number from 0 to 1."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class TLS(Section):
    cert: Path = Field(description="PEM file of the certificate chain.")
    key: Path = Field(description="PEM file of the private key.")


class Pattern(Section):
    name: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$", description="Type shown in the pseudonym.")
    regex: str = Field(description="Python regular expression of what to replace.")


class Collector(Section):
    http: str | None = Field("127.0.0.1:4318", description="Address of the OTLP/HTTP door.")
    grpc: str | None = Field("127.0.0.1:4317", description="Address of the OTLP/gRPC door.")
    api_keys: list[SecretStr] = Field([], description="Keys that senders must present; none: open.")
    tls: TLS | None = Field(None, description="TLS for both doors.")
    max_request: Size = Field(32 * 10**6, description="Largest request, after decompression.")
    redact: list[Literal["email", "phone", "credit_card", "iban", "ip"] | Pattern] = Field(
        [], description="What to replace by keyed pseudonyms before anything is published."
    )
    redact_key: SecretStr | None = Field(
        None, description="Key of the pseudonyms; made in the data folder when embedded."
    )
    labels: list[str] = Field(
        [], max_length=8, description="Span or resource attributes that become turn labels."
    )


class Assembly(Section):
    settle: Duration = Field(6.0, description="Quiet time after which a trace with root is complete.")
    idle: Duration = Field(90.0, description="The same for a trace whose root has not come.")
    max_age: Duration = Field(600.0, description="Longest time a trace stays open.")
    late: Duration = Field(300.0, description="How long a closed trace is remembered.")
    max_spans: int = Field(10_000, gt=0, description="Spans of one trace; more are cut.")
    max_trace: Size = Field(32 * 10**6, description="Bytes of one trace; more are cut.")
    max_open: Size = Field(10**9, description="Bytes of all open traces; the oldest close first.")
    max_text: Size = Field(256_000, description="Characters of one text; longer ones are cut.")


class Kafka(Section):
    bootstrap: str = Field(description="host:port of one or more brokers, comma-separated.")
    partitions: int = Field(12, gt=0, description="Partitions of topics that are created.")
    replication: int = Field(1, gt=0, description="Replicas of topics that are created.")
    options: dict[str, Any] = Field({}, description="Further kafka-python client options.")


class BusConfig(Section):
    kafka: Kafka | None = Field(None, description="Brokers; absent: the embedded log.")
    max_size: Size = Field(
        10 * 10**9, description="Embedded log: when it holds this much, senders are told to wait."
    )


class Retention(Section):
    spans: Duration = Field(6 * 3600.0, description="Raw spans: sensitive, keep short.")
    turns: Duration = Field(3 * 86400.0, description="Turns on the stream.")
    scores: Duration = Field(3 * 86400.0, description="Scores on the stream.")


class KeepPolicy(Section):
    when: str | None = Field(None, description="Expression over the turn's fields.")
    ratio: Ratio | None = Field(None, description="Share of matching turns to keep.")
    per: Literal["app", "operation"] | None = Field(None, description="Count by this field.")
    at_least_per_minute: float | None = Field(None, gt=0, description="Target per counted value.")
    name: str | None = Field(None, description="Name of the stratum; default: its position.")


class Sampling(Section):
    head_ratio: Ratio = Field(1.0, description="Share of traces kept at the door, by trace id.")
    ratio: Ratio = Field(1.0, description="Share of turns kept after assembly.")
    keep: list[KeepPolicy] = Field([], max_length=7, description="Kinds of turns kept more often.")


class Price(Section):
    input: float = Field(ge=0, description="US dollars per million input tokens.")
    output: float = Field(ge=0, description="US dollars per million output tokens.")
    cached: float | None = Field(None, ge=0, description="The same for cached input tokens.")


class MetricSettings(Section):
    engine: str | None = Field(None, description="computed, local, judge or cascade.")
    ratio: Ratio = Field(1.0, description="Share of the kept turns that this metric scores.")
    threshold: float | None = Field(None, allow_inf_nan=False, description="Own threshold.")
    when: str | None = Field(None, description="Expression over the turn's fields.")
    options: dict[str, Any] = Field({}, description="Options of the metric, e.g. rouge_type.")


class App(Section):
    metrics: list[str | dict[str, MetricSettings]] = Field([], description="Added or overridden.")


class Prometheus(Section):
    listen: str = Field("127.0.0.1:9464", description="Address of /metrics, /health and the API.")
    labels: list[Literal["model", "version"]] = Field([], description="Optional series labels.")
    max_series: int = Field(5000, gt=0, description="Series beyond this fold into `other`.")
    bearer: SecretStr | None = Field(None, description="Key that a reader must present.")


class StoreConfig(Section):
    url: str | None = Field(None, description="Folder or object store; default: in the data folder.")
    options: dict[str, str] = Field({}, description="Object store options.")
    retention: Duration = Field(90 * 86400.0, description="Rows older than this are deleted.")
    enabled: bool = Field(True, description="Whether turns and scores are stored at all.")


class OtlpEvents(Section):
    endpoint: str = Field(description="OTLP endpoint that receives evaluation events.")
    headers: dict[str, SecretStr] = Field({}, description="Headers of the requests.")


class Exporters(Section):
    prometheus: Prometheus = Field(Prometheus(), description="Series for Prometheus.")
    store: StoreConfig = Field(StoreConfig(), description="Tables of turns and scores.")
    otlp_events: OtlpEvents | None = Field(None, description="Evaluation events.")


class Config(Section):
    """All settings. Times are seconds, sizes bytes."""

    collector: Collector = Field(Collector(), description="The doors.")
    assembly: Assembly = Field(Assembly(), description="From spans to turns.")
    bus: BusConfig = Field(BusConfig(), description="The stream.")
    data_dir: Path = Field(Path("assay-data"), description="Where embedded data lives.")
    retention: Retention = Field(Retention(), description="How long the stream keeps records.")
    sampling: Sampling = Field(Sampling(), description="What share of the traffic is scored.")
    prices: dict[str, Price] = Field({}, description="Prices per model.")
    metrics: list[str | dict[str, MetricSettings]] = Field(
        ["default"], description="Metrics, sets of metrics, and own scorers."
    )
    apps: dict[str, App] = Field({}, description="Overrides per app.")
    exporters: Exporters = Field(Exporters(), description="Where scores go.")


def load(path: Path | None, env: Mapping[str, str] = os.environ) -> Config:
    """The settings in `path`, or the defaults. Raises ConfigError with every fault."""
    raw: Any = {}
    if path is not None:
        try:
            raw = yaml.safe_load(path.read_text()) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigError([f"{path}: {error}"]) from error
    faults: list[str] = []
    raw = _expand(raw, env, "", faults)
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        faults += [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    if faults:
        raise ConfigError(faults)
    return config


def _expand(value: Any, env: Mapping[str, str], key: str, faults: list[str]) -> Any:
    if isinstance(value, dict):
        return {k: _expand(v, env, f"{key}.{k}".lstrip("."), faults) for k, v in value.items()}
    if isinstance(value, list):
        return [_expand(v, env, f"{key}.{i}", faults) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        if match[1] not in env:
            faults.append(f"{key}: environment variable {match[1]} is not set")
        return env.get(match[1], "")

    return _ENV.sub(replace, value)
