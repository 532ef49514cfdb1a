# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The report on one result: its content, once for all formats, and its form for a terminal. Pure.

Same records, same bytes: no clock, no host name, no random number of the machine that writes the report.
"""

from __future__ import annotations

import json
import time
import typing as t
from dataclasses import dataclass

from .._table import aligned
from . import figures, origin
from .claims import not_claimed
from .compare import Comparison, PointResult, Record, flatten, group, judge
from .document import Bullets, Charts, Document, Notes, Section, Table, number
from .figures import Series

# What the verdicts mean to somebody who reads only the first line.
VERDICTS: t.Final[dict[str, str]] = {
    "recorded": "Recorded: every request was validated; there is no baseline to compare with.",
    "better": "Better than the baseline.",
    "same": "The same as the baseline, within the noise.",
    "worse": "Worse than the baseline.",
    "not_comparable": "Not comparable with the baseline.",
    "invalid": "Invalid: the figures of at least one point may not be used.",
    "published": "Published figures: nothing here was measured or validated by this tool.",
}

# The user's part of the identity that belongs into the headline, under the name that readers know.
_HEADLINE: t.Final[dict[str, str]] = {
    "repo_id": "Repository",
    "model_commit": "Commit",
    "commit": "Commit",
    "revision": "Revision",
    "layout": "Layout",
    "hardware_profile": "Hardware",
    "hardware": "Hardware",
}


# Clients that are not vLLM's own.
_CLIENTS: t.Final[dict[str, str]] = {"aiperf": "aiperf", "builtin": "built-in client"}


@dataclass(frozen=True)
class Column:
    """One column of the table: heading, heading in a terminal (empty: not shown there), the place in the metrics."""

    heading: str
    short: str
    path: tuple[str, ...]
    part: str = "metrics"

    def median(self, result: PointResult) -> float | None:
        """The figure of one point."""
        return result.median(*self.path, part=self.part)


COLUMNS: t.Final = (
    Column("output (tok/s)", "out tok/s", ("output_tokens_per_s",)),
    Column("output, steady state (tok/s)", "", ("steady_output_tokens_per_s",)),
    Column("output per GPU (tok/s)", "per GPU", ("output_tokens_per_s_per_gpu",)),
    Column("decode per user (tok/s)", "per user", ("decode_tokens_per_s_per_user",)),
    Column("TTFT p50 (ms)", "TTFT ms", ("ttft_ms", "median")),
    Column("first output token p50 (ms)", "", ("ttfo_ms", "median")),
    Column("TPOT p50 (ms)", "TPOT ms", ("tpot_ms", "median")),
    Column("E2E p50 (ms)", "", ("e2e_ms", "median")),
    Column("goodput (requests/s)", "", ("goodput", "requests_per_s")),
    Column("energy (J/output token)", "", ("joules_per_output_token",), "energy"),
    Column("efficiency (tok/s/W)", "", ("output_tokens_per_s_per_w",), "energy"),
    Column("cost (per million output tokens)", "", ("per_million_output_tokens",), "cost"),
)


@dataclass(frozen=True)
class Report:
    """Everything that a report says. ``series`` has the points of the result; ``before`` those of the baseline."""

    title: str
    facts: list[tuple[str, str]]
    series: list[Series]
    before: list[Series]
    comparison: Comparison
    findings: list[dict[str, t.Any]]
    identity: list[tuple[str, str]]
    not_claimed: list[str]

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return VERDICTS[self.comparison.verdict]

    @property
    def results(self) -> list[PointResult]:
        """All points of the result."""
        return [result for one in self.series for result in one.results]


def build(records: list[Record], baseline: list[Record] | None = None) -> Report:
    """The content of a report on ``records`` (one run), compared with ``baseline`` when there is one."""
    series = split(records)
    published = origin.source(records)
    return Report(
        title=f"{'Published figures' if published else 'Benchmark'} of {_names(records)}",
        facts=_published_facts(records, published) if published else _facts(records[0], records),
        series=series,
        before=[Series("baseline", group(baseline), muted=True)] if baseline and not origin.source(baseline) else [],
        comparison=judge(records, baseline),
        findings=findings(records),
        identity=[(key, plain(value)) for key, value in flatten(_shared_identity(records)).items() if key],
        not_claimed=origin.not_claimed(records) if published else not_claimed(records, group(records)),
    )


def _names(records: list[Record]) -> str:
    return ", ".join(dict.fromkeys(str(record["identity"]["model"]) for record in records))


def split(records: list[Record]) -> list[Series]:
    """The points by what was measured, models and layouts; a run of the benchmark has one of each."""
    parts: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        identity = record["identity"]
        key = (str(identity["model"]), str((identity.get("given") or {}).get("layout") or ""))
        parts.setdefault(key, []).append(record)
    several = [len({key[i] for key in parts}) > 1 for i in range(2)]
    label = {key: " ".join(part for part, named in zip(key, several, strict=True) if named and part) for key in parts}
    return [Series(label[key] or key[1] or key[0], group(rows)) for key, rows in parts.items()]


def _shared_identity(records: list[Record]) -> dict[str, t.Any]:
    """What all records have in common: all of it for a run, less for figures of several models."""
    first, *others = [flatten(record["identity"]) for record in records]
    return {key: value for key, value in first.items() if all(other.get(key, value) == value for other in others)}


def _published_facts(records: list[Record], source: str) -> list[tuple[str, str]]:
    given = records[0]["identity"].get("given") or {}
    hardware = [("Hardware", str(given["hardware"]))] if given.get("hardware") else []
    return [("Models", _names(records)), *hardware, ("Source", source)]


def _facts(first: Record, records: list[Record]) -> list[tuple[str, str]]:
    identity, given = first["identity"], first["identity"]["given"]
    facts = [("Model", str(identity["model"]))]
    for key, heading in _HEADLINE.items():
        if given.get(key) not in (None, "") and heading not in dict(facts):
            facts.append((heading, plain(given[key])))
    if identity["gpus"]:
        facts.append(("GPUs of the instance", str(identity["gpus"])))
    client = identity["client"]
    name = _CLIENTS.get(client["engine"], f"vllm bench serve, {client['engine']}")
    facts += [
        ("vLLM", str(identity["server"]["vllm_version"] or "unknown")),
        ("Client", f"{name}, {client.get('version') or client['vllm_version']}"),
        ("Measured", f"{utc(first['started_unix'])} to {utc(records[-1]['ended_unix'])}"),
        ("Run", str(first["run"])),
    ]
    cost = next((r["cost"] for r in records if r.get("cost")), None)
    if cost:
        facts.append(("Price of a GPU and hour", f"{cost['gpu_hour_price']:g} {cost['currency']}"))
    return facts


def utc(seconds: float) -> str:
    """A time in Unix seconds as people write it."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def plain(value: t.Any) -> str:
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def findings(records: list[Record]) -> list[dict[str, t.Any]]:
    """Findings of the run, then those of the points, errors first; what repeats say alike is said once."""
    seen: dict[tuple[str, str], dict[str, t.Any]] = {}
    for record in records:
        for found in record["run_findings"]:
            seen.setdefault(("", found["message"]), {**found, "where": "run"})
    for record in records:
        point = record["point"]["id"]
        for found in record["findings"]:
            seen.setdefault((point, found["message"]), {**found, "where": f"{point}, repeat {record['repeat']}"})
    return by_severity(seen.values())


