"""A small OpenAI-style server on loopback that streams completions at a set pace, with faults. Standard library only.

It stands in for vLLM where the tests need a server that misbehaves on purpose: paced tokens, the counters of vLLM at
/metrics, and one of FAULTS on every n-th completion. It stops by itself.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import threading
import time
import typing as t
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = (
    "http_500",  # an answer of status 500
    "error_event",  # status 200, then an error object inside the stream
    "cut",  # the stream ends cleanly after a quarter of the tokens: no finish reason, no usage, no [DONE]
    "no_usage",  # a whole stream without usage
    "early_stop",  # the model stops after a quarter of the tokens, and says so
    "ping",  # keep-alive comments of their own between the tokens
    "reset",  # the connection is reset in the middle
    "hang",  # nothing comes after the headers, for twenty seconds or until the server is closed
)

# What vLLM would count as the reason for the end; a request that it never took is not counted.
REASONS = {
    "http_500": "",
    "error_event": "error",
    "cut": "abort",
    "reset": "abort",
    "hang": "abort",
    "early_stop": "stop",
}


@dataclass
class Behaviour:
    """What the server does. ``fault`` hits every ``every``-th completion after the first ``healthy`` ones."""

    model: str = "mock"
    max_model_len: int = 4096
    version: str = "0.32.0"
    api_key: str = ""
    first_token_s: float = 0.0
    token_s: float = 0.0
    tokens_per_event: int = 1
    fault: str = ""
    every: int = 1
    healthy: int = 0
    metrics: bool = True
    metrics_still: bool = False
    prefix_hit_rate: float = 0.0
    foreign_tokens: int = 0  # counted with each completion as if somebody else had asked, too
    preemptions: int = 0  # counted with each completion
    busy: int = 0  # requests that seem to run all the time
    restart_after: int = 0  # the process seems to be a new one after so many completions
    role_early: bool = False  # the role of a chat comes at once, as from a frontend, and not with the first token
    reasoning: int = 0  # so many of a chat's tokens are reasoning
    bare_end: bool = False  # the finish reason comes in an event of its own, without text
    tokenize: bool = False  # /tokenize answers: each character is a token


@dataclass
class Counters:
    """What vLLM would have counted."""

    finished: dict[str, int] = field(default_factory=lambda: {"length": 0, "stop": 0, "abort": 0, "error": 0})
    requests: int = 0
    generation_tokens: int = 0
    prompt_tokens: int = 0
    prefix_hits: float = 0.0
    preemptions: int = 0
    running: int = 0
    seen: int = 0
    prompts: list[str] = field(default_factory=list)
    salts: list[str] = field(default_factory=list)  # the cache_salt of each prompt
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Clients that give up, and connections that a fault reset, are part of the tests."""


