# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
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


@pytest.mark.parametrize("text", ["", "{", holder(host="another machine")])
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
