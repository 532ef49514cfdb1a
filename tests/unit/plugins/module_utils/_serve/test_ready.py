# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait: when it ends, how fast, and with which cause. Time is simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._findings import info
from ansible_collections.modelops.vllm.plugins.module_utils._serve.causes import Cause
from ansible_collections.modelops.vllm.plugins.module_utils._serve.probe import Answer
from ansible_collections.modelops.vllm.plugins.module_utils._serve.ready import Outcome, Waiter
from ansible_collections.modelops.vllm.plugins.module_utils._serve.systemd import Unit, UnitState

RUNNING = UnitState("loaded", "active", "running", "success", 0, "none", 0, "aaa")
CONNECT = Answer("connect", "/health: Connection refused")
READY = Answer("ready")
FATAL = "ValueError: No available memory for the cache blocks."
WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above."


class FakeClock:
    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class FakeUnit(Unit):
    """A unit whose state and log follow a script: second -> state, lines."""

    def __init__(self, clock: FakeClock, script: dict[float, tuple[UnitState, list[str]]]) -> None:
        super().__init__("vllm-main", lambda _argv: (0, "", ""))
        self._clock = clock
        self._script = script

    def state(self) -> UnitState:
        at = max(s for s in self._script if s <= self._clock.time - 100)
        return self._script[at][0]

    def read_journal(self, state: UnitState) -> None:
        self.lines = [
            line for s, (_state, lines) in self._script.items() if s <= self._clock.time - 100 for line in lines
        ]


def wait(
    script: dict[float, tuple[UnitState, list[str]]] | None,
    answers: dict[float, Answer],
    timeout: float = 600,
    poll: float = 2,
) -> Outcome:
    clock = FakeClock()

    def ask(_left: float) -> Answer:
        return answers[max(s for s in answers if s <= clock.time - 100)]

    unit = None if script is None else FakeUnit(clock, script)
    return Waiter(ask, unit, timeout, poll, clock).wait()


def cause_id(outcome: Outcome) -> str:
    assert outcome.cause is not None
    return outcome.cause.id


def test_ready_when_it_answers() -> None:
    outcome = wait({0: (RUNNING, ["loading"])}, {0: CONNECT, 60: READY})
    assert (outcome.ready, outcome.seconds, outcome.cause) == (True, 60, None)
    assert outcome.log_tail == ["loading"]


def test_an_instance_that_answers_is_ready_whatever_its_log_says() -> None:
    assert wait({0: (replace(RUNNING, restarts=7), [FATAL])}, {0: READY}).ready


def test_an_answer_of_another_process_does_not_count_for_a_dead_unit() -> None:
    dead = replace(RUNNING, active="failed", sub="failed")
    assert cause_id(wait({0: (dead, [FATAL])}, {0: READY})) == "no-kv-cache-memory"


def test_a_fatal_line_ends_the_wait_at_once_although_the_unit_runs() -> None:
    outcome = wait({0: (RUNNING, []), 10: (RUNNING, [FATAL])}, {0: CONNECT})
    assert (outcome.ready, outcome.seconds, cause_id(outcome)) == (False, 10, "no-kv-cache-memory")


def test_an_ended_unit_is_given_time_to_print_the_cause() -> None:
    ended = replace(RUNNING, active="activating", sub="auto-restart", exit_status=1)
    outcome = wait({0: (RUNNING, []), 4: (ended, [WRAPPER]), 8: (ended, [FATAL])}, {0: CONNECT})
    assert (outcome.seconds, cause_id(outcome)) == (8, "no-kv-cache-memory")
    outcome = wait({0: (RUNNING, []), 4: (ended, [WRAPPER])}, {0: CONNECT})
    assert (outcome.seconds, cause_id(outcome)) == (10, "engine-core-failed")


@pytest.mark.parametrize(
    "state",
    [
        replace(RUNNING, active="failed", sub="failed", result="start-limit-hit", exit_status=203),
        replace(RUNNING, active="inactive", sub="dead"),
        replace(RUNNING, restarts=1),
    ],
)
def test_a_unit_that_ends_or_restarts_without_a_known_line_ends_the_wait(state: UnitState) -> None:
    outcome = wait({0: (RUNNING, []), 2: (state, ["some line"])}, {0: CONNECT})
    assert outcome.seconds <= 8
    assert outcome.cause is not None
    assert (outcome.cause.id, outcome.cause.line) == ("unit-ended", "some line")
    assert state.text in outcome.cause.remedy


def test_restarts_from_before_the_wait_are_no_failure() -> None:
    assert wait({0: (replace(RUNNING, restarts=3), [])}, {0: CONNECT, 30: READY}).ready


def test_a_wedged_engine_ends_the_wait_after_a_minute() -> None:
    outcome = wait({0: (RUNNING, [WRAPPER])}, {0: CONNECT})
    assert (outcome.seconds, cause_id(outcome)) == (60, "engine-core-failed")


def test_a_cache_that_cannot_be_written_does_not_end_the_wait() -> None:
    # Seen with vLLM 0.32.0: logged as an error with a traceback, and the start goes on.
    line = "(APIServer pid=1) ERROR 01-02 03:04:05 [registry.py:1] PermissionError: [Errno 13] Permission denied: '/x'"
    assert wait({0: (RUNNING, [line])}, {0: CONNECT, 300: READY}).ready


