# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published figures: shown as such, and never compared."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import markdown, origin, page, report, storage
from ansible_collections.modelops.vllm.plugins.module_utils._bench.compare import judge

from tests.support.bench_records import repeats

EXAMPLE = Path(__file__).parents[5] / "docs" / "examples" / "published"


def published() -> list[dict[str, t.Any]]:
    return storage.read_records(str(EXAMPLE / "points.jsonl"))


def test_the_users_figures_are_those_that_they_published() -> None:
    shown = {
        (r["identity"]["model"], r["identity"]["given"]["layout"], r["point"]["concurrency"]): r["metrics"]
        for r in published()
    }
    assert {key: metrics["output_tokens_per_s"] for key, metrics in shown.items()} == {
        ("Kimi-K2.5-NVFP4", "", 1): 61.0,
        ("Kimi-K2.5-NVFP4", "", 128): 1239.0,
        ("MiniMax-M2.5", "tp4", 1): 84.0,
        ("MiniMax-M2.5", "tp4", None): 2500.0,
        ("MiniMax-M2.5", "tp8-ep", None): 4000.0,
    }
    assert shown["MiniMax-M2.5", "tp4", None]["output_tokens_per_s_per_gpu"] == 625.0
    assert shown["MiniMax-M2.5", "tp8-ep", None]["output_tokens_per_s_per_gpu"] == 500.0


def test_a_report_on_them_says_that_they_were_not_measured() -> None:
    built = report.build(published())
    assert built.comparison.verdict == "published"
    text = markdown.render(report.document(built))
    assert "nothing here was measured or validated by this tool" in text
    assert "| Kimi-K2.5-NVFP4 | 128 | - | - | 1,239 | 155 | not measured |" in text
    assert "valid |" not in text
    assert "they are no baseline" in text
    assert "not measured" in report.text_table(built)


@pytest.mark.parametrize(
    ("result", "baseline", "side"), [(0, 1, "the baseline"), (1, 0, "the result"), (1, 1, "the result")]
)
def test_they_are_never_compared(result: int, baseline: int, side: str) -> None:
    sides = [repeats([990.0, 1000.0, 1010.0]), published()]
    found = judge(sides[result], sides[baseline])
    assert found.verdict == "not_comparable"
    assert found.reasons[0].startswith(f"{side} has published figures (the users' own account")
    assert found.changes == []


def test_one_published_record_among_measured_ones_is_enough() -> None:
    measured = repeats([990.0, 1000.0, 1010.0])
    mixed = [*measured[:2], {**measured[2], "origin": {"kind": "published", "source": "a slide"}}]
    assert origin.source(mixed) == "a slide"
    assert judge(mixed, measured).verdict == "not_comparable"
    assert origin.source(measured) == ""


def test_the_example_report_is_the_one_that_is_made_of_them() -> None:
    document = report.document(report.build(published()))
    assert (EXAMPLE / "report.md").read_text() == markdown.render(document)

    def without_drawings(text: str) -> str:
        # Drawings differ between versions of matplotlib.
        return re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)

    page_text = (EXAMPLE / "report.html").read_text()
    assert without_drawings(page_text) == without_drawings(page.render(document))
    assert page_text.count("<svg") == 3
    assert len(page_text) < 200_000


def test_the_file_is_in_the_form_that_the_benchmark_writes() -> None:
    for line in (EXAMPLE / "points.jsonl").read_text().splitlines():
        assert json.loads(line)["schema_version"] == storage.SCHEMA_VERSION
