# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of one measurement, as far as they need no server."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import api, dataset, measure
from ansible_collections.modelops.vllm.plugins.module_utils._bench.command import Target
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Measurement, Point
from ansible_collections.modelops.vllm.plugins.module_utils._bench.streams import Stream


def test_a_warm_up_request_whose_thread_dies_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def complete(_server: api.Server, _model: str, prompt: str, *_args: t.Any, **_options: t.Any) -> Stream:
        sent.append(prompt)
        if len(sent) == 2:
            raise AttributeError("a fault of this code")
        return Stream(times=[1.0], completion_tokens=1)

    monkeypatch.setattr(api, "complete", complete)
    job = types.SimpleNamespace(
        options=types.SimpleNamespace(server=api.Server("http://h"), target=Target("http://h", "m", "")),
        facts=measure.Facts(None, None, dataset.Lengths(4.0), 1.0),
        dataset=dataset.Dataset("random"),
        tell=lambda _line: None,
        seconds=lambda: 5.0,
    )
    point = Point(concurrency=3, input_len=8, output_len=4, num_prompts=30)
    (found,), _tokens = measure._warm_up(t.cast(measure.Job, job), Measurement(point, 1, 7))
    assert (found.id, found.severity) == ("warm-up-failed", "error")
    assert found.numbers == {"failed": 1, "requests": 3, "kind": "client-error"}
    assert "AttributeError: a fault of this code" in found.message
