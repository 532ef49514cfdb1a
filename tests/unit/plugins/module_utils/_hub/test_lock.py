# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._hub import lock
from ansible_collections.modelops.vllm.plugins.module_utils._hub.lock import locked


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def holder(**fields: object) -> str:
    return json.dumps({"pid": os.getpid(), "host": lock._host(), "token": "x", "since": int(time.time()), **fields})


def test_one_holder_at_a_time(path: str) -> None:
    order: list[str] = []

    def second() -> None:
        with locked(path, 10):
            order.append("second")

    with locked(path, 0):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert not os.path.exists(path)


def test_a_waiter_survives_that_the_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is refused removes the folders that it made; another one waits for its lock meanwhile."""
    path = tmp_path / "dest" / ".modelops" / "lock"
    path.parent.mkdir(parents=True)
    path.write_text(holder())
    monkeypatch.setattr(lock.time, "sleep", lambda _seconds: shutil.rmtree(tmp_path / "dest"))
    with locked(str(path), 10) as held:
        held.require()
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def test_a_folder_that_cannot_be_made_ends_the_wait(tmp_path: Path) -> None:
    (tmp_path / "books").symlink_to(tmp_path / "none")
    with pytest.raises(FileNotFoundError), locked(str(tmp_path / "books" / "lock"), 0):
        pass


def test_a_lock_that_cannot_be_written_does_not_stay(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock.json, "dump", full)
    with pytest.raises(ModelopsError, match="No space left") as e, locked(path, 0):
        pass
    assert [f["id"] for f in e.value.result["findings"]] == ["disk-full"]
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00binary",
        b"[" * 60_000,
        b"[]",
        holder(pid="one").encode(),
        holder(pid=-1).encode(),
        holder(pid=0).encode(),
        holder(since="yesterday").encode(),
        holder(since=None).encode(),
        holder(since=float("inf")).encode(),
    ],
    ids=["binary", "deep", "list", "pid-text", "pid-negative", "pid-0", "since-text", "since-null", "since-infinite"],
)
def test_a_lock_of_any_content_is_waited_for_and_named(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(ModelopsError, match="Another run holds"), locked(path, 0):
        pass


def test_a_process_number_that_cannot_be_holds_nothing(path: str) -> None:
    Path(path).write_text(holder(pid=10**30))
    with locked(path, 0) as held:
        held.require()


def test_a_live_holder_is_named_when_the_time_is_up(path: str) -> None:
    Path(path).write_text(holder())
    with pytest.raises(ModelopsError, match=f"process {os.getpid()}"), locked(path, 0):
        pass
    assert os.path.exists(path)


def test_a_dead_process_of_this_machine_holds_nothing(path: str) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    Path(path).write_text(holder(pid=dead.pid))
    with locked(path, 0) as held:
        held.require()


@pytest.mark.parametrize("text", ["", "{", holder(host="another machine")], ids=["empty", "torn", "elsewhere"])
def test_a_silent_holder_is_replaced_after_a_while(path: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SILENCE", 0.3)
    monkeypatch.setattr(lock, "_POLL", 0.05)
    Path(path).write_text(text)
    started = time.monotonic()
    with locked(path, 5):
        assert time.monotonic() - started > 0.3


def test_a_holder_that_gives_signs_of_life_is_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SILENCE", 0.3)
    monkeypatch.setattr(lock, "_POLL", 0.02)
    monkeypatch.setattr(lock, "BEAT", 0.05)
    Path(path).write_text(holder(host="another machine"))
    beating = lock.Lock(path, "x")
    with pytest.raises(ModelopsError, match="another"), locked(path, 1.0):
        pass
    beating.release()
    assert not os.path.exists(path)


def test_a_holder_that_lost_its_lock_learns_it(path: str) -> None:
    with locked(path, 0) as held:
        Path(path).write_text(holder(token="other", pid=77))
        with pytest.raises(ModelopsError, match="process 77"):
            held.require()
    assert os.path.exists(path), "the lock of another is not removed"
