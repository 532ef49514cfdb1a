# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results on disk."""

from __future__ import annotations

import functools
import gzip
import json
import stat
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import storage
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError, NotBuiltError

from tests.support.bench_records import record


def test_records_are_appended_and_read_back(tmp_path: Path) -> None:
    run_dir = storage.create_run_dir(str(tmp_path))
    records = [record(repeat=n) for n in (1, 2)]
    for one in records:
        storage.append_record(run_dir, one)
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


def without(*keys: str) -> str:
    """A record that lacks this key, as a file."""
    damaged = record()
    *parents, last = keys
    del functools.reduce(dict.__getitem__, parents, damaged)[last]
    return json.dumps(damaged) + "\n"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", ModelopsError, "holds no record"),
        (
            f'{json.dumps(record())}\n{{"schema\n{json.dumps(record())}\n',
            ModelopsError,
            "Line 2 of .*points.jsonl is no",
        ),
        ('{"other": 1}\n', ModelopsError, "Line 1 of .* it has no schema_version"),
        ("[1]\n", ModelopsError, "Line 1 of .* it has no schema_version"),
        ("[1]", ModelopsError, "Line 1 of .* it has no schema_version"),
        ("[" * 100000 + "\n", ModelopsError, "Line 1 of"),
        ('{"schema_version": 1}\n', ModelopsError, "it has no run"),
        ('{"schema_ver', ModelopsError, "holds no record"),
        (without("point"), ModelopsError, "it has no point"),
        (without("identity", "given"), ModelopsError, "it has no identity.given"),
        (without("identity", "client", "place"), ModelopsError, "it has no identity.client.place"),
        (json.dumps(record(valid="yes")), ModelopsError, "it has no valid"),
        (json.dumps(record(findings=[{"id": "x"}])), ModelopsError, "its findings are none"),
        (json.dumps(record(metrics={"x": float("nan")})), ModelopsError, "NaN is no figure"),
        (json.dumps(record(metrics={"x": 5})).replace("5}", "1e999}"), ModelopsError, "1e999 is no figure"),
        (json.dumps(record(run="\ud800")), ModelopsError, "Line 1 of .* is no text"),
        ('{"schema_version": 2}\n', NotBuiltError, "schema version 2"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, error: type[ModelopsError], words: str) -> None:
    path = tmp_path / "points.jsonl"
    path.write_text(text)
    with pytest.raises(error, match=words):
        storage.read_records(str(path))


def test_a_packed_file_is_refused_without_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_bytes(b"\x1f\x8b\x08\n\xff\xfe")
    with pytest.raises(ModelopsError) as found:
        storage.read_records(str(path))
    assert str(found.value) == (
        f"Line 1 of {path} is no benchmark record: byte 2 is no text. Give the points.jsonl as vllm_bench wrote it, or "
        "measure again."
    )


def test_the_torn_line_of_a_killed_run_is_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_text(json.dumps(record()) + '\n{"schema_ver')
    (read,) = storage.read_records(str(path))
    (told,) = read["run_findings"]
    assert {**read, "run_findings": []} == record()
    assert (told["id"], told["severity"], told["numbers"]) == ("line-torn", "warning", {"bytes": 12})
    # Whole, it may lack the end of its line.
    path.write_text(json.dumps(record()))
    assert storage.read_records(str(path)) == [record()]


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
    one = record(repeat=repeat, valid=valid)
    one["point"]["id"], one["identity"]["model"] = "c1", identity
    return json.dumps(one) + "\n"


def find(results: Path, repeats: int) -> tuple[str, list[str]] | None:
    names = [f"c1-r{n}" for n in range(1, repeats + 1)]
    found = storage.find_unfinished(str(results), lambda first: first["identity"]["model"] == "a", names)
    return found and (Path(found[0]).name, list(found[1]))


def test_the_newest_run_of_the_same_is_continued(tmp_path: Path) -> None:
    run_of(tmp_path, "1", line(1))
    run_of(tmp_path, "2", line(1), line(2, valid=False))
    other = run_of(tmp_path, "3", line(1, identity="b"), "{torn")
    run_of(tmp_path, "4", "no record\n")
    run_of(tmp_path, "5", '{"schema_version": 2}\n')
    run_of(tmp_path, "7", '{"schema_version": 1}\n')
    run_of(tmp_path, "8", line(1).replace('"given"', '"taken"'))
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
