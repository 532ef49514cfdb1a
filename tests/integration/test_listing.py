# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The listing over plain HTTP: where the token goes, what is no Hub, what is waited for, proxies and certificates."""

from __future__ import annotations

import http.server
import json
import ssl
import subprocess
import threading
import time
import typing as t
from pathlib import Path

import pytest
from hub_testing import REPO, Snapshot, finding, ids
from tiny_files import HTML, index, model, safetensors

API = "/api/models"


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every request with the server's ``answer``: (status, headers, body)."""

    def do_GET(self) -> None:
        """Answer, and remember what was asked for."""
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        status, headers, body = self.server.answer
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        """Answer as to GET, with a body that nobody reads."""
        self.do_GET()

    def log_message(self, format: str, *args: t.Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def other() -> t.Iterator[http.server.ThreadingHTTPServer]:
    """Another server than the Hub: a portal, a proxy, somebody who collects tokens."""
    server = http.server.ThreadingHTTPServer(("127.0.0.3", 0), Answers)
    server.seen, server.answer = [], (200, {"Content-Type": "text/html"}, HTML)
    server.url = f"http://127.0.0.3:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def plan(snapshot: Snapshot, **options: t.Any) -> dict[str, t.Any]:
    """Check mode, which needs the listing and nothing else."""
    return snapshot(check=True, **options)


# The token


def test_the_token_goes_to_the_hub_and_to_nobody_else(snapshot, hub, files) -> None:
    hub.token = "hf_right"
    # An index large enough for LFS comes from the CDN.
    big = index({f"m-{i}.safetensors": [f"t{i}." + "x" * 200] for i in range(80)})
    shards = {f"m-{i}.safetensors": safetensors({f"t{i}." + "x" * 200: 8}) for i in range(80)}
    hub.commit(REPO, {"config.json": b"{}", "model.safetensors.index.json": big, **shards})
    hub.repos[REPO].gated = True
    assert plan(snapshot, token="hf_right")["shards"]["expected"] == 80
    asked = hub.requests()
    assert [(r.role, r.method, r.token) for r in asked] == [
        ("hub", "GET", True),
        ("hub", "HEAD", True),
        ("hub", "GET", True),
        ("cdn", "GET", False),
    ]


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_to_another_host_does_not_carry_the_token(snapshot, hub, files, other, code) -> None:
    hub.fault(API, "status", code=code, headers={"Location": f"{other.url}/x"}, times=-1)
    result = snapshot.fails(check=True, token="hf_secret")
    assert finding(result, "not-a-hub")
    assert other.url in result["msg"], "the final address is named"
    assert other.seen == [("/x", None)]
    assert "hf_secret" not in json.dumps(result)


def test_a_renamed_repository_is_found_with_its_token(snapshot, hub, files) -> None:
    hub.token, hub.repos[REPO].private = "hf_right", True
    hub.renamed["old/name"] = REPO
    result = snapshot(repo_id="old/name", token="hf_right")
    assert result["shards"]["present"] == 4
    assert snapshot.holds(files)


@pytest.mark.parametrize("location", ["http://127.0.0.1:99999/x", "http://hub:port/x"])
def test_a_redirect_to_an_address_that_is_none_is_refused(snapshot, hub, files, location) -> None:
    hub.fault(API, "status", code=302, headers={"Location": location}, times=-1)
    result = snapshot.fails(check=True, token="hf_secret")
    assert location in finding(result, "not-a-hub")["message"]


def test_a_name_that_is_no_text_is_refused_before_more_is_asked(snapshot, other) -> None:
    listed = [{"rfilename": f"x\ud800.{kind}", "size": 1} for kind in ("json", "safetensors.index.json")]
    other.answer = (200, {}, json.dumps({"sha": "a" * 40, "gated": "manual", "siblings": listed}).encode())
    assert finding(snapshot.fails(check=True, endpoint=other.url), "unsafe-name")
    assert len(other.seen) == 1


def test_a_size_that_no_disk_has_is_refused(snapshot, other) -> None:
    sibling = {"rfilename": "config.json", "size": 10**400, "blobId": "b" * 40}
    other.answer = (200, {}, json.dumps({"sha": "a" * 40, "siblings": [sibling]}).encode())
    assert "without its size" in snapshot.fails(check=True, endpoint=other.url)["msg"]


def test_redirects_have_an_end(snapshot, hub, files) -> None:
    hub.renamed[REPO] = REPO
    result = snapshot.fails(check=True)
    assert finding(result, "not-a-hub")
    assert len(hub.requests()) == 5


def test_a_server_that_quotes_the_token_does_not_get_it_printed(snapshot, other) -> None:
    other.answer = (403, {"X-Error-Message": "no access with hf_secret"}, b"hf_secret")
    result = snapshot.fails(check=True, endpoint=other.url, token="hf_secret")
    assert "no access with ***" in result["msg"]
    assert "hf_secret" not in json.dumps(result)


@pytest.mark.parametrize("where", ["token_file", "environment"])
def test_a_token_comes_from_a_file_or_the_environment(snapshot, hub, files, tmp_path, monkeypatch, where) -> None:
    hub.token, hub.repos[REPO].private = "hf_right", True
    secret = tmp_path / "secret"
    secret.write_text("  hf_right\n\n")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong" if where == "token_file" else "hf_right\n")
    result = snapshot(**({"token_file": str(secret)} if where == "token_file" else {}))
    assert snapshot.holds(files)
    assert "hf_right" not in json.dumps(result)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"hf_one\nhf_two", "line break"),
        (b"hf_\xff\xfe", "outside ASCII"),
        (None, "No such file"),
    ],
)
def test_a_token_file_that_is_none_fails_without_its_content(snapshot, files, tmp_path, content, says) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_bytes(content)
    result = snapshot.fails(token_file=str(secret))
    assert says in result["msg"]
    assert str(secret) in result["msg"]
    assert "hf_" not in json.dumps(result)


