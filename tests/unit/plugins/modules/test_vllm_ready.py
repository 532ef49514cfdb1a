# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vllm_ready against small servers on loopback that behave as vLLM does, well and badly."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import waiting

KEY = "unit-test-key-0815"


class Behaviour:
    """What the server says; tests change the fields."""

    def __init__(self) -> None:
        self.health = 200
        self.models: list[str] = ["demo"]
        self.listing: dict[str, t.Any] | None = None  # instead of the models
        self.completion: tuple[int, dict[str, t.Any]] = (
            200,
            {"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}},
        )
        self.chat: tuple[int, dict[str, t.Any]] = (200, {"choices": [{"message": {"content": "5"}}]})
        self.tool: tuple[int, dict[str, t.Any]] = (200, {"choices": [{"message": {"content": "Sunny."}}]})
        self.sampled: tuple[int, dict[str, t.Any]] | None = None  # answers without temperature 0
        self.max_model_len: int | None = 4096
        self.key = ""
        self.hang = 0.0
        self.drop_chats = 0  # so many chats end without an answer
        self.seen: list[tuple[str, str]] = []
        self.bodies: list[dict[str, t.Any]] = []


class Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def _say(self, status: int, body: dict[str, t.Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # whoever asked does not wait for a server that hangs
            self.wfile.write(data)

    def do_GET(self) -> None:
        b = self.behaviour
        b.seen.append((self.path, self.headers.get("Authorization", "")))
        if self.path == "/health":
            self._say(b.health, {})
        elif b.key and self.headers.get("Authorization") != f"Bearer {b.key}":
            self._say(401, {"error": "Unauthorized"})
        else:
            self._say(
                200,
                b.listing
                or {"object": "list", "data": [{"id": m, "max_model_len": b.max_model_len} for m in b.models]},
            )

    def do_POST(self) -> None:
        b = self.behaviour
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        b.bodies.append(body)
        b.seen.append((self.path, self.headers.get("Authorization", "")))
        time.sleep(b.hang)
        if self.path != "/v1/chat/completions":
            self._say(*b.completion)
        elif b.drop_chats:
            b.drop_chats -= 1
            self.close_connection = True
        elif "tools" in body:
            self._say(*b.tool)
        else:
            self._say(*(b.sampled if b.sampled and "temperature" not in body else b.chat))

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


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY} "])
def test_white_space_around_the_key_is_neither_sent_nor_a_leak(
    run_module: Run, server: tuple[str, Behaviour], key: str
) -> None:
    server[1].key = KEY
    assert run_module("vllm_ready", {"url": server[0], "api_key": key, "timeout": 5})["ready"]
    server[1].completion = (500, {"error": f"quoted {KEY}"})
    assert KEY not in json.dumps(run_module("vllm_ready", {"url": server[0], "api_key": key, "timeout": 5}))


def test_a_key_that_no_header_holds_is_refused_at_once(run_module: Run, server: tuple[str, Behaviour]) -> None:
    failed = run_module("vllm_ready", {"url": server[0], "api_key": f"{KEY}\nmore", "timeout": 5})
    assert failed["msg"].startswith("No header can hold api_key, which has a control character")
    assert KEY not in json.dumps(failed)
    assert server[1].seen == []


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"models": ["other"]}, "served-name-missing"),
        ({"models": []}, "not-vllm"),
        ({"listing": {"data": 5}}, "not-vllm"),
        ({"key": "secret"}, "api-key-refused"),
        ({"completion": (500, {"error": "EngineDeadError"})}, "completion-failed"),
        ({"completion": (200, {"choices": [], "usage": {"completion_tokens": 0}})}, "completion-failed"),
        pytest.param(
            {"chat": (200, {"choices": [{"message": {"content": "\u0e1a#@ the the \ufffd\ufffd"}}]})},
            "smoke-nonsense",
            id="A32",
        ),
        ({"chat": (500, {})}, "completion-failed"),
    ],
)
def test_answers_that_waiting_cannot_mend_end_it_at_once(
    run_module: Run, server: tuple[str, Behaviour], change: dict[str, t.Any], cause: str
) -> None:
    for name, value in change.items():
        setattr(server[1], name, value)
    result = run_module("vllm_ready", {"url": server[0], "model": "demo", "timeout": 60})
    assert [path for path, _key in server[1].seen].count("/health") == 1
    assert result.rc == 1
    assert (result["ready"], result["cause"]["id"]) == (False, cause)
    assert result["cause"]["remedy"]
    assert cause in result["msg"]