def test_a_server_that_is_healthy_and_fails_its_first_request_is_not_ready() -> None:
    failed = Answer("completion", "HTTP 500", Cause("completion-failed", "HTTP 500", "x"))
    outcome = wait({0: (RUNNING, [])}, {0: CONNECT, 20: failed})
    assert cause_id(outcome) == "completion-failed"
    assert outcome.seconds <= 26
    why = "(EngineCore pid=1) ERROR 01-02 03:04:05 [c.py:1] AssertionError: only softmax is supported"
    outcome = wait({0: (RUNNING, []), 22: (RUNNING, [why])}, {0: CONNECT, 20: failed})
    assert outcome.cause is not None
    assert outcome.cause.line == "AssertionError: only softmax is supported"


def test_other_answers_that_waiting_cannot_mend_end_it_at_once() -> None:
    wrong = Answer("models", "", Cause("served-name-missing", "a", "b"))
    assert wait({0: (RUNNING, [])}, {0: wrong}).seconds == 0


class TickingClock(FakeClock):
    """A clock that is never the same twice, as the real one."""

    def now(self) -> float:
        self.time += 1e-6
        return self.time


def test_at_once_means_that_the_server_is_asked_once() -> None:
    wrong = Answer("models", "", Cause("served-name-missing", "a", "b"))
    asked: list[float] = []

    def ask(left: float) -> Answer:
        asked.append(left)
        return wrong

    outcome = Waiter(ask, None, 600, 2, TickingClock()).wait()
    assert (outcome.seconds, len(asked)) == (0, 1)


def told(
    script: dict[float, tuple[UnitState, list[str]]] | None, answers: dict[float, Answer], seconds: float = 10
) -> list[str]:
    clock = FakeClock()
    lines: list[str] = []
    unit = None if script is None else FakeUnit(clock, script)
    Waiter(
        lambda _left: answers[max(s for s in answers if s <= clock.time - 100)], unit, seconds, 5, clock, lines.append
    ).wait()
    return lines


def test_each_look_tells_what_the_log_says_of_the_load() -> None:
    shards = "Loading safetensors checkpoint shards:  45% Completed | 57/126 [01:10<01:24,  1.22s/it]"
    health = Answer("health", "/health: 503")
    assert told({0: (RUNNING, []), 5: (RUNNING, [shards])}, {0: CONNECT, 10: health, 15: READY}, 60) == [
        "0 s: the unit is active, its log says nothing of the load yet",
        "5 s: loading weights: 57 of 126 shards (45 %)",
        "10 s: /health: 503",
    ]


def test_an_end_that_is_looked_into_is_told() -> None:
    assert told({0: (RUNNING, [WRAPPER])}, {0: CONNECT}, 5) == [
        "0 s: it seems to have failed (engine-core-failed), more of the log is awaited"
    ]


def test_without_a_unit_the_server_is_told() -> None:
    assert told(None, {0: CONNECT, 5: READY}) == ["0 s: /health: Connection refused"]


def test_what_the_answer_says_is_kept() -> None:
    note = info("smoke-cut-off", "x")
    assert wait(None, {0: Answer("ready", findings=(note,))}).findings == (note,)


def test_a_missing_unit_is_said_at_once() -> None:
    missing = UnitState("not-found", "inactive", "dead", "success", 0, "none", 0, "")
    outcome = wait({0: (missing, [])}, {0: READY})
    assert (outcome.seconds, cause_id(outcome)) == (0, "unit-missing")


def test_the_timeout_names_how_far_it_came() -> None:
    line = "Loading safetensors checkpoint shards:  45% Completed | 57/126 [01:10<01:24,  1.22s/it]"
    outcome = wait({0: (RUNNING, [line])}, {0: CONNECT}, timeout=30)
    assert outcome.cause is not None
    assert (outcome.ready, outcome.cause.id, outcome.cause.line) == (False, "timeout", line)
    assert "last stage connect (loading weights: 57 of 126 shards (45 %))" in outcome.cause.remedy


def test_a_reason_that_the_time_cuts_short_says_more_than_that_it_is_over() -> None:
    mute = Answer("completion", "no answer", Cause("completion-timeout", "no answer within 1 s", "Look."))
    outcome = wait({0: (RUNNING, ["loading"])}, {0: CONNECT, 29: mute}, timeout=30)
    assert (outcome.seconds, cause_id(outcome)) == (30, "completion-timeout")
    assert cause_id(wait({0: (RUNNING, []), 550: (RUNNING, [WRAPPER])}, {0: CONNECT})) == "engine-core-failed"


def test_without_a_unit_only_the_server_counts() -> None:
    assert wait(None, {0: CONNECT, 10: READY}).seconds == 10
    assert cause_id(wait(None, {0: CONNECT}, timeout=20)) == "timeout"


def test_the_figures_of_the_log_are_returned() -> None:
    line = "(EngineCore pid=1) INFO x GPU KV cache size: 1,024 tokens"
    outcome = wait({0: (RUNNING, [line])}, {0: READY})
    assert outcome.engine == {"kv_tokens": 1024}
