"""The settings: one YAML file, every key optional, all faults reported at once.

`load` reads, expands `${ENV}`, checks and returns a `Config`. Unknown keys are refused. A setting's
name, type, default and help stand in one row here; the docs are checked against them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from assay.config_faults import describe, parse_yaml, path_of, tag_by_type, without
from assay.config_values import (
    Address,
    ApiUrl,
    Count,
    Duration,
    Frequency,
    Name,
    Number,
    Ratio,
    Regex,
    Secret,
    Size,
    StoreUrl,
    Switch,
)
from assay.errors import ConfigError
from assay.when import compile as compile_when

HOUR = 3600.0
_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_OPTION = re.compile(r"key|secret|token|password|credential|signature|sas", re.IGNORECASE)


class Section(BaseModel):
    """A group of settings. A key with nothing behind it is the same as an absent one."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_means_defaults(cls, value: Any) -> Any:
        return {} if value is None else value


class TLS(Section):
    cert: Path = Field(description="PEM file of the certificate chain.")
    key: Path = Field(description="PEM file of the private key.")


class Pattern(Section):
    name: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$", description="Type shown in the pseudonym.")
    regex: Regex = Field(description="Python regular expression of what to replace.")


Redaction = Annotated[
    Annotated[Literal["email", "phone", "credit_card", "iban", "ip"], Tag("(text)")]
    | Annotated[Pattern, Tag("(mapping)")],
    Discriminator(tag_by_type),
]


class Collector(Section):
    http: Address | None = Field("127.0.0.1:4318", description="Address of the OTLP/HTTP door.")
    grpc: Address | None = Field("127.0.0.1:4317", description="Address of the OTLP/gRPC door.")
    api_keys: list[Secret] = Field([], description="Keys that senders must present; none: open.")
    tls: TLS | None = Field(None, description="TLS for both doors.")
    max_request: Size = Field(32 * 10**6, description="Largest request, after decompression.")
    max_uploads: Count = Field(
        256, description="Requests of one door that may arrive at the same time; more get 503."
    )
    upload_timeout: Duration = Field(
        30.0, description="Time within which a request must have arrived; later ones get 408."
    )
    redact: list[Redaction] = Field(
        [], description="What to replace by keyed pseudonyms before anything is published."
    )
    redact_key: Secret | None = Field(
        None, description="Key of the pseudonyms; made in the data folder when embedded."
    )
    labels: list[str] = Field(
        [], max_length=8, description="Span or resource attributes that become turn labels."
    )


class Assembly(Section):
    settle: Duration = Field(
        6.0, description="Quiet time after which a trace with root is complete."
    )
    idle: Duration = Field(90.0, description="The same for a trace whose root has not come.")
    max_age: Duration = Field(600.0, description="Longest time a trace stays open.")
    late: Duration = Field(300.0, description="How long a closed trace is remembered.")
    max_spans: Count = Field(10_000, description="Spans of one trace; more are cut.")
    max_trace: Size = Field(32 * 10**6, description="Bytes of one trace; more are cut.")
    max_open: Size = Field(10**9, description="Bytes of all open traces; the oldest close first.")
    max_text: Size = Field(256_000, description="Characters of one text; longer ones are cut.")


class KafkaTLS(Section):
    ca: Path | None = Field(None, description="PEM file of the authorities; default: the system's.")
    cert: Path | None = Field(None, description="PEM file of the client's certificate chain.")
    key: Path | None = Field(None, description="PEM file of the client's private key.")
    verify_host: Switch = Field(True, description="Whether the broker's name must match.")


class KafkaSASL(Section):
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        description="How the client proves who it is."
    )
    username: str | None = Field(None, description="For PLAIN and SCRAM.")
    password: Secret | None = Field(None, description="For PLAIN and SCRAM.")
    token_file: Path | None = Field(None, description="OAUTHBEARER: file that holds the token.")
    token_url: ApiUrl | None = Field(None, description="OAUTHBEARER: where tokens are issued.")
    client_id: str | None = Field(None, description="OAUTHBEARER: asks for tokens at token_url.")
    client_secret: Secret | None = Field(None, description="OAUTHBEARER: of client_id.")
    scope: str | None = Field(None, description="OAUTHBEARER: of the tokens asked for.")

    @model_validator(mode="after")
    def _what_the_mechanism_needs(self) -> KafkaSASL:
        if self.mechanism != "OAUTHBEARER":
            if self.username is None or self.password is None:
                raise ValueError(f"username and password with {self.mechanism}")
        elif self.token_file is None and not (
            self.token_url and self.client_id and self.client_secret
        ):
            raise ValueError(
                "token_file, or token_url, client_id and client_secret, with OAUTHBEARER"
            )
        return self