@pytest.mark.case("B20")
def test_health_and_models_without_a_completion_are_not_ready(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].hang = 30
    result = run_module("vllm_ready", {"url": server[0], "timeout": 60, "completion_timeout": 1})
    assert result["cause"]["id"] == "completion-timeout"


def test_a_base_model_without_a_chat_template_is_asked_for_a_text(
    run_module: Run, server: tuple[str, Behaviour]
) -> None:
    server[1].chat = (400, {"error": "no chat template"})
    server[1].completion = (200, {"choices": [{"text": " 5"}], "usage": {"completion_tokens": 1}})
    assert run_module("vllm_ready", {"url": server[0], "timeout": 5})["ready"]


def said(content: str | None = None, **more: t.Any) -> tuple[int, dict[str, t.Any]]:
    """A chat answer; ``finish`` and what else the message holds."""
    finish = more.pop("finish", "stop")
    return 200, {"choices": [{"message": {"content": content, **more}, "finish_reason": finish}]}


def called(arguments: str) -> tuple[int, dict[str, t.Any]]:
    return said(tool_calls=[{"type": "function", "function": {"name": "get_weather", "arguments": arguments}}])


NONSENSE = said("the \ufffd\ufffd")


def ready(run_module: Run, server: tuple[str, Behaviour], **params: t.Any) -> t.Any:
    return run_module("vllm_ready", {"url": server[0], "timeout": 20, "poll": 1, **params})


def finding_ids(result: t.Mapping[str, t.Any]) -> list[str]:
    return [finding["id"] for finding in result["findings"]]


@pytest.mark.case("A22")
@pytest.mark.parametrize(
    ("reasoning", "message", "cause", "findings"),
    [
        ("append", {"content": "<think>2 and 3</think>5", "reasoning_content": None}, None, []),
        ("none", {"content": "<think>2 and 3</think>5"}, None, ["think-tag-in-content"]),
        ("none", {"content": "5", "reasoning": "2 and 3"}, None, []),
        ("split", {"content": "5", "reasoning": "2 and 3"}, None, []),
        ("split", {"content": "5", "reasoning_content": "2 and 3"}, None, []),
        ("split", {"content": "<think>2 and 3</think>5"}, "reasoning-not-split", []),
        ("split", {"content": "5"}, "reasoning-not-split", []),
        ("none", {"content": None, "reasoning": "It is 5."}, "reasoning-swallows-answer", []),
    ],
)
def test_the_thinking_stands_where_the_profile_wants_it(
    run_module: Run,
    server: tuple[str, Behaviour],
    reasoning: str,
    message: dict[str, t.Any],
    cause: str | None,
    findings: list[str],
) -> None:
    server[1].chat = said(**message)
    result = ready(run_module, server, reasoning=reasoning)
    assert (result["ready"], result["cause"] and result["cause"]["id"]) == (cause is None, cause)
    assert finding_ids(result) == findings


def test_a_tool_that_is_called_is_ready(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].tool = called('{"city": "Paris"}')
    assert ready(run_module, server, tool_call=True)["ready"]
    assert server[1].bodies[-1]["tool_choice"] == "auto"
    assert [tool["function"]["name"] for tool in server[1].bodies[-1]["tools"]] == ["get_weather"]


