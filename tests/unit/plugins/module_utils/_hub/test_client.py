# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken for an interpreter and is none, or an old one."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub import client

HELLO = '{"event": "hello", "version": "1.0.0", "xet": false}'
DONE = '{"event": "done"}'


@pytest.fixture
def run(tmp_path: Path) -> t.Callable[..., list[client.Event]]:
    """The events that a job brings with a program of the shell in the place of the interpreter."""

    def start(program: str, stall_timeout: float = 20.0) -> list[client.Event]:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{program}\n")
        python.chmod(0o755)
        interpreter = client.Interpreter(str(python), str(tmp_path / "scratch"), "http://hub", xet=False)
        events: list[client.Event] = []
        client.run(interpreter, {"token": "hf_secret", "names": []}, events.append, stall_timeout=stall_timeout)
        return events

    return start


@pytest.mark.parametrize("greeting", ["Activating environment", "", "{}", "[1]", '{"event": 7}', "7", "\\0377"])
def test_a_wrapper_may_greet(run, greeting) -> None:
    (hello,) = run(f"printf '{greeting}\\n'; echo '{HELLO}'; echo '{DONE}'")
    assert hello["event"] == "hello"


@pytest.mark.parametrize(
    ("program", "tail"),
    [
        (f"exec /bin/cat {__file__}", ""),
        ("exec /bin/echo hello", "hello"),
        ("exec /bin/true", ""),
        (f"echo '{HELLO}'", ""),
        ('read line; echo "$line"', "***"),
    ],
    ids=["cat", "echo", "true", "ends-early", "echoes-the-job"],
)
def test_a_program_that_does_not_run_the_worker_is_named(run, program, tail) -> None:
    with pytest.raises(client.WorkerDiedError) as e:
        run(program)
    assert e.value.status == 0
    assert tail in e.value.tail
    assert "hf_secret" not in str(e.value)


def test_a_program_that_prints_without_an_end_is_left(run) -> None:
    with pytest.raises(client.NotStartedError, match="'y'"):
        run("exec /usr/bin/yes")


def test_an_old_version_is_told_apart(run) -> None:
    with pytest.raises(client.OldVersionError, match=r"0\.34\.1; 0\.36"):
        run(f"echo '{HELLO.replace('1.0.0', '0.34.1')}'; echo '{DONE}'")


def test_this_interpreter_is_one(tmp_path: Path) -> None:
    interpreter = client.Interpreter(sys.executable, str(tmp_path / "scratch"), "http://hub", xet=False)
    events: list[client.Event] = []
    client.run(interpreter, {"token": "", "names": [], "max_workers": 1}, events.append)
    assert [e["event"] for e in events] == ["hello"]
