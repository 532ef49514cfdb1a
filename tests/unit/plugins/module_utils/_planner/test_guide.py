# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide on layouts shows what the planner says today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[5]


def test_the_table_of_the_guide_is_the_planner_s(capsys):
    spec = importlib.util.spec_from_file_location("bench_planner", ROOT / "tests" / "bench" / "bench_planner.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    bench.table()
    printed = capsys.readouterr().out
    assert printed.count("\n") > 4 * 17
    assert printed in (ROOT / "docs" / "docsite" / "rst" / "guide_layouts.rst").read_text(encoding="utf-8")
