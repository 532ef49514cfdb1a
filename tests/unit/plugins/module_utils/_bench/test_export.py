# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results as CSV."""

from __future__ import annotations

import csv
import io

from ansible_collections.modelops.vllm.plugins.module_utils._bench.compare import group
from ansible_collections.modelops.vllm.plugins.module_utils._bench.export import csv_table
from ansible_collections.modelops.vllm.plugins.module_utils._bench.figures import Series
from ansible_collections.modelops.vllm.plugins.module_utils._bench.report import build

from tests.support.bench_records import failed, record


def test_each_measurement_is_a_line_with_every_figure() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_table(build([record(8), record(1), failed(repeat=2)]).series))))
    assert [(line["point.id"], line["repeat"], line["valid"]) for line in lines] == [
        ("c1-i512-o128-n10", "1", "True"),
        ("c8-i512-o128-n80", "1", "True"),
        ("c8-i512-o128-n80", "2", "False"),
    ]
    assert lines[1]["metrics.output_tokens_per_s"] == "1000.0"
    assert lines[1]["metrics.ttft_ms.median"] == "50.0"
    assert lines[1]["metrics.ttft_ms.p99"] == ""
    assert lines[2]["findings"] == "requests-failed"


def test_a_line_of_a_record_without_figures_is_empty_there() -> None:
    (line,) = csv.DictReader(io.StringIO(csv_table(build([failed(metrics=None)]).series)))
    assert line["point.concurrency"] == "8"
    assert line.get("metrics.output_tokens_per_s") in (None, "")


def test_no_text_is_a_formula_and_numbers_stay_numbers() -> None:
    texts = {"a": "=1+1", "b": "+x", "c": "-x", "d": "@x", "e": "\tx", "f": "\rx", "g": "x=1", "h": -1.5, "i": ""}
    (row,) = csv.DictReader(io.StringIO(csv_table([Series("result", group([record(1, client=texts)]))]), newline=""))
    assert [row[f"client.{name}"] for name in texts] == [
        "'=1+1",
        "'+x",
        "'-x",
        "'@x",
        "'\tx",
        "'\nx",
        "x=1",
        "-1.5",
        "",
    ]
