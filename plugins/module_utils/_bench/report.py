# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The report's content, once for all formats, and its plain text and Markdown forms. Pure.

Same records, same bytes: no clock, no host name, no random number of the machine that writes the report.
"""

from __future__ import annotations

import json
import time
import typing as t
from dataclasses import dataclass

from .compare import Comparison, PointResult, Record, flatten, group, judge
from .stats import PERCENTILE_FLOORS

# What the verdicts mean to somebody who reads only the first line.
VERDICTS: t.Final[dict[str, str]] = {
    "recorded": "Recorded: every request was validated; there is no baseline to compare with.",
    "better": "Better than the baseline.",
    "same": "The same as the baseline, within the noise.",
    "worse": "Worse than the baseline.",
    "not_comparable": "Not comparable with the baseline.",
    "invalid": "Invalid: the figures of at least one point may not be used.",
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
    Column("TPOT p50 (ms)", "TPOT ms", ("tpot_ms", "median")),
    Column("E2E p50 (ms)", "", ("e2e_ms", "median")),
    Column("goodput (requests/s)", "", ("goodput", "requests_per_s")),
    Column("energy (J/output token)", "", ("joules_per_output_token",), "energy"),
    Column("efficiency (tok/s/W)", "", ("output_tokens_per_s_per_w",), "energy"),
    Column("cost (per million output tokens)", "", ("per_million_output_tokens",), "cost"),
)


@dataclass(frozen=True)
class Report:
    """Everything that a report says."""

    title: str
    facts: list[tuple[str, str]]
    results: list[PointResult]
    comparison: Comparison
    findings: list[dict[str, t.Any]]
    identity: list[tuple[str, str]]
    not_claimed: list[str]

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return VERDICTS[self.comparison.verdict]


def build(records: list[Record], baseline: list[Record] | None = None) -> Report:
    """The content of a report on ``records`` (one run), compared with ``baseline`` when there is one."""
    first = records[0]
    identity = first["identity"]
    results = group(records)
    return Report(
        title=f"Benchmark of {identity['model']}",
        facts=_facts(first, records),
        results=results,
        comparison=judge(records, baseline),
        findings=_findings(records),
        identity=[(key, _plain(value)) for key, value in flatten(identity).items() if key],
        not_claimed=_not_claimed(records, results),
    )


def _facts(first: Record, records: list[Record]) -> list[tuple[str, str]]:
    identity, given = first["identity"], first["identity"]["given"]
    facts = [("Model", str(identity["model"]))]
    for key, heading in _HEADLINE.items():
        if given.get(key) not in (None, "") and heading not in dict(facts):
            facts.append((heading, _plain(given[key])))
    if identity["gpus"]:
        facts.append(("GPUs of the instance", str(identity["gpus"])))
    facts += [
        ("vLLM", str(identity["server"]["vllm_version"] or "unknown")),
        ("Client", f"vllm bench serve, {identity['client']['engine']}, {identity['client']['vllm_version']}"),
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


def _plain(value: t.Any) -> str:
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _findings(records: list[Record]) -> list[dict[str, t.Any]]:
    """Findings of the run, then those of the points, errors first; what repeats say alike is said once."""
    seen: dict[tuple[str, str], dict[str, t.Any]] = {}
    for found in records[0]["run_findings"]:
        seen.setdefault(("", found["message"]), {**found, "where": "run"})
    for record in records:
        point = record["point"]["id"]
        for found in record["findings"]:
            seen.setdefault((point, found["message"]), {**found, "where": f"{point}, repeat {record['repeat']}"})
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(seen.values(), key=lambda f: order.get(f["severity"], 3))


def _not_claimed(records: list[Record], results: list[PointResult]) -> list[str]:
    """What a reader could take from the table and should not."""
    claims = [_dataset_claim(str(records[0]["identity"]["load"]["dataset"]))]
    repeats = min(len(r.records) for r in results)
    if repeats < 3:
        claims.append(f"Points were measured {repeats} time(s): there is no statement about noise between repeats.")
    else:
        claims.append("Repeats of one session do not show what changes between starts of the server.")
    requests = max((r["metrics"] or {}).get("requests", 0) for r in records)
    hidden = [f"p{p}" for p, floor in PERCENTILE_FLOORS.items() if requests < floor]
    if hidden:
        claims.append(
            f"{', '.join(hidden)} are not given: no point has enough requests for them (p90 from 64, p95 from 130, "
            "p99 from 662); the maximum is."
        )
    if records[0]["identity"]["client"]["place"] == "loopback":
        claims.append(
            "The client ran on the server's host: there is no network in the latencies, and it took CPU time there."
        )
    claims += _energy_claims(records)
    if not any(r.get("cost") for r in records):
        claims.append("Cost was not computed: no price was given.")
    return claims


def _dataset_claim(dataset: str) -> str:
    if dataset == "random tokens":
        return (
            "The prompts are random tokens and every output has the asked length: this is speed under load. It says "
            "nothing about the quality of answers, real text, speculative decoding or tool calls."
        )
    return (
        f"The prompts are {dataset}, and every output has the asked length: this is speed under load. It says nothing "
        "about the quality of answers or tool calls."
    )


def _energy_claims(records: list[Record]) -> list[str]:
    """What the energy figures leave out, or why there are none."""
    tried = [r["energy"] for r in records if r.get("energy")]
    reasons = sorted({energy["reason"] for energy in tried if not energy["valid"]})
    if not tried:
        return ["Energy was not measured."]
    claims = []
    if any(energy["valid"] for energy in tried):
        claims.append("Energy is that of the instance's GPU boards; host, fans and power supplies are not in it.")
    if reasons:
        claims.append(f"Energy was not measured: {'; '.join(reasons)}.")
    return claims


def number(value: float | None) -> str:
    """A figure for people: no more digits than it deserves; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"


