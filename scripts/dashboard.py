# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the Grafana dashboard of the role monitoring.

    python scripts/dashboard.py > roles/monitoring/files/vllm.json

The types and builders of grafana-foundation-sdk are generated from Grafana's own schema. The metric names are those of
vLLM 0.32.0 (tests/unit/fixtures/vllm_metrics.txt, and vllm/v1/spec_decode/metrics.py for speculative decoding).
"""

from __future__ import annotations

import itertools
import json
import sys
import typing as t
from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, StackingMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

SOURCE: t.Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
# Labels of the role's scrape file, and vLLM's own name of the model.
CHOSEN: t.Final = '{node=~"$node",instance=~"$instance",model_name=~"$model"}'
# What is not counted by model; the job is named in the documentation of the role.
SERVERS: t.Final = '{job="vllm",node=~"$node",instance=~"$instance"}'
BY: t.Final = "by (node, instance) "
LEGEND: t.Final = "{{node}} {{instance}}"
WIDTH: t.Final = 24  # columns of Grafana's grid
HEIGHT: t.Final = 8
PERCENTILES: t.Final = (50, 95, 99)


@dataclass(frozen=True)
class Graph:
    """A panel: what it shows, its unit as Grafana names it, and its queries with their legends."""

    title: str
    unit: str
    queries: t.Sequence[tuple[str, str]]
    description: str = ""
    limits: tuple[float, float] | None = None
    stacked: bool = False


@dataclass(frozen=True)
class Group:
    """A row of the dashboard."""

    title: str
    graphs: t.Sequence[Graph] = field(default_factory=tuple)


def chosen(metric: str, **labels: str) -> str:
    """The series of a metric that the user has chosen."""
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return metric + CHOSEN[:-1] + more + "}"


def rate(metric: str, by: str = BY) -> str:
    """What a counter grows by in a second."""
    return f"sum {by}(rate({chosen(metric)}[$__rate_interval]))"


def total(gauge: str, by: str = BY) -> str:
    """A gauge of all engines of an instance together."""
    return f"sum {by}({chosen(gauge)})"


def share(part: str, whole: str) -> str:
    """The part of one counter in another."""
    return f"{rate(part)} / {rate(whole)}"


def percentiles(histogram: str, of: t.Sequence[int] = PERCENTILES) -> list[tuple[str, str]]:
    """The percentiles of a histogram."""
    by = "by (le, node, instance) "
    return [(f"histogram_quantile({p / 100:g}, {rate(histogram + '_bucket', by)})", f"p{p} {LEGEND}") for p in of]


def mean(histogram: str) -> str:
    """The mean of a histogram."""
    return share(f"{histogram}_sum", f"{histogram}_count")


NOW: t.Final = [
    Graph("Instances up", "short", [(f"sum(up{SERVERS})", "")]),
    Graph("Generated tokens/s", "short", [(rate("vllm:generation_tokens_total", ""), "")]),
    Graph("Prompt tokens/s", "short", [(rate("vllm:prompt_tokens_total", ""), "")]),
    Graph("Requests running", "short", [(total("vllm:num_requests_running", ""), "")]),
    Graph("Requests waiting", "short", [(total("vllm:num_requests_waiting", ""), "")]),
    Graph("Fullest KV cache", "percentunit", [(f"max({chosen('vllm:kv_cache_usage_perc')})", "")]),
]

GROUPS: t.Final = [
    Group(
        "Throughput",
        [
            Graph("Generated tokens", "tokens/s", [(rate("vllm:generation_tokens_total"), LEGEND)]),
            Graph(
                "Prompt tokens by source",
                "tokens/s",
                [
                    (
                        rate("vllm:prompt_tokens_by_source_total", "by (node, instance, source) "),
                        f"{LEGEND} {{{{source}}}}",
                    )
                ],
                "Computed, or taken out of a cache.",
            ),
            Graph(
                "Finished requests by reason",
                "reqps",
                [
                    (
                        rate("vllm:request_success_total", "by (node, instance, finished_reason) "),
                        f"{LEGEND} {{{{finished_reason}}}}",
                    )
                ],
                stacked=True,
            ),
        ],
    ),
    Group(
        "Latency",
        [
            Graph("Time to first token", "s", percentiles("vllm:time_to_first_token_seconds")),
            Graph("Inter-token latency", "s", percentiles("vllm:inter_token_latency_seconds")),
            Graph("End-to-end latency", "s", percentiles("vllm:e2e_request_latency_seconds")),
            Graph("Time in the queue", "s", percentiles("vllm:request_queue_time_seconds")),
            Graph(
                "Mean time in prefill and decode",
                "s",
                [
                    (mean("vllm:request_prefill_time_seconds"), f"prefill {LEGEND}"),
                    (mean("vllm:request_decode_time_seconds"), f"decode {LEGEND}"),
                ],
            ),
            Graph(
                "Time per output token of a request",
                "s",
                percentiles("vllm:request_time_per_output_token_seconds", (50, 95)),
            ),
        ],
    ),
    Group(
        "Load",
        [
            Graph(
                "Requests running and waiting",
                "short",
                [
                    (total("vllm:num_requests_running"), f"running {LEGEND}"),
                    (total("vllm:num_requests_waiting"), f"waiting {LEGEND}"),
                ],
            ),
            Graph(
                "Requests waiting by reason",
                "short",
                [
                    (
                        total("vllm:num_requests_waiting_by_reason", "by (node, instance, reason) "),
                        f"{LEGEND} {{{{reason}}}}",
                    )
                ],
                "Capacity: the engine is full. Deferred: a passing limit, such as a transfer of KV cache.",
            ),
            Graph(
                "KV cache in use",
                "percentunit",
                [(chosen("vllm:kv_cache_usage_perc"), f"{LEGEND} engine {{{{engine}}}}")],
                "Full for long means preemptions and a growing queue.",
                limits=(0, 1),
            ),
            Graph(
                "Preemptions",
                "ops",
                [(rate("vllm:num_preemptions_total"), LEGEND)],
                "Requests that are computed twice.",
            ),
            Graph(
                "Prefix cache hit rate",
                "percentunit",
                [(share("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"), LEGEND)],
                "Share of the prompt tokens.",
                limits=(0, 1),
            ),
            Graph(
                "Rejected at admission",
                "reqps",
                [(rate("vllm:admission_rejections_total", "by (node, instance, reason) "), f"{LEGEND} {{{{reason}}}}")],
            ),
        ],
    ),
    Group(
        "Requests",
        [
            Graph("Prompt tokens of a request", "short", percentiles("vllm:request_prompt_tokens", (50, 95))),
            Graph("Generated tokens of a request", "short", percentiles("vllm:request_generation_tokens", (50, 95))),
            Graph(
                "HTTP answers by status",
                "reqps",
                [
                    (
                        f"sum by (node, instance, status) (rate(http_requests_total{SERVERS}[$__rate_interval]))",
                        f"{LEGEND} {{{{status}}}}",
                    )
                ],
                stacked=True,
            ),
        ],
    ),
    Group(
        "Speculative decoding (empty without)",
        [
            Graph(
                "Accepted draft tokens",
                "percentunit",
                [
                    (
                        share("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"),
                        LEGEND,
                    )
                ],
                limits=(0, 1),
            ),
            Graph(
                "Tokens a step",
                "short",
                [
                    (
                        "1 + "
                        + share("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_drafts_total"),
                        LEGEND,
                    )
                ],
                "One token a step comes from the model itself.",
            ),
        ],
    ),
]


def queries(graph: Graph) -> t.Iterator[prometheus.Dataquery]:
    """The queries of a panel."""
    for i, (expr, legend) in enumerate(graph.queries):
        yield prometheus.Dataquery().expr(expr).legend_format(legend).ref_id("ABC"[i]).datasource(SOURCE)


def number(graph: Graph, id_: int) -> stat.Panel:
    """A panel with one number, the newest."""
    panel = stat.Panel().id(id_).title(graph.title).unit(graph.unit)
    panel.datasource(SOURCE).height(4).span(WIDTH // len(NOW))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    for query in queries(graph):
        panel.with_target(query)
    return panel


def curves(graph: Graph, id_: int) -> timeseries.Panel:
    """A panel with curves over time."""
    panel = timeseries.Panel().id(id_).title(graph.title).description(graph.description).unit(graph.unit)
    panel.datasource(SOURCE).height(HEIGHT).span(WIDTH // 3).fill_opacity(10).line_width(1).min(
        graph.limits[0] if graph.limits else 0
    )
    if graph.limits:
        panel.max(graph.limits[1])
    if graph.stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    legend = common.VizLegendOptions().show_legend(True).placement(LegendPlacement.BOTTOM)
    panel.legend(legend.display_mode(LegendDisplayMode.LIST))
    panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    for query in queries(graph):
        panel.with_target(query)
    return panel


def variable(name: str, label: str, values: str) -> dashboard.QueryVariable:
    """A choice of several values of a label, all at first."""
    chooser = dashboard.QueryVariable(name).label(label).query(values).datasource(SOURCE).multi(True)
    chooser.include_all(True).all_value(".*").current(VariableOption(text="All", value="$__all"))
    chooser.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    return chooser


def build() -> str:
    """The dashboard as JSON."""
    board = dashboard.Dashboard("vLLM").uid("modelops-vllm").tags(["vllm", "modelops"]).editable()
    board.description("Instances of vLLM that the collection modelops.vllm serves.")
    board.time("now-3h", "now").refresh("30s").tooltip(DashboardCursorSync.CROSSHAIR)
    board.with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    gauge = "vllm:num_requests_running"
    board.with_variable(variable("node", "Node", f"label_values({gauge}, node)"))
    board.with_variable(variable("instance", "Instance", f'label_values({gauge}{{node=~"$node"}}, instance)'))
    narrowed = f'{gauge}{{node=~"$node",instance=~"$instance"}}'
    board.with_variable(variable("model", "Model", f"label_values({narrowed}, model_name)"))
    ids = itertools.count(1)
    for graph in NOW:
        board.with_panel(number(graph, next(ids)))
    for group in GROUPS:
        board.with_row(dashboard.Row(group.title).id(next(ids)))
        for graph in group.graphs:
            board.with_panel(curves(graph, next(ids)))
    return json.dumps(board.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(build())
