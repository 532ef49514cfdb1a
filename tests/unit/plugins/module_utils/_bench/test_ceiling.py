# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of the client itself, against a server whose pace is known."""

from __future__ import annotations

import http.client
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import api, ceiling, engine
from ansible_collections.modelops.vllm.plugins.module_utils._bench.command import Target
from ansible_collections.modelops.vllm.plugins.module_utils._bench.paced import PacedServer

from tests.support import fake_vllm


@pytest.mark.parametrize(
    ("concurrency", "rate", "tokens", "token_s"),
    [(128, 2560, 60, 0.025), (512, 10000, 59, 0.0256), (1, 100, 300, 0.005), (8, 1, 16, 4.0), (1, 5000, 512, 0.0001)],
)
def test_the_check_has_twice_the_expected_rate(concurrency: int, rate: float, tokens: int, token_s: float) -> None:
    point, pause = ceiling.pace(concurrency, rate)
    assert (point.concurrency, point.num_prompts, point.output_len) == (concurrency, 2 * concurrency, tokens)
    assert pause == pytest.approx(token_s)


@pytest.mark.case("client-gil-ttft")
@pytest.mark.parametrize(
    ("rate", "ttft", "expected"),
    [
        (4858, 52.0, "client-checked"),
        (4800, 50.0, "client-checked"),
        (4700, 50.0, "client-too-slow"),
        (4970, 67.0, "client-too-slow"),
        (5300, 50.0, "client-too-slow"),
        (3938, 91.0, "client-too-slow"),
    ],
)
def test_a_client_may_be_wrong_by_five_percent_and_ten_milliseconds(rate: float, ttft: float, expected: str) -> None:
    (found,) = ceiling.judge(128, rate=rate, true_rate=4995, ttft_ms=ttft, true_ttft_ms=50.0, cpu_share=0.4)
    assert found.id == expected
    assert found.severity == ("info" if expected == "client-checked" else "warning")
    assert found.numbers["true_tokens_per_s"] == 4995
    assert f"{rate:.0f} of 4995 tokens/s" in found.message


@pytest.mark.slow
class TestPaced:
    def test_its_streams_keep_every_rule_and_its_pace(self) -> None:
        with PacedServer(0.05, 0.01) as server:
            stream = api.complete(api.Server(server.url), "any", "abc", 10, 10.0)
        assert (stream.kind, stream.completion_tokens, stream.events) == ("", 10, 10)
        assert stream.latency_s >= 0.14
        assert stream.ttft_s >= 0.05
        # A client may have the last token before the server has noted that it sent it.
        assert server.tokens == 10
        (first,) = server.first_tokens_s
        assert first >= 0.05

    def test_a_connection_is_kept_and_other_paths_are_unknown(self) -> None:
        with PacedServer(0.0, 0.0) as server:
            connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
            for _request in range(2):
                body = json.dumps({"max_tokens": 2, "prompt": [1, 2, 3]})
                connection.request("POST", "/v1/completions", body)
                answer = connection.getresponse().read().decode()
                assert answer.count("data: ") == 4
                assert '"prompt_tokens":3' in answer
            for method, path in (("GET", "/metrics"), ("POST", "/tokenize")):
                connection.request(method, path, '{"prompt": "a"}')
                answered = connection.getresponse()
                assert (answered.status, answered.read()) == (404, b"{}")
            connection.close()

    def test_a_request_that_cannot_be_read_is_not_left_waiting(self) -> None:
        with PacedServer(0.0, 0.0) as server:
            connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
            connection.request("POST", "/v1/completions", '{"prompt": "a"}')
            with pytest.raises(http.client.RemoteDisconnected):
                connection.getresponse()
            connection.close()

    @pytest.mark.case("client-gil-ttft")
    def test_a_client_is_measured_before_it_measures(self, tmp_path: Path) -> None:
        client = engine.Client("python", fake_vllm.install(str(tmp_path)), "0.32.0")
        (found,) = ceiling.check(client, Target("http://127.0.0.1:9", "mock", "/nowhere"), 2, 50)
        assert found.id in ("client-checked", "client-too-slow")  # by how busy this host is
        numbers: dict[str, t.Any] = dict(found.numbers)
        assert 0 < numbers["true_tokens_per_s"] < 110
        assert numbers["tokens_per_s"] == pytest.approx(numbers["true_tokens_per_s"], rel=0.3)
        assert numbers["ttft_ms"] >= numbers["true_ttft_ms"] >= 50

    def test_a_client_that_cannot_be_checked_is_told(self, tmp_path: Path) -> None:
        client = engine.Client("python", fake_vllm.install(str(tmp_path), "crash"), "0.32.0")
        (found,) = ceiling.check(client, Target("http://127.0.0.1:9", "mock", "/nowhere"), 2, 50)
        assert (found.id, found.severity) == ("client-check-failed", "warning")
        assert "RuntimeError: cannot start" in found.message