def by_severity(found: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Errors, then warnings, then the rest, each in the order they came."""
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda f: order.get(f["severity"], 3))


def tail(result: PointResult, metric: str) -> tuple[str, float | None]:
    """The highest percentile that the sample allows, or the maximum: its name and value."""
    for name in ("p99", "p95", "p90", "max"):
        value = result.median(metric, name)
        if value is not None:
            return name, value
    return "max", None


def state(result: PointResult) -> str:
    """How many repeats are valid, and why the others are not; nobody has validated what was published."""
    if origin.source(result.records):
        return "not measured"
    count = f"{len(result.valid)}/{len(result.records)} valid"
    return f"{count}: {', '.join(result.problems)}" if result.problems else count


def rows(series: t.Sequence[Series]) -> Table:
    """The points as a table. Columns without a single figure are left out, and so is the name of a single series."""
    columns = _columns(series, short=False)
    tails = {id(result): tail(result, "ttft_ms") for one in series for result in one.results}
    tailed = any(value is not None for _name, value in tails.values())
    headings = ["what", "concurrency", "in/out tokens", "prompts", *(column.heading for column in columns)]
    headings += [*(["TTFT tail (ms)"] if tailed else []), "repeats"]
    body = []
    for one in series:
        for result in one.results:
            name, value = tails[id(result)]
            shown = f"{name} {number(value)}" if value is not None else "-"
            body.append([one.label, *_cells(result, columns), *([shown] if tailed else []), state(result)])
    drop = 0 if len(series) > 1 else 1
    return Table(headings[drop:], [cells[drop:] for cells in body])


def _columns(series: t.Iterable[Series], *, short: bool) -> list[Column]:
    shown = [column for column in COLUMNS if column.short or not short]
    results = [result for one in series for result in one.results]
    return [column for column in shown if any(column.median(r) is not None for r in results)]


def _cells(result: PointResult, columns: t.Iterable[Column]) -> list[str]:
    point = result.point
    rate = point.get("rate")
    load = f"{rate:g}/s" if rate else str(point["concurrency"] or "-")
    lengths = f"{point['input_len'] or 'file'}/{point['output_len']}" if point["output_len"] else "-"
    return [load, lengths, str(point["num_prompts"] or "-"), *(number(column.median(result)) for column in columns)]


def text_table(report: Report) -> str:
    """The summary for a terminal: facts, table and verdict. It fits into 80 columns, where callbacks wrap."""
    columns = _columns(report.series, short=True)
    table = [["what", "C", "in/out", "n", *(column.short for column in columns), "valid"]]
    table += [
        [one.label, *_cells(result, columns), state(result).split(":")[0].removesuffix(" valid")]
        for one in report.series
        for result in one.results
    ]
    table = table if len(report.series) > 1 else [cells for _label, *cells in table]
    # The first column is not indented: YAML callbacks would quote such lines.
    lines = aligned(table, {0})
    facts = [f"{name} {value}" for name, value in report.facts if name in ("Layout", "vLLM", "Client")]
    warnings = sorted({f["id"] for f in report.findings if f["severity"] == "warning"})
    moved = [
        f"{c.point}, {c.figure}: {c.difference:+.1%} (noise ±{c.band:.1%}), {c.verdict}"
        for c in report.comparison.changes
        if c.verdict != "same"
    ]
    notes = [
        *report.comparison.reasons,
        *moved,
        *([f"Warnings (see the report): {', '.join(warnings)}"] if warnings else []),
    ]
    return "\n".join(["; ".join([report.title, *facts]), *lines, report.headline, *notes])


def document(report: Report) -> Document:
    """The report in the order in which it is read: the verdict, the diagrams, the figures, and what they rest on."""
    comparison = report.comparison
    pictures = [
        figures.changes(comparison),
        figures.highest(report.series),
        *figures.charts([*report.series, *report.before]),
    ]
    shown = [chart for chart in pictures if chart is not None]
    sections = [
        *([Section("Diagrams", Charts(shown))] if shown else []),
        Section("Points", rows(report.series)),
        *([Section("Why", Bullets(comparison.reasons))] if comparison.reasons else []),
        *([Section("Against the baseline", change_rows(comparison))] if comparison.changes else []),
        *([Section("What differs", Bullets(comparison.subjects))] if comparison.subjects else []),
        Section("Findings", Notes(report.findings)),
        Section("Identity", Table(["what", "value"], [list(pair) for pair in report.identity], kind="words")),
        Section("What is not claimed", Bullets(report.not_claimed)),
    ]
    return Document(report.title, comparison.verdict, report.headline, report.facts, sections)


def change_rows(comparison: Comparison) -> Table:
    """The comparison as a table."""
    headings = ["point", "figure", "baseline", "result", "change", "noise band", "verdict"]
    body = [
        [
            c.point,
            c.figure,
            number(c.baseline),
            number(c.result),
            f"{c.difference:+.1%}",
            f"±{c.band:.1%}",
            c.verdict + (" (ranges overlap)" if c.overlap and abs(c.difference) > c.band else ""),
        ]
        for c in comparison.changes
    ]
    return Table(headings, body, marks=[c.verdict for c in comparison.changes], kind="wide")
