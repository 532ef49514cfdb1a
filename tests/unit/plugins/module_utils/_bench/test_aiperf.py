# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""aiperf is told everything, and its raw records are judged anew."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import aiperf, command
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Measurement, Point
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

CLOSED = Measurement(Point(2, 8, 2, 3), 1, 7)
TARGET = command.Target("http://h:8000", "served", "/models/m")

TOKEN = {"object": "text_completion", "choices": [{"text": "", "finish_reason": None}]}
LAST = {"object": "text_completion", "choices": [{"text": "a", "finish_reason": "length"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": 2}}


def record(index: int, events: list[t.Any], **changes: t.Any) -> dict[str, t.Any]:
    """A record in the form of aiperf 0.13.0, an event each 10 ms."""
    responses = [
        {
            "perf_ns": 5_000_000_000 + 10_000_000 * number,
            "packets": [
                {"name": "comment", "value": "ping"},
                {"name": "data", "value": event if isinstance(event, str) else json.dumps(event)},
            ],
        }
        for number, event in enumerate(events, 1)
    ]
    return {
        "metadata": {"conversation_id": str(index), "benchmark_phase": "profiling"},
        "start_perf_ns": 5_000_000_000,
        "status": 200,
        "responses": responses,
        **changes,
    }


def test_records_are_read_by_our_own_rules() -> None:
    # aiperf takes tokens without text for an error; the usage says that they were tokens.
    answer = aiperf.answer_of(record(4, [TOKEN, LAST, USAGE, "[DONE]"]), 2)
    assert (answer.index, answer.start_s) == (4, 5.0)
    assert (answer.stream.kind, answer.stream.times) == ("", [0.01, 0.02])


@pytest.mark.parametrize(
    ("failed", "kind"),
    [
        (record(0, [TOKEN]), "stream-cut"),
        (record(0, [TOKEN, {"error": {"message": "gone"}}, "[DONE]"]), "error-event"),
        (record(0, [], status=500, error={"code": 500, "message": "injected"}), "http-error"),
        (record(0, [], status=None, error={"type": "ClientConnectorError", "message": "refused"}), "no-answer"),
        (record(0, [LAST, {"choices": [], "usage": {"completion_tokens": 1}}, "[DONE]"]), "output-length"),
    ],
)
@pytest.mark.case("error-event-counted-success", "truncated-stream-counted-success")
def test_a_broken_rule_is_named(failed: dict[str, t.Any], kind: str) -> None:
    assert aiperf.answer_of(failed, 2).stream.kind == kind


@pytest.mark.parametrize(
    "place", ["artifacts/profile_export_raw.jsonl", "artifacts/raw_records/raw_records_record_processor_1.jsonl"]
)
def test_records_count_also_when_aiperf_gave_up(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record(i, [TOKEN, LAST, USAGE, "[DONE]"])) + "\n" for i in (2, 0)))
    raw = aiperf.collect(CLOSED, str(tmp_path))
    assert raw is not None
    assert raw["kinds"] == ["", "no-answer", ""]
    assert raw["output_lens"] == [2, 0, 2]


def test_without_records_there_is_no_result(tmp_path: Path) -> None:
    assert aiperf.collect(CLOSED, str(tmp_path)) is None


def test_nothing_is_left_to_a_default_and_the_key_is_in_no_file(tmp_path: Path) -> None:
    bodies = [{"prompt": [1, 2]}, {"prompt": "b"}]
    asked = aiperf.prepare("/x/aiperf", TARGET, CLOSED, bodies, str(tmp_path), key=True)
    assert asked.argv == ["/x/aiperf", "profile", "--config", "config.json", "--ui", "none"]
    inputs = json.loads((tmp_path / "inputs.json").read_text())["data"]
    assert [(entry["session_id"], entry["payloads"]) for entry in inputs] == [("0", [bodies[0]]), ("1", [bodies[1]])]
    benchmark = json.loads((tmp_path / "config.json").read_text())["benchmark"]
    assert benchmark["endpoint"]["api_key"] == "${OPENAI_API_KEY}"
    assert (benchmark["endpoint"]["type"], benchmark["endpoint"]["path"]) == ("completions", "/v1/completions")
    assert benchmark["phases"] == [{"name": "profiling", "type": "concurrency", "concurrency": 2, "requests": 3}]
    assert benchmark["artifacts"]["raw"] is True
    assert "api_key" not in aiperf.configuration(TARGET, CLOSED, key=False)["benchmark"]["endpoint"]


def test_a_rate_has_no_limit_of_streams() -> None:
    measurement = Measurement(Point(None, 8, 2, 60, rate=2.5), 1, 7)
    chat = command.Target("http://h", "m", "/t", endpoint="chat")
    benchmark = aiperf.configuration(chat, measurement, key=False)["benchmark"]
    assert benchmark["phases"] == [{"name": "profiling", "type": "poisson", "rate": 2.5, "requests": 60}]
    assert benchmark["endpoint"]["path"] == "/v1/chat/completions"


def test_the_hub_is_not_asked_and_a_directory_is_taken_for_one() -> None:
    environment = aiperf.environment({"PATH": "/bin", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"})
    assert environment == {"PATH": "/bin", "HF_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.slow
@pytest.mark.parametrize(("said", "words"), [("0.9.2", "is aiperf 0.9.2"), ("nothing", "is aiperf")])
def test_an_old_aiperf_is_refused(tmp_path: Path, said: str, words: str) -> None:
    path = tmp_path / "aiperf"
    path.write_text(f"#!/bin/sh\necho {said}\n")
    path.chmod(0o755)
    with pytest.raises(ModelopsError, match=words):
        aiperf.find(str(path))


@pytest.mark.slow
def test_a_new_aiperf_is_found(tmp_path: Path) -> None:
    path = tmp_path / "aiperf"
    path.write_text("#!/bin/sh\necho 0.13.0\n")
    path.chmod(0o755)
    assert aiperf.find(str(path)) == (str(path), "0.13.0")
    assert aiperf.find("/nowhere/aiperf") is None