class Kafka(Section):
    bootstrap: Name = Field(description="Brokers, host:port, separated by commas.")
    prefix: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]*$",
        description="Stands before the names of topics, groups and transactions.",
    )
    partitions: Count = Field(
        12, description="Of the topics that are created; never fewer than processes of a stage."
    )
    replication: Count | None = Field(
        None, description="Replicas of the topics that are created; default: the broker's."
    )
    create_topics: Switch = Field(
        True, description="Whether topics that are missing are created at start."
    )
    transactions: Switch = Field(
        True, description="Whether a commit is a transaction, where the brokers have them."
    )
    compression: Literal["lz4", "zstd", "none"] = Field("lz4", description="Of what is written.")
    max_record: Size = Field(
        8 * 10**6, ge=100_000, description="Largest record; larger requests are split."
    )
    tls: KafkaTLS | None = Field(None, description="TLS to the brokers; absent: plain text.")
    sasl: KafkaSASL | None = Field(None, description="Authentication; absent: none.")
    options: dict[str, Any] = Field(
        {}, description="Further options of the kafka-python clients, by their names there."
    )


class BusConfig(Section):
    max_size: Size = Field(
        10 * 10**9, description="When the log holds this much, senders are told to wait."
    )
    kafka: Kafka | None = Field(
        None, description="The stream on Kafka; absent: the embedded log in the data folder."
    )


class Retention(Section):
    spans: Duration = Field(6 * 3600.0, description="Raw spans: sensitive, keep short.")
    turns: Duration = Field(3 * 86400.0, description="Turns on the stream.")
    scores: Duration = Field(3 * 86400.0, description="Scores on the stream.")


class KeepPolicy(Section):
    when: str | None = Field(None, description="Expression over the turn's fields.")
    ratio: Ratio | None = Field(None, description="Share of matching turns to keep.")
    per: Literal["app", "operation"] | None = Field(None, description="Count by this field.")
    at_least_per_minute: Number | None = Field(None, gt=0, description="Target per counted value.")
    name: Name | None = Field(None, description="Name of the stratum; default: its position.")

    @model_validator(mode="after")
    def _one_of_two_forms(self) -> KeepPolicy:
        by_ratio = self.when is not None and self.ratio is not None
        by_target = self.per is not None and self.at_least_per_minute is not None
        given = sum(
            v is not None for v in (self.when, self.ratio, self.per, self.at_least_per_minute)
        )
        if not (by_ratio or by_target) or given != 2:
            raise ValueError("either when with ratio, or per with at_least_per_minute")
        return self


class Sampling(Section):
    head_ratio: Ratio = Field(1.0, description="Share of traces kept at the door, by trace id.")
    ratio: Ratio = Field(1.0, description="Share of turns kept after assembly.")
    unit: Literal["trace", "conversation"] = Field(
        "trace", description="What is drawn as a whole; conversation needs head_ratio 1."
    )
    keep: list[KeepPolicy] = Field([], max_length=7, description="Kinds of turns kept more often.")


class Price(Section):
    input: Number = Field(ge=0, description="US dollars per million input tokens.")
    output: Number = Field(ge=0, description="US dollars per million output tokens.")
    cached: Number | None = Field(None, ge=0, description="The same for cached input tokens.")


class JudgeEndpoint(Section):
    base_url: ApiUrl = Field(description="Address of an OpenAI-compatible endpoint, with its /v1.")
    model: Name = Field(description="Model to ask there.")
    api_key: Secret | None = Field(None, description="Key of the endpoint; none: no key.")
    headers: dict[str, Secret] = Field({}, description="Further headers of each request.")
    concurrency: Count = Field(16, description="Most calls in flight; fewer when refused.")
    context_tokens: Count = Field(
        32_000, ge=512, description="Most tokens of a request and its answer together."
    )
    parameters: dict[str, Any] = Field(
        {}, description="Further parameters of the request, e.g. reasoning_effort or seed."
    )


class JudgeBudget(Section):
    usd_per_day: Number | None = Field(None, gt=0, description="US dollars per UTC day.")
    usd_per_minute: Number | None = Field(None, gt=0, description="US dollars per minute.")
    tokens_per_minute: Count | None = Field(None, description="Tokens per minute.")


