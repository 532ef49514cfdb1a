# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading one unit and its journal."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve.systemd import Unit, message

SHOW = """LoadState=loaded
ActiveState=active
SubState=running
Result=success
NRestarts=2
ExecMainCode=1
ExecMainStatus=2
InvocationID={invocation}
"""


class Machine:
    """Stands in for systemctl and journalctl."""

    def __init__(self) -> None:
        self.invocation = "aaa"
        self.entries: list[dict[str, t.Any]] = []
        self.calls: list[list[str]] = []
        self.rc = 0

    def __call__(self, argv: t.Sequence[str]) -> tuple[int, str, str]:
        self.calls.append(list(argv))
        if argv[0] == "systemctl":
            return self.rc, SHOW.format(invocation=self.invocation), "no systemd here"
        after = next((a.partition("=")[2] for a in argv if a.startswith("--after-cursor=")), "")
        rows = [e for e in self.entries if e["__CURSOR"] > after and f"_SYSTEMD_INVOCATION_ID={e['inv']}" in argv]
        return 0, "\n".join(json.dumps(e) for e in rows), ""

    def log(self, cursor: str, text: t.Any, **more: t.Any) -> None:
        self.entries.append({"__CURSOR": cursor, "MESSAGE": text, "inv": self.invocation, **more})


def test_the_state_is_read() -> None:
    state = Unit("vllm-main", Machine()).state()
    assert (state.active, state.sub, state.restarts, state.exit_code, state.exit_status) == (
        "active",
        "running",
        2,
        "exited",
        2,
    )
    assert "restarts 2" in state.text


def test_a_name_without_suffix_is_a_service() -> None:
    machine = Machine()
    Unit("vllm-main", machine).state()
    assert machine.calls[0][-1] == "vllm-main.service"


def test_without_systemd_it_is_an_error_that_says_what_to_do() -> None:
    machine = Machine()
    machine.rc = 1
    with pytest.raises(ModelopsError, match="no systemd here"):
        Unit("x", machine).state()


def test_the_journal_is_read_on_from_where_it_was_and_starts_anew_with_a_new_run() -> None:
    machine = Machine()
    unit = Unit("x", machine)
    machine.log("1", "first")
    unit.read_journal(unit.state())
    machine.log("2", "second\nthird")
    unit.read_journal(unit.state())
    assert unit.lines == ["first", "second", "third"]
    machine.invocation = ""  # between two tries
    unit.read_journal(unit.state())
    assert unit.lines == ["first", "second", "third"]
    machine.invocation = "bbb"
    machine.log("3", "new")
    unit.read_journal(unit.state())
    assert unit.lines == ["new"]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"MESSAGE": "x"}, "x"),
        ({"MESSAGE": [226, 128, 148, 255]}, "—\ufffd"),
        ({"MESSAGE": None}, ""),
        ({"MESSAGE": "\x1b[2m2026-11-30\x1b[0m \x1b[31mERROR\x1b[0m no worker"}, "2026-11-30 ERROR no worker"),
        ({}, ""),
        ({"MESSAGE": "Main process exited", "_PID": "1"}, "systemd: Main process exited"),
    ],
)
def test_messages_of_every_form(entry: dict[str, t.Any], text: str) -> None:
    assert message(entry) == text
