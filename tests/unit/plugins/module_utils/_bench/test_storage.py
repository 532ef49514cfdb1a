# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results on disk."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import storage
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError, NotBuiltError


def test_records_are_appended_and_read_back(tmp_path: Path) -> None:
    run_dir = storage.create_run_dir(str(tmp_path))
    records = [{"schema_version": 1, "point": n} for n in (1, 2)]
    for record in records:
        storage.append_record(run_dir, record)
    assert storage.read_records(run_dir) == storage.read_records(f"{run_dir}/points.jsonl") == records
    assert Path(run_dir).parent == tmp_path


def test_each_run_has_a_directory_of_its_own(tmp_path: Path) -> None:
    assert storage.create_run_dir(str(tmp_path)) != storage.create_run_dir(str(tmp_path))


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelopsError, match=r"results_dir '.*file' cannot be used"):
        storage.create_run_dir(str(tmp_path / "file"))


def test_raw_output_is_kept_without_texts(tmp_path: Path) -> None:
    run_dir = storage.create_run_dir(str(tmp_path))
    relative = storage.store_raw(run_dir, "c1", {"ttfts": [0.1], "generated_texts": ["long"]})
    assert json.loads(gzip.decompress((Path(run_dir) / relative).read_bytes())) == {"ttfts": [0.1]}


def test_nan_is_no_result(tmp_path: Path) -> None:
    run_dir = storage.create_run_dir(str(tmp_path))
    with pytest.raises(ValueError, match="not JSON compliant"):
        storage.append_record(run_dir, {"schema_version": 1, "x": float("nan")})


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", ModelopsError, "holds no record"),
        ('{"schema_version": 1}\n{"schema', ModelopsError, "Line 2"),
        ('{"other": 1}\n', ModelopsError, "Line 1"),
        ("[1]\n", ModelopsError, "Line 1"),
        ('{"schema_version": 2}\n', NotBuiltError, "schema version 2"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, error: type[ModelopsError], words: str) -> None:
    path = tmp_path / "points.jsonl"
    path.write_text(text)
    with pytest.raises(error, match=words):
        storage.read_records(str(path))


def test_missing_results_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelopsError, match="no benchmark results"):
        storage.read_records(str(tmp_path))


def test_files_are_replaced_in_one_step_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.md"
    assert storage.read_text(str(path)) is None
    storage.write_text(str(path), "eins\n")
    storage.write_text(str(path), "zwei ü 2\n")
    assert storage.read_text(str(path)) == "zwei ü 2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [p.name for p in path.parent.iterdir()] == ["report.md"]


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "report.md").mkdir()
    with pytest.raises(ModelopsError, match="cannot be written"):
        storage.write_text(str(tmp_path / "report.md"), "x")
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]


def run_of(results: Path, name: str, *lines: str) -> Path:
    path = results / name / "points.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(lines))
    return path


def line(repeat: int, valid: bool = True, identity: str = "a") -> str:
    record = {"schema_version": 1, "point": {"id": "c1"}, "repeat": repeat, "valid": valid, "identity": {"x": identity}}
    return json.dumps(record) + "\n"


def find(results: Path, repeats: int) -> tuple[str, list[str]] | None:
    names = [f"c1-r{n}" for n in range(1, repeats + 1)]
    found = storage.find_unfinished(str(results), lambda identity: identity == {"x": "a"}, names)
    return found and (Path(found[0]).name, list(found[1]))


def test_the_newest_run_of_the_same_is_continued(tmp_path: Path) -> None:
    run_of(tmp_path, "1", line(1))
    run_of(tmp_path, "2", line(1), line(2, valid=False))
    other = run_of(tmp_path, "3", line(1, identity="b"), "{torn")
    run_of(tmp_path, "4", "no record\n")
    run_of(tmp_path, "5", '{"schema_version": 2}\n')
    run_of(tmp_path, "6")
    assert find(tmp_path, 2) == ("2", ["c1-r1"])
    # It is complete for one repeat, although an older run is there.
    assert find(tmp_path, 1) is None
    assert find(tmp_path / "nowhere", 1) is None
    # What is not continued is not touched.
    assert other.read_text().endswith("{torn")


def test_the_torn_line_of_a_run_that_was_killed_is_cut_off(tmp_path: Path) -> None:
    path = run_of(tmp_path, "1", line(1), '{"schema_ver')
    assert find(tmp_path, 2) == ("1", ["c1-r1"])
    assert path.read_text() == line(1)


def test_what_was_measured_again_replaces_the_first_time() -> None:
    records = [json.loads(text) for text in (line(1), line(2, valid=False), line(2))]
    assert [(r["repeat"], r["valid"]) for r in storage.latest(records)] == [(1, True), (2, True)]