class Judge(JudgeEndpoint):
    endpoints: list[JudgeEndpoint] = Field(
        [], description="Used in this order when the one before it refuses or is away."
    )
    budget: JudgeBudget = Field(JudgeBudget(), description="What judging may cost.")
    samples: Count = Field(1, le=32, description="Answers per score; their spread is shown.")
    temperature: Number | None = Field(
        None, ge=0, le=2, description="Default: 0 for one sample, 0.7 for more."
    )
    max_tokens: Count = Field(1024, description="Room for an answer; four times that on retry.")
    logprobs: Switch = Field(False, description="Ask for the probability of each level.")
    bundle: Switch = Field(
        False, description="One call for all quality metrics, one for all harms."
    )
    timeout: Duration = Field(60.0, description="Deadline of one call.")
    give_up_after: Duration = Field(
        3600.0, description="Age at which a turn that waits for the judge becomes `late`."
    )
    conversation_idle: Duration = Field(
        900.0, description="Quiet time after which a conversation is judged as a whole."
    )
    conversation_max_age: Duration = Field(
        86_400.0, description="Longest time a conversation is gathered before it is judged."
    )
    prompts: Path | None = Field(None, description="Folder of own prompts; they override by name.")
    cache: Size = Field(10**9, description="Most bytes of remembered answers in the data folder.")


class MetricSettings(Section):
    engine: Name | None = Field(
        None, description="computed, local, judge, cascade, embed, nli or moderation."
    )
    ratio: Ratio = Field(1.0, description="Share of the kept turns that this metric scores.")
    threshold: Number | None = Field(None, description="Own threshold.")
    when: str | None = Field(None, description="Expression over the turn's fields.")
    options: dict[str, Any] = Field({}, description="Options of the metric, e.g. rouge_type.")


MetricEntry = Annotated[
    Annotated[Name, Tag("(text)")] | Annotated[dict[Name, MetricSettings], Tag("(mapping)")],
    Discriminator(tag_by_type),
]


class App(Section):
    metrics: list[MetricEntry] = Field([], description="Added or overridden.")


class Prometheus(Section):
    listen: Address = Field(
        "127.0.0.1:9464", description="Address of /metrics, /health and the API."
    )
    labels: list[Literal["model", "version"]] = Field([], description="Optional series labels.")
    max_series: Count = Field(
        5000,
        description="Combinations of metric, engine and label values beyond this fold into "
        "`other`; each gives some forty samples.",
    )
    bearer: Secret | None = Field(None, description="Key that a reader must present.")


class StoreConfig(Section):
    url: StoreUrl | None = Field(
        None, description="Folder or object store; default: in the data folder."
    )
    options: dict[str, str] = Field({}, description="Object store options.")
    retention: Duration = Field(90 * 86400.0, description="Rows older than this are deleted.")
    enabled: Switch = Field(True, description="Whether turns and scores are stored at all.")


class OtlpEvents(Section):
    endpoint: ApiUrl | None = Field(
        None, description="OTLP/HTTP receiver of evaluation events; absent: none are sent."
    )
    headers: dict[str, Secret] = Field({}, description="Headers of each request.")


class Grafana(Section):
    url: ApiUrl | None = Field(None, description="Grafana: where alerts link and boards go.")
    token: Secret | None = Field(None, description="Token of a service account, for pushing.")
    prometheus: ApiUrl | None = Field(None, description="Prometheus as Grafana reaches it.")
    folder: Name = Field("Assay", description="Folder of the boards and rules.")


class Exporters(Section):
    prometheus: Prometheus = Field(Prometheus(), description="Series for Prometheus.")
    store: StoreConfig = Field(StoreConfig(), description="Tables of turns and scores.")
    otlp_events: OtlpEvents = Field(OtlpEvents(), description="Scores as OTLP log records.")
    grafana: Grafana = Field(Grafana(), description="Boards.")


HealthKind = Literal[
    "no_turns", "no_scores", "lag", "judge_errors", "budget", "content_missing", "late_spans"
]


