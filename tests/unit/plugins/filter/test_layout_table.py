# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of layouts that people read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.filter.layout_table import FilterModule, layout_table
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import layout_info

MODELS = json.loads((Path(__file__).parents[2] / "fixtures" / "models.json").read_text(encoding="utf-8"))["models"]
M25 = next(m for m in MODELS if m["id"] == "MiniMaxAI/MiniMax-M2.5")
RTX = {"count": 8, "name": "NVIDIA RTX PRO 6000 Blackwell", "memory_mib": 97887, "compute_cap": "12.0", "link": "pcie"}


def plan(**options):
    return layout_info({"config": M25, "gpus": RTX, "vllm_version": "0.26.0", **options})


def table(**options):
    return layout_table(plan(**options)).splitlines()


def test_the_filter_has_its_name():
    assert FilterModule().filters() == {"layout_table": layout_table}


def test_the_recommended_layout_comes_first_and_ties_are_marked():
    result, lines = plan(), table()
    assert " ".join(lines[0].split()) == (
        "layout GPUs idle weights overhead KV tokens an engine longest requests warnings"
    )
    assert lines[1].startswith(f"*  {result['recommended']} ")
    marked = [line.split()[1] for line in lines if line.startswith("=")]
    assert sorted(marked) == sorted(result["recommendation"]["ties"])


def test_numbers_of_a_row():
    (row,) = (line for line in table(layouts=["tp4-r2"], max_model_len=131072) if line.startswith("*"))
    assert row.split() == ["*", "tp4-r2", "8", "0", "53.72", "8.0", "867,542", "433,771", "196,608", "6.6"]


def test_columns_are_aligned():
    rows = table()
    rows = rows[1 : rows.index("")]
    points = {tuple(i for i, c in enumerate(row) if c == ".") for row in rows}
    assert len(rows) > 10
    assert len(points) == 1  # weights, overhead and requests have one decimal point each, all in the same places


def test_a_reason_is_given_once_with_all_it_concerns():
    lines = table()
    reasons = lines[lines.index("Not valid:") + 1 : lines.index("", lines.index("Not valid:"))]
    assert any(r.startswith("  tp8: FP8 blocks of 128 do not fit the experts: 1536/8 = 192") for r in reasons)
    assert any(r.startswith("  tp2, tp2-r4, tp2-ep, tp2-ep-r4: Does not fit: 107.25 GiB") for r in reasons)
    assert len({r.partition(": ")[2] for r in reasons}) == len(reasons)


def test_warnings_stand_in_the_row():
    assert table(layouts=["tp8"], vllm_version="0.32.0")[1].endswith("fp8-block-moe")


def test_nothing_is_valid():
    lines = table(layouts=["tp8"])
    assert lines[0] == "Not valid:"
    assert "Recommended for throughput: none of them." in lines


def test_what_is_not_known_is_a_dash():
    lines = layout_table(layout_info({"config": {"num_attention_heads": 64}, "layouts": ["tp8"]})).splitlines()
    assert lines[1].split() == ["*", "tp8", "8", *["-"] * 7]


@pytest.mark.parametrize(("objective", "words"), [("latency", "shortest"), ("capacity", "most KV cache tokens")])
def test_the_reason_is_told(objective, words):
    (line,) = (x for x in table(objective=objective) if x.startswith(f"Recommended for {objective}: "))
    assert words in line
    assert "confidence: " in line


def test_general_findings_come_last():
    assert table(vllm_version=None)[-1].startswith("  INFO ")
