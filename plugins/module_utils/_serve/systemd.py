# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The state and the journal of one unit, by systemctl and journalctl."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError

Run: t.TypeAlias = t.Callable[[t.Sequence[str]], "tuple[int, str, str]"]
_PROPERTIES: t.Final = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "NRestarts",
    "ExecMainCode",
    "ExecMainStatus",
    "InvocationID",
)
# A failing start prints some hundred lines; a bound keeps an instance that has run for months quick to ask.
_JOURNAL_LINES: t.Final = 4000
_COLOUR: t.Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class UnitState:
    """What systemd says about the unit."""

    load: str
    active: str
    sub: str
    result: str
    restarts: int
    exit_code: str
    exit_status: int
    invocation: str

    @property
    def text(self) -> str:
        """One line for a message."""
        return (
            f"{self.active}/{self.sub}, result {self.result}, restarts {self.restarts},"
            f" last exit {self.exit_code}/{self.exit_status}"
        )

    def as_dict(self) -> dict[str, t.Any]:
        return {
            "active_state": self.active,
            "sub_state": self.sub,
            "result": self.result,
            "restarts": self.restarts,
            "exit_status": self.exit_status,
            "invocation_id": self.invocation,
        }


class Unit:
    """Reads one unit. ``run`` executes a command and returns its status, stdout and stderr."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name if "." in name else f"{name}.service"
        self._run = run
        self._cursor = ""
        self._invocation = ""
        self.lines: list[str] = []
        """The journal of the newest invocation that this object saw, and of what systemd says about it."""

    def state(self) -> UnitState:
        """Raises ModelopsError when systemd cannot be asked."""
        properties = [f"--property={p}" for p in _PROPERTIES]
        rc, out, err = self._run(["systemctl", "show", "--no-pager", *properties, "--", self.name])
        if rc != 0:
            raise ModelopsError(
                f"systemctl show {self.name} failed with status {rc}: {err.strip()}",
                "unit needs a node that runs systemd; leave it empty to look at the url alone.",
            )
        values = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        return UnitState(
            load=values.get("LoadState", ""),
            active=values.get("ActiveState", ""),
            sub=values.get("SubState", ""),
            result=values.get("Result", ""),
            restarts=_integer(values.get("NRestarts")),
            exit_code=_CODES.get(values.get("ExecMainCode", ""), values.get("ExecMainCode", "")),
            exit_status=_integer(values.get("ExecMainStatus")),
            invocation=values.get("InvocationID", ""),
        )

    def read_journal(self, state: UnitState) -> None:
        """Add what the journal has got since the last call to ``lines``.

        Between two tries of systemd the unit has no invocation: the lines of the last one stay.
        """
        if state.invocation and state.invocation != self._invocation:
            self._invocation = state.invocation
            self._cursor = ""
            self.lines = []
        if not self._invocation:
            return
        # The messages of the processes, and those of systemd about the unit, of one invocation.
        match = [f"_SYSTEMD_INVOCATION_ID={self._invocation}", "+", f"INVOCATION_ID={self._invocation}"]
        position = [f"--after-cursor={self._cursor}"] if self._cursor else [f"--lines={_JOURNAL_LINES}"]
        rc, out, _err = self._run(["journalctl", "--no-pager", "--quiet", "--output=json", *position, *match])
        if rc != 0:
            return
        for row in out.splitlines():
            entry = _entry(row)
            self._cursor = str(entry.get("__CURSOR") or self._cursor)
            self.lines += message(entry).splitlines()
        del self.lines[:-_JOURNAL_LINES]


# si_code of waitid(2), as systemctl show prints ExecMainCode
_CODES: t.Final[t.Mapping[str, str]] = {"0": "none", "1": "exited", "2": "killed", "3": "dumped"}


def _integer(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def _entry(row: str) -> dict[str, t.Any]:
    try:
        entry = json.loads(row)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def message(entry: t.Mapping[str, t.Any]) -> str:
    """The text of a journal entry: journald gives bytes as numbers when they are no UTF-8, null when too long.

    Without the colours that some programs, as vLLM's router, print to whatever they are connected to.
    """
    raw = entry.get("MESSAGE")
    if isinstance(raw, list):
        text = bytes(b for b in raw if isinstance(b, int) and 0 <= b <= 0xFF).decode("utf-8", "replace")
    else:
        text = raw if isinstance(raw, str) else ""
    origin = "systemd: " if entry.get("_PID") == "1" else ""
    return origin + _COLOUR.sub("", text)
