# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm_ready against small servers on loopback that behave as vLLM does, well and badly."""

from __future__ import annotations

import json
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

import pytest

KEY = "unit-test-key-0815"


class Behaviour:
    """What the server says; tests change the fields."""

    def __init__(self) -> None:
        self.health = 200
        self.models: list[str] = ["demo"]
        self.completion: tuple[int, dict[str, t.Any]] = (
            200,
            {"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}},
        )
        self.chat: tuple[int, dict[str, t.Any]] = (200, {"choices": [{"message": {"content": "5"}}]})
        self.key = ""
        self.hang = 0.0
        self.seen: list[tuple[str, str]] = []


class Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def _say(self, status: int, body: dict[str, t.Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        b = self.behaviour
        b.seen.append((self.path, self.headers.get("Authorization", "")))
        if self.path == "/health":
            self._say(b.health, {})
        elif b.key and self.headers.get("Authorization") != f"Bearer {b.key}":
            self._say(401, {"error": "Unauthorized"})
        else:
            self._say(200, {"object": "list", "data": [{"id": name} for name in b.models]})

    def do_POST(self) -> None:
        b = self.behaviour
        self.rfile.read(int(self.headers["Content-Length"]))
        b.seen.append((self.path, self.headers.get("Authorization", "")))
        time.sleep(b.hang)
        self._say(*(b.chat if self.path == "/v1/chat/completions" else b.completion))

    def log_message(self, format: str, *args: t.Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Without the name look-up of HTTPServer, which waits for a name server."""
        TCPServer.server_bind(self)


@pytest.fixture
def server() -> t.Iterator[tuple[str, Behaviour]]:
    behaviour = Behaviour()
    handler = type("H", (Handler,), {"behaviour": behaviour})
    httpd = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    with httpd:
        yield f"http://127.0.0.1:{httpd.server_address[1]}", behaviour
        httpd.shutdown()


Run = t.Callable[..., t.Any]


def test_a_server_that_answers_sensibly_is_ready(run_module: Run, server: tuple[str, Behaviour]) -> None:
    result = run_module("vllm_ready", {"url": server[0], "model": "demo", "timeout": 10})
    assert result.rc == 0
    assert (result["ready"], result["changed"], result["cause"], result["unit"]) == (True, False, None, None)
    assert [path for path, _key in server[1].seen] == [
        "/health",
        "/v1/models",
        "/v1/completions",
        "/v1/chat/completions",
    ]


def test_the_key_travels_in_the_header_and_is_shown_nowhere(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].key = KEY
    assert run_module("vllm_ready", {"url": server[0], "api_key": KEY, "timeout": 5})["ready"]
    assert server[1].seen[-1][1] == f"Bearer {KEY}"
    server[1].completion = (500, {"error": f"quoted {KEY}"})
    failed = run_module("vllm_ready", {"url": server[0], "api_key": KEY, "timeout": 5})
    assert failed.rc == 1
    assert KEY not in json.dumps(failed)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"models": ["other"]}, "served-name-missing"),
        ({"models": []}, "not-vllm"),
        ({"key": "secret"}, "api-key-refused"),
        ({"completion": (500, {"error": "EngineDeadError"})}, "completion-failed"),
        ({"completion": (200, {"choices": [], "usage": {"completion_tokens": 0}})}, "completion-failed"),
        ({"chat": (200, {"choices": [{"message": {"content": "the \ufffd\ufffd"}}]})}, "smoke-nonsense"),  # A32
        ({"chat": (500, {})}, "completion-failed"),
    ],
)
def test_answers_that_waiting_cannot_mend_fail_in_a_moment(
    run_module: Run, server: tuple[str, Behaviour], change: dict[str, t.Any], cause: str
) -> None:
    for name, value in change.items():
        setattr(server[1], name, value)
    started = time.monotonic()
    result = run_module("vllm_ready", {"url": server[0], "model": "demo", "timeout": 60})
    assert time.monotonic() - started < 5
    assert result.rc == 1
    assert (result["ready"], result["cause"]["id"]) == (False, cause)
    assert result["cause"]["remedy"]
    assert cause in result["msg"]


def test_health_and_models_without_a_completion_are_not_ready(run_module: Run, server: tuple[str, Behaviour]) -> None:
    # B20
    server[1].hang = 30
    result = run_module("vllm_ready", {"url": server[0], "timeout": 60, "completion_timeout": 1})
    assert result["cause"]["id"] == "completion-timeout"


def test_a_base_model_without_a_chat_template_is_asked_for_a_text(
    run_module: Run, server: tuple[str, Behaviour]
) -> None:
    server[1].chat = (400, {"error": "no chat template"})
    server[1].completion = (200, {"choices": [{"text": " 5"}], "usage": {"completion_tokens": 1}})
    assert run_module("vllm_ready", {"url": server[0], "timeout": 5})["ready"]


def test_without_smoke_one_token_is_enough(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].chat = (500, {})
    assert run_module("vllm_ready", {"url": server[0], "timeout": 5, "smoke": False})["ready"]


def test_an_unhealthy_server_is_waited_for_until_the_timeout(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].health = 503
    result = run_module("vllm_ready", {"url": server[0], "timeout": 2, "poll": 1})
    assert (result.rc, result["cause"]["id"]) == (1, "timeout")
    assert "503" in result["msg"]


def test_check_mode_does_not_wait(run_module: Run) -> None:
    result = run_module("vllm_ready", {"url": "http://127.0.0.1:9", "timeout": 3600}, check=True)
    assert (result.rc, result["ready"], result["changed"]) == (0, None, False)


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": 90000}, "timeout is 90000"),
        ({"poll": 0}, "poll is 0"),
        ({"url": "127.0.0.1:8000"}, "no address"),
        ({"url": "http://127.0.0.1:8000/v1"}, "without a path"),
        ({"url": "http://user:hidden@127.0.0.1:8000"}, "api_key"),
    ],
)
def test_bad_options_are_refused_by_name(run_module: Run, params: dict[str, t.Any], word: str) -> None:
    result = run_module("vllm_ready", params)
    assert result.rc == 1
    assert word in result["msg"]
    assert "hidden" not in json.dumps(result.get("msg"))
