# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a node and the journal of its switches."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import journal as module
from ansible_collections.modelops.vllm.plugins.module_utils._serve.journal import Entry, Journal, busy, locked

A = {"main": "a"}


def test_an_entry_is_read_back(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    assert journal.read() is None
    journal.write(Entry("2026-11-30T10:00:00Z", {"main": "b"}, {"main": "a"}, "starting"))
    entry = journal.read()
    assert entry == Entry("2026-11-30T10:00:00Z", {"main": "b"}, {"main": "a"}, "starting", os.getpid())
    assert not entry.ended


@pytest.mark.parametrize("text", ["", "{", "[]", '{"started": "x"}', '{"unknown": 1}'])
def test_what_cannot_be_read_is_no_entry(tmp_path: Path, text: str) -> None:
    (tmp_path / "switch.json").write_text(text, encoding="utf-8")
    assert Journal(str(tmp_path)).read() is None


def test_another_switch_is_refused_with_what_goes_on(tmp_path: Path) -> None:
    with locked(str(tmp_path), A, 60, lambda _line: None):
        assert busy(str(tmp_path))
        with (
            pytest.raises(ModelopsError, match=rf"process {os.getpid()}, since \d+ s, main to release a.*nothing was"),
            locked(str(tmp_path), {"main": "b"}, 60, lambda _line: None),
        ):
            pass
    assert not busy(str(tmp_path))


def test_the_same_switch_is_waited_for(tmp_path: Path) -> None:
    lines: list[str] = []
    told = threading.Event()

    def tell(line: str) -> None:
        lines.append(line)
        told.set()

    first = locked(str(tmp_path), A, 60, lambda _line: None)
    first.__enter__()
    order: list[str] = []

    def second() -> None:
        with locked(str(tmp_path), A, 60, tell):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    assert told.wait(30)
    order.append("first")
    first.__exit__(None, None, None)
    thread.join(30)
    assert order == ["first", "second"]
    assert lines == [f"waiting for the same switch, which is going on already ({lines[0].partition('(')[2]}"]


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    with (
        locked(str(tmp_path), A, 60, lambda _line: None),
        pytest.raises(ModelopsError, match="Another switch is going on"),
        locked(str(tmp_path), A, -1, lambda _line: None),
    ):
        pass


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        with locked(str(tmp_path), A, 60, lambda _line: None):
            os._exit(9)  # without giving anything back
    os.waitpid(pid, 0)
    assert (tmp_path / "switch.lock").read_text(encoding="utf-8") != "{}"
    with locked(str(tmp_path), {"main": "b"}, 0, lambda _line: None):
        assert busy(str(tmp_path))


def test_nobody_but_root_can_hold_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "switch.lock"
    lock.touch()
    lock.chmod(0o644)  # of an earlier version
    with locked(str(tmp_path), A, 0, lambda _line: None):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    lock.unlink()
    with locked(str(tmp_path), A, 0, lambda _line: None):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_whoever_asks_whether_a_switch_goes_on_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(str(tmp_path), A, 0, lambda _line: None):
        pass
    monkeypatch.setattr(fcntl, "flock", lambda *_args: pytest.fail("the lock was taken"))
    assert not busy(str(tmp_path))
    assert not busy(str(tmp_path / "nowhere"))


def test_a_lock_whose_holder_has_not_written_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "switch.lock").open("a+", encoding="utf-8") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        monkeypatch.setattr(module.time, "sleep", lambda _seconds: holder.close())
        with locked(str(tmp_path), A, 60, pytest.fail):
            assert busy(str(tmp_path))


def test_one_that_never_says_what_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: clock.append(clock.pop() + seconds))
    with (tmp_path / "switch.lock").open("a+", encoding="utf-8") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with (
            pytest.raises(ModelopsError, match="Another switch is going on on this node: process unknown"),
            locked(str(tmp_path), A, 600, lambda _line: None),
        ):
            pass
    assert clock == [11.0]


@pytest.mark.parametrize(("before", "during"), [("0", "-900"), ("-950", "-950"), ("odd", "odd")])
def test_the_switch_is_spared_when_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, during: str
) -> None:
    score = tmp_path / "oom_score_adj"
    score.write_text(before, encoding="utf-8")
    monkeypatch.setattr(module, "_OOM", str(score))
    with locked(str(tmp_path), A, 0, lambda _line: None):
        assert score.read_text(encoding="utf-8") == during
    assert score.read_text(encoding="utf-8") == before


def test_a_switch_goes_on_where_the_kernel_does_not_spare_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OOM", str(tmp_path / "none"))
    with locked(str(tmp_path), A, 0, lambda _line: None):
        assert busy(str(tmp_path))


def test_a_full_disk_is_no_obstacle_to_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with locked(str(tmp_path), A, 0, lambda _line: None):
        assert busy(str(tmp_path))
    assert not busy(str(tmp_path))
