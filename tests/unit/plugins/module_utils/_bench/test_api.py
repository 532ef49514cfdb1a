# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own strict client, against streams that are not what they seem."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import api
from ansible_collections.modelops.vllm.plugins.module_utils._bench.streams import Stream
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError

from tests.support.mock_openai import MockOpenAI


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        (" https://host.example/v1/ ", "https://host.example"),
        ("http://[::1]:8000/team/v1", "http://[::1]:8000/team"),
    ],
)
def test_urls_are_brought_to_the_root(url: str, root: str) -> None:
    assert api.normalise_url(url) == root


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://host",
        "http://",
        "http://h:99999",
        "http://h/?a=b",
        "",
        "http://[::1",
        "http://a b:80",
        "http://h/a b",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ModelopsError, match="server's root"):
        api.normalise_url(url)


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ModelopsError) as refusal:
        api.normalise_url("http://user:hunter2@host:8000")
    assert "hunter2" not in str(refusal.value)


def test_a_url_that_is_none_is_refused_without_its_password() -> None:
    with pytest.raises(ModelopsError) as refusal:
        api.normalise_url("http://user:hunter2@[::1")
    assert str(refusal.value) == "url must be the server's root, but is no URL. Use for example http://127.0.0.1:8000."


def test_the_key_is_in_no_repr() -> None:
    assert "key-1" not in repr(api.Server("http://h", "key-1"))


@pytest.mark.parametrize(
    ("url", "loopback"),
    [("http://127.0.0.2:1", True), ("http://localhost", True), ("http://[::1]:1", True), ("http://gpu01", False)],
)
def test_the_client_knows_whether_it_is_on_the_same_host(url: str, loopback: bool) -> None:
    assert api.Server(url).loopback is loopback


@pytest.mark.slow
class TestAgainstAServer:
    def ask(self, mock: MockOpenAI, tokens: int = 20, timeout: float = 10.0) -> Stream:
        return api.complete(api.Server(mock.url, "key-1"), "mock", "hello", tokens, timeout)

    def test_a_healthy_stream_keeps_every_rule(self) -> None:
        with MockOpenAI(first_token_s=0.02, token_s=0.002, api_key="key-1") as mock:
            stream = self.ask(mock)
        assert (stream.kind, stream.problem) == ("", "")
        assert (stream.events, stream.completion_tokens, stream.finish_reason) == (20, 20, "length")
        assert stream.tokens_per_event == 1.0
        assert 0.02 <= stream.ttft_s <= stream.latency_s

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            ("http_500", "http-error"),
            ("error_event", "error-event"),
            ("cut", "stream-cut"),
            ("no_usage", "no-usage"),
            ("early_stop", "output-length"),
            ("reset", "no-answer"),
            ("ping", ""),
        ],
    )
    def test_a_fault_is_named(self, fault: str, kind: str) -> None:
        with MockOpenAI(fault=fault) as mock:
            assert self.ask(mock).kind == kind

    def test_a_key_with_the_line_end_of_a_vault_is_sent_without_it(self) -> None:
        with MockOpenAI(api_key="key-1") as mock:
            server = api.Server(mock.url, "key-1\n")
            assert api.get(server, "/v1/models")[0] == 200
            assert api.complete(server, "mock", "hello", 20, 10.0).kind == ""

    def test_tokens_are_counted_by_usage_when_events_carry_several(self) -> None:
        with MockOpenAI(tokens_per_event=4) as mock:
            stream = self.ask(mock)
        assert (stream.kind, stream.events, stream.completion_tokens) == ("", 5, 20)

    def test_keep_alives_do_not_hold_the_client(self) -> None:
        with MockOpenAI(fault="ping", token_s=0.05) as mock:
            assert self.ask(mock, tokens=100, timeout=0.3).kind == "no-answer"

    def test_a_wrong_key_and_a_dead_port_are_told(self) -> None:
        with MockOpenAI(api_key="other") as mock:
            stream = self.ask(mock)
            assert (stream.kind, stream.status) == ("http-error", 401)
            assert api.get(api.Server(mock.url), "/v1/models")[0] == 401
            url = mock.url
        status, reason = api.get(api.Server(url), "/metrics", timeout=2)
        assert status == 0
        assert "refused" in reason.lower()
