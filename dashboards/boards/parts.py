"""What the boards are built of: one board, panels that always have a unit and a description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import (
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
CHOSEN = 'app=~"$app", environment=~"$environment"'
OF_METRIC = f'{CHOSEN}, metric=~"$metric", engine=~"$engine"'
WINDOW = 'window="$window"'
SERIES = "app, metric, engine"
WIDTH = 24
Query = tuple[str, str]
"""An expression and the name of its lines."""


def error_share(chosen: str) -> str:
    """Share of evaluations that ended in an error, of those that were carried out."""
    errors = f'assay_evaluations_total{{{chosen}, outcome="error"}}[15m]'
    ran = f'assay_evaluations_total{{{chosen}, outcome=~"scored|error"}}[15m]'
    return f"(sum(rate({errors})) or vector(0)) / sum(rate({ran}))"


class Board:
    """One board; panels flow from left to right."""

    def __init__(self, uid: str, title: str, description: str, variables: Sequence[str]) -> None:
        self._panels = 0
        self._board = (
            dashboard.Dashboard(title)
            .uid(uid)
            .description(description)
            .tags(["assay"])
            .time("now-6h", "now")
            .refresh("30s")
            .timezone("browser")
            .tooltip(models.DashboardCursorSync.CROSSHAIR)
            .link(
                dashboard.DashboardLink("Assay")
                .type(models.DashboardLinkType.DASHBOARDS)
                .tags(["assay"])
                .as_dropdown(True)
                .include_vars(True)
                .keep_time(True)
            )
            .variables([VARIABLES[name]() for name in ("datasource", *variables)])
            .annotations([alerts(), versions(), scorers()] if "app" in variables else [])
        )

    def lines(
        self,
        title: str,
        description: str,
        unit: str,
        *queries: Query,
        span: int = 12,
        limits: bool = False,
        exemplars: bool = False,
        link: bool = False,
    ) -> Board:
        """Curves. `limits`: the second and third query are the lower and upper limit of the
        first, drawn thin. `link`: from a point to the board of its app."""
        panel = timeseries.Panel().fill_opacity(0 if limits else 8).line_width(2)
        panel.legend(_legend())
        if limits:
            for query in "BC":
                panel.override_by_query(query, THIN)
        if link:
            panel.data_links([to_app()])
        self._panel(panel, title, description, unit, queries, span, exemplars)
        return self

    def number(self, title: str, description: str, unit: str, query: Query, span: int = 6) -> Board:
        """One number for each series."""
        panel = stat.Panel().graph_mode(common.BigValueGraphMode.AREA)
        self._panel(panel, title, description, unit, [query], span, False)
        return self

    def heat(self, title: str, description: str, unit: str, query: Query, span: int = 12) -> Board:
        """A histogram over time."""
        panel = heatmap.Panel().calculate(False)
        target = _target(query, 0).format(PromQueryFormat.HEATMAP)
        panel.with_target(target)
        self._panel(panel, title, description, unit, [], span, False)
        return self

    def rows(
        self, title: str, description: str, unit: str, *queries: Query, span: int = WIDTH
    ) -> Board:
        """A table: a line for each set of labels, a column for each query."""
        panel = table.Panel()
        for index, query in enumerate(queries):
            panel.with_target(_target(query, index).format(PromQueryFormat.TABLE).instant())
        names = {f"Value #{chr(65 + i)}": name for i, (_, name) in enumerate(queries)}
        names |= {"Value": queries[0][1]} if len(queries) == 1 else {}
        panel.transformations(
            [
                models.DataTransformerConfig(id_val="merge", options={}),
                models.DataTransformerConfig(
                    id_val="organize",
                    options={"excludeByName": {"Time": True}, "renameByName": names},
                ),
            ]
        )
        self._panel(panel, title, description, unit, [], span, False)
        return self

    def build(self) -> models.Dashboard:
        return self._board.build()

    def _panel(
        self,
        panel: Any,
        title: str,
        description: str,
        unit: str,
        queries: Sequence[Query],
        span: int,
        exemplars: bool,
    ) -> None:
        panel.title(title).description(description).unit(unit).datasource(SOURCE)
        self._panels += 1
        panel.id(self._panels).span(span).height(8)
        for index, query in enumerate(queries):
            panel.with_target(_target(query, index).exemplar(exemplars))
        self._board.with_panel(panel)


def _target(query: Query, index: int) -> prometheus.Dataquery:
    expr, legend = query
    return prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(chr(65 + index))


def _legend() -> common_builders.VizLegendOptions:
    return (
        common_builders.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
        .show_legend(True)
    )


THIN = [
    models.DynamicConfigValue(id_val="custom.lineWidth", value=1),
    models.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [4, 4]}),
]


def to_app() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("Quality of ${__field.labels.app}")
        .url(
            "/d/assay-quality?${datasource:queryparam}&var-app=${__field.labels.app}"
            "&var-metric=${__field.labels.metric}&${__url_time_range}"
        )
        .type(models.DashboardLinkType.LINK)
    )


# Variables.


def _of_labels(name: str, label: str, query: str) -> Any:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def _datasource() -> Any:
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _window() -> Any:
    return (
        dashboard.CustomVariable("window")
        .label("Window")
        .values("5m,1h,24h")
        .current(models.VariableOption(selected=True, text="1h", value="1h"))
        .options(
            [
                models.VariableOption(selected=w == "1h", text=w, value=w)
                for w in ("5m", "1h", "24h")
            ]
        )
    )


VARIABLES = {
    "datasource": _datasource,
    "app": lambda: _of_labels("app", "App", "label_values(assay_turns_total, app)"),
    "environment": lambda: _of_labels(
        "environment", "Environment", 'label_values(assay_turns_total{app=~"$app"}, environment)'
    ),
    "metric": lambda: _of_labels(
        "metric", "Metric", 'label_values(assay_window_turns{app=~"$app"}, metric)'
    ),
    "engine": lambda: _of_labels(
        "engine",
        "Engine",
        'label_values(assay_window_turns{app=~"$app", metric=~"$metric"}, engine)',
    ),
    "window": _window,
}


# Annotations.


def _annotation(name: str, colour: str, expr: str, title: str, text: str) -> Any:
    return _Annotation(name, colour, expr, title, text)


class _Annotation:
    """A query of Prometheus whose samples become marks; the SDK knows only Grafana's own kind."""

    def __init__(self, name: str, colour: str, expr: str, title: str, text: str) -> None:
        self._annotation = models.AnnotationQuery(
            name=name, datasource=SOURCE, enable=True, icon_color=colour, expr=expr
        )
        self._texts = {"titleFormat": title, "textFormat": text, "step": "30s"}

    def build(self) -> models.AnnotationQuery:
        plain = self._annotation.to_json() | self._texts
        self._annotation.to_json = lambda: plain  # type: ignore[method-assign]
        return self._annotation


def alerts() -> Any:
    return _annotation(
        "Alerts", "red", f"assay_alert_active{{{CHOSEN}}} == 1", "{{alert}}", "{{app}} {{metric}}"
    )


def versions() -> Any:
    shown = f'assay_last_scored_timestamp_seconds{{{CHOSEN}, version!=""}}'
    return _annotation(
        "New versions",
        "blue",
        f"group by (app, version) ({shown}) unless group by (app, version) ({shown} offset 10m)",
        "{{app}} {{version}}",
        "first turns of this version",
    )


def scorers() -> Any:
    shown = f"assay_scorer_info{{{CHOSEN}}}"
    return _annotation(
        "New scorers",
        "purple",
        f"group by (metric, scorer) ({shown})"
        f" unless group by (metric, scorer) ({shown} offset 10m)",
        "{{metric}}",
        "scored by {{scorer}}: a new baseline",
    )