# What is no Hub, and what is waited for


@pytest.mark.parametrize(
    "body",
    [
        HTML,
        b"",
        b"[]",
        b"{}",
        b"[" * 200_000,
        b'{"sha": "main", "siblings": []}',
        b'{"sha": "' + b"a" * 40 + b'", "siblings": 7}',
        b'{"sha": "' + b"a" * 40 + b'", "siblings": [7]}',
        b'{"sha": "' + b"a" * 40 + b'", "siblings": [{"rfilename": "x", "size": 1, "blobId": "z"}]}',
    ],
    ids=["html", "empty", "list", "object", "deep", "no-commit", "no-list", "no-file", "no-hash"],
)
def test_an_answer_that_is_no_listing_is_not_taken_for_one(snapshot, other, body) -> None:
    other.answer = (200, {"Content-Type": "application/json"}, body)
    result = snapshot.fails(check=True, endpoint=other.url)
    assert finding(result, "not-a-hub")
    assert len(other.seen) == 1
    assert not snapshot.dest.exists()


def test_a_listing_without_sizes_or_of_another_commit_is_refused(snapshot, hub, files, other) -> None:
    sibling = {"rfilename": "config.json", "blobId": "b" * 40}
    other.answer = (200, {}, json.dumps({"sha": "a" * 40, "siblings": [sibling]}).encode())
    assert "without its size" in snapshot.fails(check=True, endpoint=other.url)["msg"]
    result = snapshot.fails(check=True, endpoint=other.url, revision="d" * 40)
    assert "a" * 40 in finding(result, "not-a-hub")["message"]


def test_an_index_that_arrives_damaged_is_asked_for_again(snapshot, hub, files) -> None:
    fault = hub.fault(r"/resolve/.*index\.json", "status", code=200, body=HTML, ctype="text/html")
    assert ids(plan(snapshot)) == {"retried"}
    assert fault.hits == 1
    hub.fault(r"/resolve/.*index\.json", "cut", after=10)
    assert "retried" in ids(plan(snapshot))
    hub.fault(r"/resolve/.*index\.json", "status", code=200, body=HTML, times=-1)
    assert "index.json" in finding(snapshot.fails(check=True), "corrupt")["message"]


@pytest.mark.case("rate-limit-429")
@pytest.mark.parametrize("headers", [{"Retry-After": "2"}, {"RateLimit": '"api";r=0;t=2'}])
def test_the_time_that_the_hub_asks_for_is_waited(snapshot, hub, files, headers) -> None:
    hub.fault(API, "status", code=429, headers=headers)
    assert ids(plan(snapshot)) == {"retried"}
    first, second = hub.requests(API)
    assert second.at - first.at >= 2


def test_a_hub_that_hangs_is_left_in_time(snapshot, hub, files) -> None:
    hub.fault(API, "delay", seconds=5)
    started = time.monotonic()
    assert "retried" in ids(plan(snapshot, stall_timeout=1))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("revision", ["feature/x", "v1.0#a b", "refs/pr/1"])
def test_a_revision_may_have_any_characters(snapshot, hub, revision) -> None:
    hub.commit(REPO, model(), ref=revision)
    assert plan(snapshot, revision=revision)["shards"]["expected"] == 4


# Proxies and certificates


def test_the_proxy_of_the_environment_is_used(snapshot, other, monkeypatch) -> None:
    other.answer = (502, {}, b"")
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, other.url)
    assert finding(snapshot.fails(check=True, endpoint="http://hub.invalid", retries=0), "hub-busy")
    assert other.seen[0][0].startswith("http://hub.invalid/api/models/")
    monkeypatch.setenv("no_proxy", "hub.invalid")
    assert finding(snapshot.fails(check=True, endpoint="http://hub.invalid", retries=0), "connection")


@pytest.mark.parametrize("proxy", ["http://me:sec#ret@127.0.0.1:1", "http://me:s3/cr3t@127.0.0.1:1"])
def test_the_password_of_a_proxy_is_not_printed(snapshot, files, monkeypatch, proxy) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    text = json.dumps(snapshot.fails(check=True, retries=0))
    assert "sec#" not in text
    assert "'sec'" not in text
    assert "cr3t" not in text
    assert "s3" not in text


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key; the environment names no other."""
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    pem = tmp_path / "ca.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=hub -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-keyout", f"{pem}.key", "-out", str(pem)], check=True, capture_output=True)
    return pem


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", None])
def test_the_authority_of_the_environment_is_trusted(snapshot, hub, files, authority, monkeypatch, variable) -> None:
    server = hub._servers[0]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, f"{authority}.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    endpoint = hub.endpoint.replace("http:", "https:")
    if variable:
        monkeypatch.setenv(variable, str(authority))
        assert plan(snapshot, endpoint=endpoint)["shards"]["expected"] == 4
    else:
        result = snapshot.fails(check=True, endpoint=endpoint)
        assert "SSL_CERT_FILE" in finding(result, "certificate")["remedy"]


def test_https_is_not_given_up_for_http(snapshot, hub, files, authority, monkeypatch, other) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, f"{authority}.key")
    server = hub._servers[0]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    hub.fault(API, "status", code=302, headers={"Location": f"{other.url}/x"}, times=-1)
    assert finding(snapshot.fails(check=True, endpoint=hub.endpoint.replace("http:", "https:")), "not-a-hub")
    assert other.seen == []


def test_a_login_file_of_the_user_is_not_read(snapshot, hub, files, tmp_path, monkeypatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password hidden\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    plan(snapshot)
    assert not any(r.token for r in hub.requests())
