# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the builtin client writes down, read afterwards; the client itself is tested with the module."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import builtin
from ansible_collections.modelops.vllm.plugins.module_utils._bench.builtin_client import HEADER
from ansible_collections.modelops.vllm.plugins.module_utils._bench.points import Measurement, Point

CLOSED = Measurement(Point(2, 8, 2, 3), 1, 7)
OPEN = Measurement(Point(None, 8, 2, 200, rate=4.0), 1, 7)


def event(payload: t.Any) -> bytes:
    return f"data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n".encode()


TOKEN = event({"choices": [{"text": "a", "finish_reason": None}]})
LAST = event({"choices": [{"text": "a", "finish_reason": "length"}]})
USAGE = event({"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": 2}})
DONE = event("[DONE]")


def spool(directory: Path, pieces: list[tuple[float, int, bytes]], ends: list[dict[str, t.Any]]) -> None:
    data = b"".join(HEADER.pack(at, index, len(piece)) + piece for at, index, piece in pieces)
    (directory / "stream.bin").write_bytes(data)
    (directory / "ends.jsonl").write_text("".join(json.dumps(end) + "\n" for end in ends))


def end(index: int, start: float, status: int = 200, error: str = "") -> dict[str, t.Any]:
    return {"index": index, "status": status, "error": error, "start": start, "end": start + 9, "queue": None}


def test_streams_that_came_mixed_and_in_pieces_are_told_apart(tmp_path: Path) -> None:
    pieces = [
        (10.5, 0, TOKEN[:9]),
        (10.6, 1, TOKEN),
        (10.75, 0, TOKEN[9:]),
        (11.0, 1, LAST + USAGE + DONE),
        (11.5, 0, LAST),
        (11.75, 0, USAGE + DONE),
    ]
    spool(tmp_path, pieces, [end(1, 10.25), end(0, 10.0), end(2, 11.0, 503, "Service Unavailable: full")])
    raw = builtin.collect(CLOSED, str(tmp_path))
    assert raw is not None
    assert raw["ttfts"][:2] == [0.75, pytest.approx(0.35)]
    assert raw["latencies"][:2] == [1.5, 0.75]
    assert raw["input_lens"] == [8, 8, 0]
    assert raw["output_lens"] == [2, 2, 0]
    assert raw["kinds"] == ["", "", "http-error"]
    assert raw["errors"][2] == "HTTP 503 Service Unavailable: full"


@pytest.mark.parametrize(
    ("failed", "kind"),
    [
        (end(0, 10.0, 0, "ClientConnectorError: refused"), "no-answer"),
        (end(0, 10.0, 200, "ClientPayloadError: not completed"), "stream-cut"),
    ],
)
def test_an_exception_of_the_client_is_a_failed_request(tmp_path: Path, failed: dict[str, t.Any], kind: str) -> None:
    spool(tmp_path, [(10.5, 0, TOKEN)] if failed["status"] else [], [failed])
    raw = builtin.collect(CLOSED, str(tmp_path))
    assert raw is not None
    assert raw["kinds"] == [kind, "no-answer", "no-answer"]


def test_a_connection_that_breaks_after_the_end_broke_nothing(tmp_path: Path) -> None:
    pieces = [(10.5, 0, TOKEN), (10.6, 0, LAST + USAGE + DONE)]
    spool(tmp_path, pieces, [end(0, 10.0, 200, "ClientPayloadError: not completed")])
    raw = builtin.collect(CLOSED, str(tmp_path))
    assert raw is not None
    assert raw["kinds"][0] == ""


@pytest.mark.parametrize(
    "odd",
    ['{"choices":[null]}', '{"choices":[],"usage":"x"}', '{"choices":[],"usage":[1]}', '{"choices":[{"delta":"x"}]}'],
)
def test_an_event_of_another_form_fails_its_request_and_no_other(tmp_path: Path, odd: str) -> None:
    pieces = [(10.5, 0, event(odd)), (10.6, 1, TOKEN + LAST + USAGE + DONE)]
    spool(tmp_path, pieces, [end(0, 10.0), end(1, 10.0)])
    raw = builtin.collect(CLOSED, str(tmp_path))
    assert raw is not None
    assert raw["kinds"] == ["bad-event", "", "no-answer"]


def test_a_client_that_did_not_come_to_its_end_left_nothing(tmp_path: Path) -> None:
    (tmp_path / "stream.bin").write_bytes(HEADER.pack(1.0, 0, len(TOKEN)) + TOKEN)
    assert builtin.collect(CLOSED, str(tmp_path)) is None


def test_arrivals_have_the_asked_rate_and_random_gaps() -> None:
    moments = builtin.arrivals(OPEN)
    assert len(moments) == 200
    assert moments[-1] == pytest.approx(200 / 4.0)
    gaps = [later - earlier for earlier, later in zip([0.0, *moments], moments, strict=False)]
    assert min(gaps) > 0
    # Exponential gaps vary as much as they last.
    mean = sum(gaps) / len(gaps)
    assert 0.7 < (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5 / mean < 1.3
    assert moments == builtin.arrivals(OPEN)
    assert moments != builtin.arrivals(Measurement(OPEN.point, 2, 8))


def test_the_program_its_plan_and_the_requests_lie_side_by_side(tmp_path: Path) -> None:
    bodies = [{"prompt": [1, 2]}, {"prompt": "a\nb"}]
    command = builtin.prepare("/usr/bin/python3", "http://h/v1/completions", CLOSED, bodies, str(tmp_path))
    assert command.argv == ["/usr/bin/python3", "-I", "builtin_client.py", "."]
    assert json.loads((tmp_path / "plan.json").read_text()) == {
        "url": "http://h/v1/completions",
        "concurrency": 2,
        "arrivals_s": [],
    }
    assert [json.loads(line) for line in (tmp_path / "bodies.jsonl").read_text().splitlines()] == bodies
    # It runs where this collection is not: in an interpreter of its own.
    assert "ansible_collections" not in (tmp_path / "builtin_client.py").read_text()
    assert "from ." not in (tmp_path / "builtin_client.py").read_text()
