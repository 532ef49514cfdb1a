# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Waits until an instance answers, and gives up in seconds when its unit or its log says that it never will."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field

from .._findings import Finding
from . import causes, enginelog, loading
from .causes import Cause
from .probe import Answer
from .systemd import Unit, UnitState

# After the unit has ended or the first request has failed: the process that knows why may still be printing.
GRACE_SECONDS: t.Final = 5.0
# After a line that says that the engine failed, while the unit goes on: workers that hang never exit.
WEDGED_SECONDS: t.Final = 60.0
_ENDED: t.Final = ("failed", "inactive", "deactivating")
TAIL_LINES: t.Final = 40


class Clock(t.Protocol):
    """Time, so that tests need none."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class RealClock:
    """Monotonic seconds."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class Outcome:
    """How the wait ended."""

    ready: bool
    seconds: float
    cause: Cause | None = None
    unit: UnitState | None = None
    log_tail: list[str] = field(default_factory=list)
    engine: dict[str, t.Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def _silent(_line: str) -> None:
    """For those who need not be told."""


@dataclass
class Waiter:
    """One wait. ``ask`` asks the server once and takes the seconds that are left.

    ``tell`` gets a line after each look: the seconds so far, and what the start does now.
    """

    ask: t.Callable[[float], Answer]
    unit: Unit | None
    timeout: float
    poll: float
    clock: Clock = field(default_factory=RealClock)
    tell: t.Callable[[str], None] = _silent

    def wait(self) -> Outcome:
        """Until ready, a cause, or ``timeout`` seconds. Raises ModelopsError when the unit cannot be asked."""
        start = self.clock.now()
        state = self.unit.state() if self.unit is not None else None
        first_restarts = state.restarts if state is not None else 0
        since: dict[float, float] = {}  # when a reason that needs this grace was first seen
        while True:
            left = self.timeout - (self.clock.now() - start)
            answer = self.ask(max(1.0, left))
            if self.unit is not None:
                state = self.unit.state()
                self.unit.read_journal(state)
            if answer.stage == "ready" and (state is None or state.active == "active"):
                return self._outcome(start, state, None, answer.findings)
            found = self._judge(state, first_restarts, answer)
            if found is None:
                since.clear()
            else:
                cause, grace = found
                now = self.clock.now()
                if now - since.setdefault(grace, now) >= grace:
                    return self._outcome(start, state, cause)
            if left <= 0:
                # A reason that had not held for long enough yet says more than that the time is over.
                return self._outcome(start, state, found[0] if found is not None else self._timed_out(state, answer))
            self.tell(f"{self.clock.now() - start:.0f} s: {self._stage(state, answer, found)}")
            self.clock.sleep(self.poll)

    def _stage(self, state: UnitState | None, answer: Answer, found: tuple[Cause, float] | None) -> str:
        if found is not None:
            # Without the line: anyone may read the progress, and nobody has looked for secrets in it.
            return f"it seems to have failed ({found[0].id}), more of the log is awaited"
        asked = answer.detail or answer.stage
        if self.unit is None or state is None:
            return asked
        if answer.stage == "connect":
            return loading.stage(self.unit.lines) or f"the unit is {state.active}, its log says nothing of the load yet"
        return asked

    def _judge(self, state: UnitState | None, first_restarts: int, answer: Answer) -> tuple[Cause, float] | None:
        """The reason to give up, and for how many seconds it must hold before that."""
        if state is None or self.unit is None:
            return None if answer.cause is None else (answer.cause, 0.0)
        return self._judge_unit(self.unit, state, first_restarts, answer)

    def _judge_unit(
        self, unit: Unit, state: UnitState, first_restarts: int, answer: Answer
    ) -> tuple[Cause, float] | None:
        if state.load == "not-found":
            return Cause("unit-missing", f"There is no unit {unit.name}.", "Deploy the instance first."), 0.0
        lines = unit.lines
        lost = causes.fatal(lines)
        if lost is not None:
            return lost, 0.0
        if state.active in _ENDED or state.sub == "auto-restart" or state.restarts > first_restarts:
            return causes.postmortem(lines) or self._unit_ended(state), GRACE_SECONDS
        if answer.cause is not None:
            # The log may say why a healthy server fails its first request.
            why = causes.postmortem(lines) if answer.stage == "completion" else None
            return why or answer.cause, GRACE_SECONDS if answer.stage == "completion" else 0.0
        failed = causes.wrapper(lines)
        return None if failed is None else (failed, WEDGED_SECONDS)

    def _unit_ended(self, state: UnitState) -> Cause:
        lines = self.unit.lines if self.unit is not None else []
        line = next((x.strip() for x in reversed(lines) if x.strip()), "")
        return Cause(
            "unit-ended",
            line or f"The unit is {state.text}.",
            f"The unit is {state.text}; its journal has more: journalctl -u {self.unit.name if self.unit else ''}",
        )

    def _timed_out(self, state: UnitState | None, answer: Answer) -> Cause:
        lines = self.unit.lines if self.unit is not None else []
        last = next((x.strip() for x in reversed(lines) if x.strip()), "")
        stage = self._stage(state, answer, None)
        return Cause(
            "timeout",
            last or answer.detail or answer.stage,
            f"Not ready after {self.timeout:.0f} s, last stage {answer.stage} ({stage}). If the log still shows"
            " progress, raise the timeout: a first start compiles kernels and can be silent for minutes.",
        )

    def _outcome(
        self, start: float, state: UnitState | None, cause: Cause | None, findings: tuple[Finding, ...] = ()
    ) -> Outcome:
        lines = self.unit.lines if self.unit is not None else []
        return Outcome(
            ready=cause is None,
            seconds=round(self.clock.now() - start, 1),
            cause=cause,
            unit=state,
            log_tail=[line for line in lines if line.strip()][-TAIL_LINES:],
            engine=enginelog.figures(lines),
            findings=findings,
        )