class MockOpenAI:
    """The server as a context manager; ``url`` once it is up, ``counters`` for assertions."""

    def __init__(self, port: int = 0, **behaviour: t.Any) -> None:
        self.behaviour = Behaviour(**behaviour)
        if self.behaviour.fault not in ("", *FAULTS):
            raise ValueError(f"unknown fault {self.behaviour.fault!r}")
        self.counters = Counters()
        self._closed = threading.Event()
        self._server = _Quiet(("127.0.0.1", port), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> MockOpenAI:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_args: object) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def metrics(self) -> str:
        """The page that vLLM would show, as far as the benchmark reads it."""
        b, c = self.behaviour, self.counters
        moved = 0 if b.metrics_still else 1
        start = 1000.0 + (1 if b.restart_after and c.seen > b.restart_after else 0)
        lines = [
            f"process_start_time_seconds {start}",
            f'vllm:num_requests_running{{engine="0"}} {c.running + b.busy}',
            'vllm:num_requests_waiting{engine="0"} 0.0',
            'vllm:kv_cache_usage_perc{engine="0"} 0.25',
            *(
                f'vllm:request_success_total{{engine="0",finished_reason="{reason}"}} {moved * count}'
                for reason, count in c.finished.items()
            ),
            f'vllm:generation_tokens_total{{engine="0"}} {moved * c.generation_tokens}',
            f'vllm:prompt_tokens_total{{engine="0"}} {moved * c.prompt_tokens}',
            f'vllm:prefix_cache_queries_total{{engine="0"}} {c.prompt_tokens}',
            f'vllm:prefix_cache_hits_total{{engine="0"}} {c.prefix_hits}',
            f'vllm:num_preemptions_total{{engine="0"}} {c.preemptions}',
            f'vllm:request_queue_time_seconds_sum{{engine="0"}} {0.0001 * c.requests}',
            f'vllm:request_queue_time_seconds_count{{engine="0"}} {c.requests}',
            'vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True"} 1.0',
        ]
        return "\n".join(lines) + "\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        mock = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # As asyncio's servers do: else small writes wait for the delayed acknowledgement of the one before.
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: object) -> None:
                pass

            def _send(self, status: int, body: str, kind: str = "application/json") -> None:
                data = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _allowed(self) -> bool:
                key = mock.behaviour.api_key
                if not key or self.headers.get("Authorization") == f"Bearer {key}":
                    return True
                self._send(401, '{"error": "Unauthorized"}')
                return False

            def do_GET(self) -> None:
                b = mock.behaviour
                if self.path == "/metrics" and b.metrics:
                    self._send(200, mock.metrics(), "text/plain")
                elif self.path == "/version":
                    self._send(200, json.dumps({"version": b.version}))
                elif self.path == "/v1/models" and self._allowed():
                    entry = {"id": b.model, "object": "model", "max_model_len": b.max_model_len}
                    self._send(200, json.dumps({"object": "list", "data": [entry]}))
                elif self.path != "/v1/models":
                    self._send(404, '{"detail": "Not Found"}')

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                if self.path == "/tokenize" and mock.behaviour.tokenize:
                    tokens = [ord(character) for character in body["prompt"]]
                    self._send(200, json.dumps({"count": len(tokens), "tokens": tokens}))
                elif self.path not in ("/v1/completions", "/v1/chat/completions"):
                    self._send(404, '{"detail": "Not Found"}')
                elif self._allowed():
                    mock.complete(self, body)

        return Handler

    def complete(self, handler: t.Any, body: dict[str, t.Any]) -> None:
        """Answer one streamed completion, with the fault if it is its turn."""
        b, c = self.behaviour, self.counters
        wanted = int(body.get("max_tokens") or body["max_completion_tokens"])
        prompt = prompt_of(body)
        with c.lock:
            c.seen += 1
            turn = c.seen - b.healthy
            c.running += 1
            c.prompts.append(prompt if isinstance(prompt, str) else json.dumps(prompt))
            c.salts.append(body.get("cache_salt", ""))
        fault = b.fault if turn > 0 and turn % b.every == 0 else ""
        try:
            tokens = self._stream(handler, body, wanted, fault)
        finally:
            with c.lock:
                c.running -= 1
        with c.lock:
            c.requests += 1
            reason = REASONS.get(fault, "length")
            if reason:
                c.finished[reason] += 1
            c.finished["length"] += bool(b.foreign_tokens)
            c.generation_tokens += tokens + b.foreign_tokens
            c.prompt_tokens += len(prompt)
            c.prefix_hits += b.prefix_hit_rate * len(prompt)
            c.preemptions += b.preemptions

    def _stream(self, handler: t.Any, body: dict[str, t.Any], wanted: int, fault: str) -> int:
        if fault == "http_500":
            handler._send(500, '{"error": "injected"}')
            return 0
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()

        def chunk(text: str) -> None:
            data = text.encode()
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            handler.wfile.flush()

        def event(payload: t.Any) -> None:
            chunk(f"data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n")

        if fault == "hang":
            self._closed.wait(20)
            handler.close_connection = True
            return 0
        chat = "messages" in body
        if chat and self.behaviour.role_early:
            event(_delta({"role": "assistant", "content": ""}))
        short = fault in ("cut", "early_stop", "error_event", "reset")
        tokens = max(1, wanted // 4) if short else wanted
        time.sleep(self.behaviour.first_token_s)
        if chat and not self.behaviour.role_early:
            event(_delta({"role": "assistant", "content": ""}))
        sent = 0
        while sent < tokens:
            step = min(self.behaviour.tokens_per_event, tokens - sent)
            if sent:
                time.sleep(self.behaviour.token_s * step)
            sent += step
            reason = None
            if sent == tokens and fault not in ("cut", "error_event", "reset"):
                reason = "stop" if fault == "early_stop" else "length"
            if fault == "ping":
                chunk(": ping\n\n")
            last = None if self.behaviour.bare_end else reason
            if chat:
                name = "reasoning" if sent <= self.behaviour.reasoning else "content"
                event(_delta({name: "word " * step}, last))
            else:
                event(_text("word " * step, last))
            if reason and self.behaviour.bare_end:
                event(_delta({"content": ""}, reason) if chat else _text("", reason))
        if fault == "reset":
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
            handler.close_connection = True
            return sent
        if fault == "error_event":
            event({"error": {"message": "injected", "code": 500}})
        if fault not in ("cut", "no_usage", "error_event"):
            usage = {"prompt_tokens": len(prompt_of(body)), "completion_tokens": sent}
            event({"choices": [], "usage": usage})
        if fault != "cut":
            event("[DONE]")
        handler.wfile.write(b"0\r\n\r\n")
        return sent


def prompt_of(body: dict[str, t.Any]) -> t.Any:
    """The text or the token ids that were asked; each character, or id, counts as a token."""
    return body["prompt"] if "prompt" in body else body["messages"][0]["content"]


def _text(text: str, reason: str | None) -> dict[str, t.Any]:
    return {"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": reason}]}


def _delta(delta: dict[str, t.Any], reason: str | None = None) -> dict[str, t.Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def main() -> None:
    """Serve until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--fault", default="", choices=["", *FAULTS])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--healthy", type=int, default=0)
    parser.add_argument("--model", default="mock")
    parser.add_argument("--first-token-s", type=float, default=0.05)
    parser.add_argument("--token-s", type=float, default=0.01)
    parser.add_argument("--tokens-per-event", type=int, default=1)
    options = vars(parser.parse_args())
    seconds = options.pop("seconds")
    with MockOpenAI(**options) as mock:
        print(mock.url, flush=True)
        time.sleep(seconds)


if __name__ == "__main__":
    main()
