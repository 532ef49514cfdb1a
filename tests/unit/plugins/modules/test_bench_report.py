# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: files, idempotence, check mode, verdicts."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests.support.bench_records import as_baseline, failed, record, repeats

RunModule = t.Callable[..., dict[str, t.Any]]


def write(path: Path, records: list[dict[str, t.Any]]) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return str(path)


def test_reports_are_written_once(run_module: RunModule, tmp_path: Path) -> None:
    write(tmp_path / "points.jsonl", [record(1), record(8)])
    first = run_module("bench_report", {"results": str(tmp_path)}, diff=True)
    assert first["changed"] is True
    assert first["verdict"] == "recorded"
    assert first["files"] == [str(tmp_path / "report.html"), str(tmp_path / "report.md")]
    assert "1,000" in first["table"]
    assert [d["before"] for d in first["diff"]] == ["", ""]
    before = [Path(f).read_bytes() for f in first["files"]]
    second = run_module("bench_report", {"results": str(tmp_path)}, diff=True)
    assert second["changed"] is False
    assert second["diff"] == []
    assert [Path(f).read_bytes() for f in second["files"]] == before


def test_check_mode_writes_nothing_and_shows_the_difference(run_module: RunModule, tmp_path: Path) -> None:
    write(tmp_path / "points.jsonl", [record(8)])
    result = run_module(
        "bench_report",
        {"results": str(tmp_path), "formats": ["md"], "dest": str(tmp_path / "out")},
        check=True,
        diff=True,
    )
    assert result["changed"] is True
    assert result["diff"][0]["after"].startswith("# Benchmark of")
    assert not (tmp_path / "out").exists()


def test_new_results_replace_the_report(run_module: RunModule, tmp_path: Path) -> None:
    points = tmp_path / "points.jsonl"
    write(points, [record(8)])
    given = {"results": str(points), "formats": ["md"], "dest": str(tmp_path / "out")}
    run_module("bench_report", given)
    write(points, [record(8, rate=2000.0)])
    assert run_module("bench_report", given)["changed"] is True
    assert "2,000" in (tmp_path / "out" / "report.md").read_text()
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        (repeats([1190.0, 1200.0, 1210.0]), "better"),
        (repeats([991.0, 1001.0, 1011.0]), "same"),
        (repeats([790.0, 800.0, 810.0]), "worse"),
        (repeats([1190.0]), "not_comparable"),
        ([failed()], "invalid"),
    ],
)
def test_the_verdict_is_returned(
    run_module: RunModule, tmp_path: Path, records: list[dict[str, t.Any]], verdict: str
) -> None:
    baseline = write(tmp_path / "baseline.jsonl", as_baseline(repeats([990.0, 1000.0, 1010.0])))
    results = write(tmp_path / "points.jsonl", records)
    result = run_module("bench_report", {"results": results, "baseline": baseline})
    assert result["verdict"] == verdict
    assert result["headline"] in (tmp_path / "report.md").read_text()
    assert bool(result["comparison"]) is (verdict in ("better", "same", "worse"))
    assert bool(result["reasons"]) is (verdict in ("not_comparable", "invalid"))


@pytest.mark.parametrize(("name", "words"), [("none", "no benchmark results"), ("torn", "Line 1")])
def test_missing_and_torn_results_fail(run_module: RunModule, tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "torn").write_text('{"schema_ver\n')
    result = run_module("bench_report", {"results": str(tmp_path / name)})
    assert result["failed"] is True
    assert words in result["msg"]


def test_the_text_form_is_the_table_that_is_returned(run_module: RunModule, tmp_path: Path) -> None:
    write(tmp_path / "points.jsonl", [record(8)])
    result = run_module("bench_report", {"results": str(tmp_path), "formats": ["txt"]})
    assert (tmp_path / "report.txt").read_text() == result["table"] + "\n"