def tail(result: PointResult, metric: str) -> tuple[str, float | None]:
    """The highest percentile that the sample allows, or the maximum: its name and value."""
    for name in ("p99", "p95", "p90", "max"):
        value = result.median(metric, name)
        if value is not None:
            return name, value
    return "max", None


def state(result: PointResult) -> str:
    """How many repeats are valid, and why the others are not."""
    count = f"{len(result.valid)}/{len(result.records)} valid"
    return f"{count}: {', '.join(result.problems)}" if result.problems else count


def rows(report: Report) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the table. Columns without a single figure are left out."""
    columns = _columns(report, short=False)
    headings = ["concurrency", "in/out tokens", "prompts", *(c.heading for c in columns), "TTFT tail (ms)", "repeats"]
    body = []
    for result in report.results:
        name, value = tail(result, "ttft_ms")
        body.append([*_cells(result, columns), f"{name} {number(value)}" if value is not None else "-", state(result)])
    return headings, body


def _columns(report: Report, *, short: bool) -> list[Column]:
    shown = [column for column in COLUMNS if column.short or not short]
    return [column for column in shown if any(column.median(r) is not None for r in report.results)]


def _cells(result: PointResult, columns: t.Iterable[Column]) -> list[str]:
    point = result.point
    rate = point.get("rate")
    load = f"{rate:g}/s" if rate else str(point["concurrency"])
    lengths = f"{point['input_len'] or 'file'}/{point['output_len']}"
    return [load, lengths, str(point["num_prompts"]), *(number(column.median(result)) for column in columns)]


def text_table(report: Report) -> str:
    """The summary for a terminal: facts, table and verdict. It fits into 80 columns, where callbacks wrap."""
    columns = _columns(report, short=True)
    table = [["C", "in/out", "n", *(column.short for column in columns), "valid"]]
    table += [[*_cells(r, columns), f"{len(r.valid)}/{len(r.records)}"] for r in report.results]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    # The first column is not indented: YAML callbacks would quote such lines.
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table]
    facts = [f"{name} {value}" for name, value in report.facts if name in ("Layout", "vLLM", "Client")]
    warnings = sorted({f["id"] for f in report.findings if f["severity"] == "warning"})
    notes = [*report.comparison.reasons, *([f"Warnings (see the report): {', '.join(warnings)}"] if warnings else [])]
    return "\n".join(["; ".join([report.title, *facts]), *lines, report.headline, *notes])


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, in one line, also inside a table."""
    flat = " ".join(text.split())
    for character in "\\`*_{}[]<>|#~!":
        flat = flat.replace(character, f"\\{character}")
    return flat


def markdown_table(headings: t.Sequence[str], body: t.Iterable[t.Sequence[str]]) -> list[str]:
    """Lines of a table; every cell is escaped."""
    table = [list(headings), ["---"] * len(headings)]
    lines = [table[0], *([*map(str, row)] for row in body)]
    escaped = ["| " + " | ".join(escape_markdown(cell) for cell in line) + " |" for line in lines]
    return [escaped[0], "|" + "|".join(table[1]) + "|", *escaped[1:]]


def markdown(report: Report) -> str:
    """The report for a ticket."""
    comparison = report.comparison
    lines = [f"# {escape_markdown(report.title)}", "", f"**{report.headline}**", ""]
    lines += [f"- {name}: {escape_markdown(value)}" for name, value in report.facts]
    lines += ["", "## Points", "", *markdown_table(*rows(report))]
    if comparison.reasons:
        lines += ["", "## Why", "", *(f"- {escape_markdown(reason)}" for reason in comparison.reasons)]
    if comparison.changes:
        lines += ["", "## Against the baseline", "", *markdown_table(*change_rows(comparison))]
    if comparison.subjects:
        lines += ["", "What differs:", "", *(f"- {escape_markdown(text)}" for text in comparison.subjects)]
    lines += ["", "## Findings", ""]
    lines += [
        f"- **{f['severity']}** {escape_markdown(f['id'])} ({escape_markdown(f['where'])}): "
        f"{escape_markdown(f['message'])} {escape_markdown(f['remedy'])}".rstrip()
        for f in report.findings
    ] or ["None."]
    lines += ["", "## Identity", "", *markdown_table(("what", "value"), report.identity)]
    lines += ["", "## What is not claimed", "", *(f"- {escape_markdown(text)}" for text in report.not_claimed), ""]
    return "\n".join(lines)


def change_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the comparison."""
    headings = ["point", "figure", "baseline", "result", "change", "noise band", "verdict"]
    return headings, [
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
