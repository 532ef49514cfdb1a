# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports in text, Markdown and HTML."""

from __future__ import annotations

import html.parser
import re
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import markdown, page, report

from tests.support.bench_records import as_baseline, failed, record, repeats

Records = list[dict[str, t.Any]]

HOSTILE = '<script>alert("x")</script> | `a` *b* [c](d)\n# e'


def in_markdown(records: Records, baseline: Records | None = None) -> str:
    return markdown.render(report.document(report.build(records, baseline)))


def in_html(records: Records, baseline: Records | None = None) -> str:
    return page.render(report.document(report.build(records, baseline)))


def table(records: Records) -> tuple[list[str], list[list[str]]]:
    made = report.rows(report.build(records).series)
    return made.headings, made.rows


def hostile_records() -> list[dict[str, t.Any]]:
    records = [record(), failed(concurrency=16)]
    for item in records:
        item["identity"]["model"] = HOSTILE
        item["identity"]["given"]["layout"] = HOSTILE
    records[1]["findings"][0]["message"] = HOSTILE
    return records


class Page(html.parser.HTMLParser):
    """Collects tags, and complains about those that do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_the_text_table_has_the_figures_and_fits_into_80_columns() -> None:
    built = report.build([record(1, rate=61.25), record(128, rate=3950.0, ttft_ms=1234.5)])
    first, *lines = report.text_table(built).splitlines()
    assert first == "Benchmark of minimax-m2.5; Layout tp8-ep; vLLM 0.32.0; Client vllm bench serve, python, 0.32.0"
    assert " ".join(lines[0].split()) == "C in/out n out tok/s per GPU per user TTFT ms TPOT ms valid"
    assert lines[1].split() == ["1", "512/128", "10", "61.2", "7.66", "61.2", "50.0", "16.3", "1/1"]
    assert lines[2].split() == ["128", "512/128", "1280", "3,950", "494", "30.9", "1,234", "32.4", "1/1"]
    assert max(map(len, lines[:3])) <= 80
    assert lines[3].startswith("Recorded")


def test_the_text_names_warnings_since_they_explain_missing_figures() -> None:
    found = {"id": "token-times-withheld", "severity": "warning", "message": "m", "numbers": {}, "remedy": "r"}
    item = record(findings=[found])
    item["metrics"]["ttft_ms"]["median"] = None
    text = report.text_table(report.build([item, record(1)]))
    assert "Warnings (see the report): token-times-withheld" in text
    assert "Warnings" not in report.text_table(report.build([record()]))


def test_the_text_names_what_moved_against_the_baseline() -> None:
    lines = report.text_table(
        report.build(repeats([790.0, 800.0, 810.0]), as_baseline(repeats([990.0, 1000.0, 1010.0])))
    ).splitlines()
    assert lines[3] == "Worse than the baseline."
    assert lines[4] == "c8-i512-o128-n80, output tokens/s: -20.0% (noise ±9.4%), worse"
    assert not any("TTFT median" in line for line in lines)


def test_without_gpus_the_column_is_left_out() -> None:
    item = record()
    item["metrics"]["output_tokens_per_s_per_gpu"] = None
    assert "per GPU" not in report.text_table(report.build([item]))


def test_an_invalid_point_shows_its_reason_and_no_figures() -> None:
    text = report.text_table(report.build([record(8), failed(concurrency=16, rate=9999.0)]))
    assert "9,999" not in text
    assert "0/1" in text
    assert "Invalid" in text
    assert "c16-i512-o128-n160: requests-failed" in text


def test_the_highest_honest_percentile_is_named() -> None:
    headings, body = table([record(8)])
    assert body[0][headings.index("TTFT tail (ms)")] == "p90 100"
    short = record(1)
    short["metrics"]["ttft_ms"]["p90"] = None
    headings, body = table([short])
    assert body[0][headings.index("TTFT tail (ms)")] == "max 150"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (3.14159, "3.14"), (61.25, "61.2"), (99.96, "100.0"), (1239.4, "1,239"), (0.0, "0.00")],
)
def test_figures_have_the_digits_that_they_deserve(value: float | None, shown: str) -> None:
    assert report.number(value) == shown


def test_markdown_has_every_part_and_escapes_everything() -> None:
    text = in_markdown(hostile_records())
    for part in ("## Points", "## Why", "## Findings", "## Identity", "## What is not claimed"):
        assert part in text
    assert "<script>" not in text
    assert "\n# e" not in text
    assert r"\<script\>" in text
    # Every row of a table has the same number of cells: no value opened a new one.
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows
    for line in rows:
        assert len(re.findall(r"(?<!\\)\|", line)) in (3, 13)


def test_html_is_well_formed_self_contained_and_escaped() -> None:
    text = in_html(hostile_records())
    parsed = Page()
    parsed.feed(text)
    assert parsed.open == []
    assert not {"script", "link", "img", "image", "iframe", "foreignobject"} & set(parsed.tags)
    # A drawing refers to its own parts; nothing refers to another file.
    assert not re.search(r"src=|href=\"(?!#)|url\((?!#)|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert "1,000" in parsed.cells
    assert "&lt;script&gt;" in text


def test_a_comparison_shows_its_band_and_what_differs() -> None:
    after = repeats([1190.0, 1200.0, 1210.0])
    for item in after:
        item["identity"]["given"]["layout"] = "tp4-r2"
    before = as_baseline(repeats([990.0, 1000.0, 1010.0]))
    assert report.build(after, before).comparison.verdict == "better"
    for text in (in_markdown(after, before), in_html(after, before)):
        assert "Better than the baseline." in text
        assert "+20.0%" in text
        assert "in the baseline" in text


def test_the_same_records_give_the_same_bytes() -> None:
    records = [record(1), record(8)]
    assert in_html(records) == in_html(records)
    assert in_markdown(records) == in_markdown(records)


def test_what_is_not_claimed_follows_from_the_records() -> None:
    single = report.build([record(8)]).not_claimed
    assert any("no statement about noise" in text for text in single)
    assert any("p95, p99 are not given" in text for text in single)
    assert any("on the server's host" in text for text in single)
    remote = repeats([1000.0, 1001.0, 1002.0], concurrency=128)
    for item in remote:
        item["identity"]["client"]["place"] = "remote"
    many = report.build(remote).not_claimed
    assert not any("are not given" in text or "server's host" in text for text in many)
    assert any("between starts of the server" in text for text in many)


def test_findings_are_said_once_and_errors_come_first() -> None:
    info = {"id": "tokens-merged", "severity": "info", "message": "m", "numbers": {}, "remedy": ""}
    records = [record(findings=[info]), record(repeat=2, findings=[info]), failed(concurrency=16)]
    found = report.build(records).findings
    assert [(f["id"], f["where"]) for f in found] == [
        ("requests-failed", "c16-i512-o128-n160, repeat 1"),
        ("tokens-merged", "c8-i512-o128-n80, repeat 1"),
    ]


def test_energy_cost_and_goodput_have_columns_when_they_are_there() -> None:
    one = record(8)
    one["metrics"]["goodput"] = {"requests_per_s": 3.1}
    one["energy"] = {"valid": True, "reason": "", "joules_per_output_token": 2.59, "output_tokens_per_s_per_w": 0.386}
    one["cost"] = {"per_million_output_tokens": 2.69, "gpu_hour_price": 1.5, "currency": "EUR"}
    text = in_markdown([one])
    assert "energy (J/output token) | efficiency (tok/s/W) | cost (per million output tokens)" in text
    assert "| 3.10 | 2.59 | 0.39 | 2.69 |" in text
    assert "- Price of a GPU and hour: 1.5 EUR" in text
    assert "Energy is that of the instance's GPU boards" in text
    assert "Cost was not computed" not in text
    plain = in_markdown([record(8)])
    assert "energy (J/output token)" not in plain
    assert "Energy was not measured." in plain
    assert "Cost was not computed: no price was given." in plain


def test_the_first_output_token_of_a_thinking_model_has_a_column() -> None:
    thinking = record(8)
    thinking["metrics"]["ttfo_ms"] = {"median": 640.0}
    headings, body = table([thinking])
    assert body[0][headings.index("first output token p50 (ms)")] == "640"
    assert "first output token p50 (ms)" not in table([record(8)])[0]


def test_the_reason_for_no_energy_is_told() -> None:
    energy = {"valid": False, "reason": "the server is not on the client's host"}
    text = in_markdown([record(8, energy=energy)])
    assert "Energy was not measured: the server is not on the client's host." in text


def test_a_rate_and_prompts_of_a_file_are_shown_as_such() -> None:
    point = {"id": "q4-o128-n240", "concurrency": None, "rate": 4.0, "input_len": None, "output_len": 128}
    records = [record(8, point={**point, "num_prompts": 240})]
    records[0]["identity"]["load"]["dataset"] = "file sha256:0123456789abcdef"
    text = in_markdown(records)
    assert "| 4/s | file/128 | 240 |" in text
    assert "The prompts are file sha256:0123456789abcdef, and every output has the asked length" in text
