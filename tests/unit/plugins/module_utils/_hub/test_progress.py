# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a run is: what is counted, what is written, and the line that people read."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub import progress
from ansible_collections.modelops.vllm.plugins.module_utils._hub.progress import Progress, Tally, duration, line, size
from ansible_collections.modelops.vllm.plugins.module_utils._weights.checks import RemoteFile

A, B = RemoteFile("a", 100), RemoteFile("b", 50)


def test_bytes_that_are_read_count_once_and_a_finished_file_counts_as_its_size() -> None:
    tally = Tally()
    tally.read(A, 60)
    tally.read(B, 50)
    assert (tally.bytes, tally.files) == (110, 0)
    tally.read(A, 60)  # read twice, as after a failed attempt
    assert tally.bytes == 150
    tally.finished(A)
    assert (tally.bytes, tally.files) == (150, 1)
    tally.finished(B)
    assert (tally.bytes, tally.files) == (150, 2)


def test_a_phase_keeps_the_file_up_to_date_and_the_end_removes_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(progress, "BEAT", 0.01)
    (tmp_path / ".modelops").mkdir()
    path = Path(progress.progress_path(str(tmp_path)))
    told, done = threading.Event(), [0]

    def count() -> tuple[int, int]:
        done[0] = min(done[0] + 30, 150)
        if done[0] == 150:
            told.set()
        return done[0], 1

    teller = Progress(str(tmp_path), "run-1")
    with teller.phase("fetch", [A, B], count):
        assert told.wait(10)
    state = json.loads(path.read_text())
    assert (state["run"], state["phase"]) == ("run-1", "fetch")
    assert (state["bytes_total"], state["files_total"], state["files_done"]) == (150, 2, 1)
    assert state["bytes_done"] >= 120
    assert state["beat"] >= 5
    with teller.phase("verify", [A], lambda: (7, 0)):
        while json.loads(path.read_text())["phase"] != "verify":
            pass
    assert json.loads(path.read_text())["beat"] > state["beat"]
    teller.close()
    assert list((tmp_path / ".modelops").iterdir()) == []


def test_a_disk_that_takes_no_progress_file_does_not_end_the_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(progress, "BEAT", 0.001)
    asked = threading.Event()

    def count() -> tuple[int, int]:
        asked.set()
        return 1, 1

    teller = Progress(str(tmp_path / "absent"), "r")
    with teller.phase("fetch", [A], count):
        assert asked.wait(10)
    teller.close()


STATE = {
    "phase": "fetch",
    "bytes_done": 45_200_000_000,
    "bytes_total": 230_100_000_000,
    "files_done": 61,
    "files_total": 136,
    "bytes_per_second": 850e6,
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "45.2 GB of 230.1 GB fetched (19 %), 61 of 136 files proven, 850.0 MB/s, 3 min 38 s left"),
        ({"bytes_per_second": 0.0}, "45.2 GB of 230.1 GB fetched (19 %), 61 of 136 files proven"),
        ({"phase": "verify"}, "45.2 GB of 230.1 GB read (19 %), 61 of 136 files proven, 850.0 MB/s, 3 min 38 s left"),
        (
            {"bytes_done": 230_200_000_000, "bytes_per_second": 0.0},
            "230.1 GB of 230.1 GB fetched (100 %), 61 of 136 files proven",
        ),
        ({"bytes_total": 0, "bytes_per_second": 0.0}, "0 B of 0 B fetched (100 %), 61 of 136 files proven"),
    ],
)
def test_the_line_says_how_far_how_fast_and_how_long(change: dict[str, object], text: str) -> None:
    assert line({**STATE, **change}) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5.4e11, "540.0 GB"),
        (2e12, "2.0 TB"),
    ],
)
def test_sizes_are_decimal(value: float, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_times_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