@pytest.mark.parametrize(
    ("tool", "cause", "words"),
    [
        (said("It is sunny."), "tool-call-missing", "tool-call-parser"),
        (said('<minimax:tool_call>\n<invoke name="get_weather">'), "tool-call-missing", "did not read"),
        (said('<tool_calls>\n{"name": "get_weather"'), "tool-call-missing", "chat template"),
        (called('{"city": Paris}'), "tool-call-invalid", "tool-call-parser"),
        (
            (400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice to be set'}}),
            "tool-call-missing",
            "enable-auto-tool-choice",
        ),
        ((500, {"error": "EngineDeadError"}), "completion-failed", "EngineDeadError"),
    ],
)
def test_a_tool_that_is_not_called_names_parser_and_template(
    run_module: Run, server: tuple[str, Behaviour], tool: tuple[int, dict[str, t.Any]], cause: str, words: str
) -> None:
    server[1].tool = tool
    result = ready(run_module, server, tool_call=True)
    assert (result.rc, result["ready"], result["cause"]["id"]) == (1, False, cause)
    assert words in result["msg"]


def test_a_model_that_still_thinks_about_a_tool_is_ready_with_a_warning(
    run_module: Run, server: tuple[str, Behaviour]
) -> None:
    server[1].tool = said(None, reasoning="The user wants the weather. Hm.", finish="length")
    result = ready(run_module, server, tool_call=True)
    assert (result["ready"], finding_ids(result)) == (True, ["tool-call-undecided"])
    server[1].tool = said("<tool_calls>", finish="length")
    assert ready(run_module, server, tool_call=True)["cause"]["id"] == "tool-call-missing"


def test_a_thinking_that_was_cut_off_is_no_nonsense(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].chat = said(None, reasoning="They ask for 2+3. I add", finish="length")
    result = ready(run_module, server, reasoning="split")
    assert (result["ready"], finding_ids(result)) == (True, ["smoke-cut-off"])
    assert result["findings"][0]["numbers"] == {"max_tokens": 2048}


@pytest.mark.parametrize(("context", "tokens"), [(196608, 2048), (1024, 512), (None, 2048)])
def test_the_answer_may_be_as_long_as_the_context_allows(
    run_module: Run, server: tuple[str, Behaviour], context: int | None, tokens: int
) -> None:
    server[1].max_model_len = context
    assert ready(run_module, server)["ready"]
    assert server[1].bodies[-1]["max_tokens"] == tokens


def test_a_connection_that_is_lost_in_the_smoke_test_is_tried_again(
    run_module: Run, server: tuple[str, Behaviour]
) -> None:
    server[1].drop_chats = 1
    assert ready(run_module, server)["ready"]
    assert [path for path, _key in server[1].seen].count("/health") == 2


def test_nonsense_is_asked_for_twice(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].chat, server[1].sampled = NONSENSE, said("It is 5.")
    assert ready(run_module, server)["ready"]
    assert [body.get("temperature") for body in server[1].bodies] == [0, 0, None]
    server[1].sampled = NONSENSE
    assert ready(run_module, server)["cause"]["id"] == "smoke-nonsense"


def test_tools_and_split_thinking_need_a_chat(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].chat = (400, {"error": "no chat template"})
    for params in ({"tool_call": True}, {"reasoning": "split"}):
        assert ready(run_module, server, **params)["cause"]["id"] == "chat-missing"


def test_without_smoke_nothing_else_is_asked(run_module: Run, server: tuple[str, Behaviour]) -> None:
    assert ready(run_module, server, smoke=False, tool_call=True, reasoning="split")["ready"]
    assert [body["max_tokens"] for body in server[1].bodies] == [1]


def test_without_smoke_one_token_is_enough(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].chat = (500, {})
    assert run_module("vllm_ready", {"url": server[0], "timeout": 5, "smoke": False})["ready"]


@pytest.mark.parametrize(
    ("choices", "answered"), [([{"text": "x"}], True), ([{"text": ""}], True), ([], False), (None, False)]
)
def test_without_smoke_an_answer_has_a_choice(
    run_module: Run, server: tuple[str, Behaviour], choices: list[t.Any] | None, answered: bool
) -> None:
    server[1].completion = (200, {"choices": choices, "usage": {"completion_tokens": 1}})
    result = ready(run_module, server, smoke=False)
    assert result["ready"] is answered
    assert (result["cause"] or {}).get("id") == (None if answered else "completion-failed")


def test_an_unhealthy_server_is_waited_for_until_the_timeout(run_module: Run, server: tuple[str, Behaviour]) -> None:
    server[1].health = 503
    result = run_module("vllm_ready", {"url": server[0], "timeout": 2, "poll": 1})
    assert (result.rc, result["cause"]["id"]) == (1, "timeout")
    assert "503" in result["msg"]


UNIT = """LoadState=loaded
ActiveState=active
SubState=running
Result=success
NRestarts=0
ExecMainCode=0
ExecMainStatus=0
InvocationID=0123456789abcdef
"""


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> t.Callable[[list[str]], None]:
    """systemctl and journalctl that know one running unit with these lines in its journal."""

    def make(lines: list[str]) -> None:
        journal = tmp_path / "journal"
        journal.write_text("".join(json.dumps({"__CURSOR": "c", "MESSAGE": line}) + "\n" for line in lines))
        (tmp_path / "unit").write_text(UNIT)
        for name, file in (("systemctl", "unit"), ("journalctl", "journal")):
            (tmp_path / name).write_text(f"#!/bin/sh\ncat {tmp_path / file}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return make


LOG = [
    "(Worker_TP0 pid=1) INFO 01-02 03:04:05 [r.py:1] Model loading took 107.4 GiB memory and 61.2 seconds",
    "(EngineCore pid=3) INFO 01-02 03:04:05 [k.py:1] GPU KV cache size: 399,616 tokens,"
    " Maximum concurrency for 196,608 tokens per request: 2.03x",
]


def test_what_the_engine_logs_is_compared_with_the_plan(
    run_module: Run, server: tuple[str, Behaviour], systemd: t.Callable[[list[str]], None]
) -> None:
    systemd(LOG)
    plan = {"weights_gib": 53.72, "kv_tokens": "434000", "max_concurrency": 2.2, "max_model_len": 196608}
    result = ready(run_module, server, unit="vllm-main", plan=plan)
    assert (result.rc, result["ready"], result["engine"]["kv_tokens"]) == (0, True, 399616)
    assert [(f["id"], f["severity"]) for f in result["findings"]] == [("plan-weights-differ", "warning")]
    assert result["findings"][0]["numbers"] == {"planned": 53.72, "real": 107.4, "share": 1.999}
    assert ready(run_module, server, unit="vllm-main")["findings"] == []


def test_progress_is_told_where_the_controller_looks(
    run_module: Run, server: tuple[str, Behaviour], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []

    class Recorder(waiting.ProgressFile):
        def tell(self, line: str) -> None:
            told.append((self._path, line))
            super().tell(line)
            told.append((self._path, json.loads(Path(self._path).read_text())["line"]))

    monkeypatch.setattr(waiting, "ProgressFile", Recorder)
    server[1].health = 503
    assert ready(run_module, server, timeout=2)["cause"]["id"] == "timeout"
    assert {line.partition(": ")[2] for _path, line in told} == {"/health: 503"}
    (path,) = {path for path, _line in told}
    assert path.endswith("/progress.json")
    assert not Path(path).exists()
    told.clear()
    ready(run_module, server, timeout=1, progress_interval=0)
    assert told == []


def test_check_mode_does_not_wait(run_module: Run) -> None:
    result = run_module("vllm_ready", {"url": "http://127.0.0.1:9", "timeout": 3600}, check=True)
    assert (result.rc, result["ready"], result["changed"]) == (0, None, False)


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": 90000}, "timeout is 90000"),
        ({"poll": 0}, "poll is 0"),
        ({"progress_interval": -1}, "progress_interval is -1"),
        ({"reasoning": "maybe"}, "reasoning"),
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
