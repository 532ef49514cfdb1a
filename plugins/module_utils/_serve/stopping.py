# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""How vLLM is stopped: gracefully while it serves, firmly while it loads, and never for ever.

Source of the figures: vLLM 0.32.0 measured on its CPU build (reference: it ends 1 to 6 s after SIGTERM while it serves,
swallows the first SIGTERM while it loads, and ends with the second).
"""

from __future__ import annotations

import typing as t

from .systemd import UnitState

_POLL: t.Final = 0.5
# Nothing is lost with an instance that does not serve yet.
_SECOND_TERM: t.Final = 3.0
_LOADING_KILL: t.Final = 10.0
# systemd kills by itself after the unit's own limit; past that it needs help.
_LATE_KILL: t.Final = 15.0
_GIVE_UP: t.Final = 45.0
_STOPPED: t.Final = ("inactive", "failed")


class Hands(t.Protocol):
    """The part of a node that stopping needs."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def state(self, unit: str) -> UnitState: ...

    def ask_to_stop(self, unit: str) -> None: ...

    def signal(self, unit: str, name: str) -> None: ...


def stop_units(
    node: Hands, units: t.Sequence[str], answering: t.Collection[str], limit: float, *, kill: bool
) -> list[str]:
    """Stop all of them at once; the units that would not stop.

    ``answering`` are those that serve, which get ``limit`` seconds to end their requests (TimeoutStopSec of the unit).
    ``kill``: none of them is worth a graceful end.
    """
    for unit in units:
        node.ask_to_stop(unit)
        if kill:
            node.signal(unit, "SIGKILL")
    start = node.now()
    termed: set[str] = set()
    while left := [unit for unit in units if node.state(unit).active not in _STOPPED]:
        waited = node.now() - start
        if waited > limit + _GIVE_UP:
            return left
        for unit in left:
            patient = unit in answering and not kill
            if waited >= (limit + _LATE_KILL if patient else _LOADING_KILL):
                node.signal(unit, "SIGKILL")
            elif not patient and waited >= _SECOND_TERM and unit not in termed:
                termed.add(unit)
                node.signal(unit, "SIGTERM")
        node.sleep(_POLL)
    return []
