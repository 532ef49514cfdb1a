# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock of a run: what begins, and what was ended by it."""

from __future__ import annotations

import time
import types
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench.run import _Clock, _settings


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


def record(finding: str, **numbers: t.Any) -> dict[str, t.Any]:
    return {"findings": [{"id": finding, "numbers": numbers}]}


def test_no_measurement_begins_that_would_take_longer_than_is_left(now: list[float]) -> None:
    clock = _Clock(100)
    with clock.timed("c1"):
        now[0] += 60
    assert clock.over("c1")
    assert not clock.over("c8")
    now[0] += 40
    assert clock.over("c8")


def test_without_a_bound_nothing_is_over(now: list[float]) -> None:
    clock = _Clock(0)
    now[0] += 1e9
    assert not clock.over("c1")
    assert not clock.cut(record("client-timeout"))


@pytest.mark.parametrize(
    ("seen", "cut"),
    [
        (record("client-timeout"), True),
        (record("warm-up-failed", kind="no-answer"), True),
        # What the server answered is its own fault, however late it is.
        (record("warm-up-failed", kind="http-error"), False),
        (record("server-gone"), False),
        (record("few-prompts"), False),
    ],
)
def test_what_the_clock_ended_says_nothing_about_the_server(
    now: list[float], seen: dict[str, t.Any], cut: bool
) -> None:
    clock = _Clock(100)
    now[0] += 99
    assert not clock.cut(seen)
    now[0] += 1
    assert clock.cut(seen) is cut


def test_a_run_is_continued_with_the_settings_of_its_figures() -> None:
    def settings(**changes: t.Any) -> dict[str, t.Any]:
        given = {"slo": {}, "gpu_uuids": [], "gpu_hour_price": None, "currency": "USD", **changes}
        return _settings(t.cast("t.Any", types.SimpleNamespace(**given)))

    assert settings(gpu_uuids=["b", "a", "b"]) == settings(gpu_uuids=["a", "b"])
    different: list[dict[str, t.Any]] = [
        {"slo": {"ttft_ms": 5.0}},
        {"gpu_uuids": ["a"]},
        {"gpu_hour_price": 1.5},
        {"currency": "EUR"},
    ]
    assert all(settings(**changes) != settings() for changes in different)