class Alert(Section):
    name: Name = Field(description="Name of the alert; the label `alert`.")
    metric: Name | None = Field(None, description="Metric that is watched.")
    app: Name | None = Field(None, description="Only this app; default: each by itself.")
    environment: str | None = Field(None, description="Only this environment.")
    engine: Name | None = Field(None, description="Only this engine, as its series names it.")
    window: Literal["5m", "1h", "24h"] = Field("1h", description="Of objective and severity.")
    min_turns: Count = Field(50, description="Scores in the window below which nothing is said.")
    objective: Ratio | None = Field(
        None, description="Fires when the lower bound of the defect rate is above this."
    )
    regression: Switch = Field(False, description="Fires when the rate rises over its baseline.")
    change: Number = Field(0.2, gt=0, description="Smallest relative rise worth a page.")
    level: Literal["low", "medium", "high"] | None = Field(
        None, description="Fires on harms of this severity and above, which only a judge tells."
    )
    level_rate: Ratio = Field(
        0.0, description="Share of such harms that is accepted; 0: any one fires."
    )
    health: list[HealthKind] = Field(
        [], description=f"What is watched of the pipeline: {', '.join(get_args(HealthKind))}."
    )
    hold_for: Duration = Field(0.0, description="How long it must hold before it fires.")
    keep_for: Duration = Field(
        120.0, description="How long it must be gone before the alert is over: rates waver."
    )
    severity: Literal["critical", "warning", "info"] = Field(
        "warning", description="The label `severity`."
    )
    labels: dict[Name, str] = Field({}, max_length=16, description="Further labels.")
    runbook: str | None = Field(None, description="What to do, in one line or as a link.")
    notify: Name | None = Field(None, description="Route that delivers it, without Prometheus.")

    @model_validator(mode="after")
    def _watches_something(self) -> Alert:
        of_metric = self.objective is not None or self.regression or self.level is not None
        if bool(self.health) == of_metric or of_metric != (self.metric is not None):
            raise ValueError("either metric with objective, regression or level, or health")
        return self


class Route(Section):
    webhook: Secret | None = Field(None, description="URL that alerts are posted to.")
    template: Literal["json", "slack"] | Path = Field(
        "json", description="Body for the webhook: json, slack, or a file with a Jinja template."
    )
    alertmanager: ApiUrl | None = Field(None, description="Alertmanager, by its v2 API.")
    headers: dict[Name, Secret] = Field({}, description="Headers of each request.")
    false_alarms: Frequency = Field(
        30 * 86400.0, description="Budget of all regression alerts together, as `1 per month`."
    )
    group_by: list[Name] = Field(["alert", "app"], description="Labels of one message.")
    group_wait: Duration = Field(10.0, description="Wait for others of the group.")
    group_interval: Duration = Field(300.0, description="Between messages of a group.")
    repeat: Duration = Field(4 * 3600.0, description="Between messages about the same alerts.")

    @model_validator(mode="after")
    def _goes_somewhere(self) -> Route:
        if self.webhook is None and self.alertmanager is None:
            raise ValueError("a webhook or an alertmanager")
        return self


class Config(Section):
    """All settings. Times are seconds, sizes bytes."""

    collector: Collector = Field(Collector(), description="The doors.")
    assembly: Assembly = Field(Assembly(), description="From spans to turns.")
    bus: BusConfig = Field(BusConfig(), description="The stream.")
    data_dir: Path = Field(Path("assay-data"), description="Where embedded data lives.")
    retention: Retention = Field(Retention(), description="How long the stream keeps records.")
    sampling: Sampling = Field(Sampling(), description="What share of the traffic is scored.")
    judge: Judge | None = Field(
        None, description="The judge; absent: no text ever leaves for an endpoint."
    )
    prices: dict[str, Price] = Field({}, description="Prices per model.")
    metrics: list[MetricEntry] = Field(
        ["default"], description="Metrics, sets of metrics, and own scorers."
    )
    apps: dict[str, App] = Field({}, description="Overrides per app.")
    exporters: Exporters = Field(Exporters(), description="Where scores go.")
    alerts: list[Alert] = Field([], description="What people are told of.")
    notify: dict[Name, Route] = Field({}, description="Where they are told.")


Check = Callable[[Config], object]
"""Raises ConfigError when the settings, each right in itself, cannot work together."""


