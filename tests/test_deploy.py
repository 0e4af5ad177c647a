"""What the deployment files name exists in the program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from assay.bus.topics import READERS
from assay.cli.export import SINKS
from assay.cli.main import app
from assay.cli.score_stage import GROUPS
from assay.config import Config

ROOT = Path(__file__).parent.parent
CHART = ROOT / "helm" / "assay"
TEMPLATES = "\n".join(p.read_text() for p in sorted((CHART / "templates").iterdir()))
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def options(command: str) -> set[str]:
    return {option for parameter in COMMANDS[command].params for option in parameter.opts}


def test_every_command_and_flag_of_the_chart_exists() -> None:
    """The arguments of the containers are commands, flags and values that the program has."""
    stages = (CHART / "templates" / "stages.yaml").read_text()
    found = [re.findall(r'"([^"]+)"', a) for a in re.findall(r'"args" \(list ([^)]*)\)', stages)]
    assert len(found) == 6
    for command, *arguments in [*found, ["collect", "--from-kafka", "any"]]:
        assert command in COMMANDS
        for flag, value in zip(arguments[::2], arguments[1::2], strict=True):
            assert flag in options(command)
            assert {"--group": GROUPS, "--sink": SINKS}.get(flag, (value,)).count(value)
    assert '"--from-kafka"' in stages


def test_the_commands_of_the_compose_file_and_image_exist() -> None:
    """Each service of ours runs a command, and the image's default is one."""
    ours = [s for s in COMPOSE["services"].values() if s.get("build")]
    assert len(ours) == 4
    assert {service["command"][0] for service in ours} <= set(COMMANDS)
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert re.search(r'ENTRYPOINT \["assay"\]\nCMD \["up"\]', dockerfile) and "up" in COMMANDS
    for path in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.M):
        assert all((ROOT / name).exists() for name in path.split())
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (ROOT / source).exists(), source


def test_settings_written_for_people_are_accepted() -> None:
    """The chart's default config, with what the chart adds, and the compose file's are settings."""
    Config.model_validate(yaml.safe_load((ROOT / "deploy/compose/assay.yaml").read_text()))
    added = re.search(r"\$own := (dict .*) -}}", TEMPLATES)
    assert added is not None
    keys = re.findall(r'"(\w+)" (?:\(dict|"([^"]*)")', added[1])
    assert [key for key, _ in keys] == [
        *("collector", "http", "grpc", "exporters", "prometheus", "listen", "data_dir"),
    ]
    Config.model_validate(
        VALUES["config"]
        | {
            "collector": {"http": "0.0.0.0:4318", "grpc": "0.0.0.0:4317"},
            "exporters": {"prometheus": {"listen": "0.0.0.0:9464"}, "store": {"url": "/store"}},
            "data_dir": "/data",
        }
    )


def test_ports_paths_and_names_are_the_programs() -> None:
    """Ports are those of the default addresses; probes ask a path that is served; scaling looks at
    groups and topics that exist; the environment is read."""
    defaults = Config()
    ports = {
        int(address.rpartition(":")[2])
        for address in (
            defaults.collector.http,
            defaults.collector.grpc,
            defaults.exporters.prometheus.listen,
        )
        if address
    }
    named = {int(p) for p in re.findall(r"(?:containerPort|port): (\d+)", TEMPLATES)}
    exposed = re.search(r"EXPOSE ([\d ]+)", (ROOT / "Dockerfile").read_text())
    assert named == ports and exposed and set(map(int, exposed[1].split())) == ports
    assert set(re.findall(r"path: (/\w+)", TEMPLATES)) == {"/health"}
    assert '"/health"' in (ROOT / "exporters/prometheus.py").read_text()
    for group, topic in re.findall(r'"group" "([^"]+)" "topic" "([^"]+)"', TEMPLATES):
        assert group in READERS[topic]
    environment = set(re.findall(r"name: (ASSAY_\w+)", TEMPLATES)) | set(
        COMPOSE["services"]["collect"]["environment"]
    )
    assert environment == {"ASSAY_CONFIG"}
    assert "ASSAY_CONFIG" in (ROOT / "assay/cli/options.py").read_text()


VALUE_SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "judge": {
        "scoreJudge": {"replicas": 2},
        "config": {"judge": {"base_url": "http://judge/v1", "model": "m"}},
    },
    "keda": {
        "assemble": {"keda": {"enabled": True}},
        "scoreLocal": {"keda": {"enabled": True}},
        "scoreBackfill": {"replicas": 1, "keda": {"enabled": True}},
        "config": {"bus": {"kafka": {"prefix": "team."}}},
    },
    "all": {
        "podMonitor": {"enabled": True},
        "store": {"persistence": {"enabled": True}},
        "secrets": {"OPENAI_API_KEY": "x"},
        "collect": {"fromKafka": ["otlp_spans"]},
    },
}
KUBERNETES = "1.31"
EXTENSIONS = {"ScaledObject", "TriggerAuthentication", "PodMonitor"}
"""Kinds that Kubernetes itself has no schema of."""


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_chart_renders(name: str) -> None:
    """Helm's linter finds nothing, and each set of values gives manifests that Kubernetes' schemas
    allow, without an unknown field."""
    values = VALUE_SETS[name]
    report = helm.lint(CHART, values, strict=True, kube_version=f"v{KUBERNETES}.0")
    assert not report["errors"]
    with helm.Chart.load(CHART) as chart:
        rendered = chart.render(values, name="release")
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    manifests = [m for text in texts for m in yaml.safe_load_all(text) if m]
    for manifest in manifests:
        if manifest["kind"] not in EXTENSIONS:
            assert kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    kinds = [manifest["kind"] for manifest in manifests]
    assert kinds.count("Deployment") == 5 + (name in ("judge", "keda"))
    assert ("ScaledObject" in kinds) == (name == "keda")


def test_the_chart_refuses_values_that_it_does_not_know() -> None:
    """A misspelt value is refused by the chart's schema and not passed over."""
    with helm.Chart.load(CHART) as chart, pytest.raises(helm.HelmError, match="replcas"):
        chart.render({"assemble": {"replcas": 2}}, name="release")