def load(
    path: Path | None, env: Mapping[str, str] = os.environ, checks: Sequence[Check] = ()
) -> Config:
    """The settings in `path`, or the defaults. Raises ConfigError with every fault.

    The checks see the settings that are right by themselves, so that one start shows all faults.
    """
    raw: Any = {}
    if path is not None:
        try:
            raw = parse_yaml(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError([f"{path}: {error.strerror}"]) from error
        except ValueError as error:
            raise ConfigError([f"{path}: {error}"]) from error
    faults: list[str] = []
    try:
        values = _expand({} if raw is None else raw, env, "", faults)
    except RecursionError:
        raise ConfigError([f"{path}: an alias refers to the value that holds it"]) from None
    unset = {fault.split(":")[0] for fault in faults}
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        if not isinstance(values, dict):
            raise ConfigError([f"{path}: allowed: a mapping of keys to values"]) from error
        faults += (f for f in describe(error, Config, raw) if f.split(":")[0] not in unset)
        wrong = [key.split(".") for key in unset] + [path_of(each) for each in error.errors()]
        config = _rest(values, wrong)
    for check in (_agree, *checks):
        try:
            check(config)
        except ConfigError as error:
            faults += error.faults
    if faults:
        raise ConfigError(list(dict.fromkeys(faults)))
    return config


def _rest(values: dict[str, Any], wrong: Sequence[Sequence[int | str]]) -> Config:
    """The settings without the keys that are wrong; where others do not do without them, without
    their whole sections."""
    try:
        return Config.model_validate(without(values, wrong))
    except ValidationError:
        return Config.model_validate(without(values, [path[:1] for path in wrong]))


def effective(config: Config) -> dict[str, Any]:
    """Every setting in force as plain values; secrets are stars."""
    values = config.model_dump(mode="json")
    free = [values["exporters"]["store"]["options"]]
    if config.bus.kafka is not None:
        free.append(values["bus"]["kafka"]["options"])
    free += [
        settings["options"]
        for part in (values["metrics"], *(app["metrics"] for app in values["apps"].values()))
        for metric in part
        if isinstance(metric, dict)
        for settings in metric.values()
    ]
    for options in free:
        for name in options:
            if _SECRET_OPTION.search(name):
                options[name] = "**********"
    return values


def _agree(config: Config) -> None:
    """Settings that are right alone and wrong together."""
    faults = []
    assembly, retention = config.assembly, config.retention
    needed = assembly.max_age + assembly.late + HOUR
    if retention.spans < needed:
        faults.append(
            f"retention.spans: got {retention.spans:.0f}s; allowed: at least assembly.max_age + "
            f"assembly.late + 1h = {needed:.0f}s, else a restart could not read open traces again"
        )
    if not assembly.settle <= assembly.idle <= assembly.max_age:
        faults.append("assembly.idle: allowed: from assembly.settle to assembly.max_age")
    if config.bus.kafka and config.collector.redact and config.collector.redact_key is None:
        faults.append(
            "collector.redact_key: it is required with bus.kafka and collector.redact, so that "
            "every process writes the same pseudonyms"
        )
    if config.bus.kafka and config.bus.kafka.max_record < 5 * assembly.max_text:
        faults.append(
            "bus.kafka.max_record: allowed: at least five times assembly.max_text, so that a turn "
            f"of the longest texts fits: {5 * assembly.max_text}"
        )
    if config.sampling.unit == "conversation" and config.sampling.head_ratio < 1:
        faults.append(
            "sampling.unit: got the text 'conversation'; allowed: trace while sampling.head_ratio "
            "is below 1, since the door would cut conversations apart"
        )
    names = [alert.name for alert in config.alerts]
    for index, alert in enumerate(config.alerts):
        if alert.name in names[:index]:
            faults.append(f"alerts.{index}.name: got the text {alert.name!r}; allowed: another one")
        if alert.notify is not None and alert.notify not in config.notify:
            faults.append(
                f"alerts.{index}.notify: got the text {alert.notify!r}; allowed: a name under "
                f"notify ({', '.join(config.notify) or 'there is none'})"
            )
    listening = {
        "collector.http": config.collector.http,
        "collector.grpc": config.collector.grpc,
        "exporters.prometheus.listen": config.exporters.prometheus.listen,
    }
    for index, policy in enumerate(config.sampling.keep):
        try:
            compile_when(policy.when or "error")
        except ConfigError as error:
            faults += (f"sampling.keep.{index}.when: {fault}" for fault in error.faults)
    taken: dict[str, str] = {}
    for key, address in listening.items():
        if address is None or address.endswith(":0"):
            continue
        if address in taken:
            faults.append(
                f"{key}: got {address!r}; allowed: an address other than {taken[address]}"
            )
        taken.setdefault(address, key)
    if faults:
        raise ConfigError(faults)


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
