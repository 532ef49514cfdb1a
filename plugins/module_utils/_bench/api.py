# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The few requests that this collection sends itself: readiness, warm-up, model list, counters.

Standard library only.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
import typing as t
import urllib.parse
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .._key import bearer
from .streams import PATHS, Endpoint, EventReader, Stream, request_body

# Enough for an error text; a page of counters of a large server has a few hundred KiB.
_MAX_ERROR_BYTES: t.Final = 2000
_MAX_PAGE_BYTES: t.Final = 32 * 2**20
_READ_BYTES: t.Final = 2**16
_PLACE_TIMEOUT_S: t.Final = 5.0

Place = t.Literal["loopback", "same host", "remote"]


@dataclass(frozen=True)
class Server:
    """Where requests go. ``api_key`` is sent as a bearer token and shown nowhere, not even in a repr."""

    url: str
    api_key: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """The name or address in the URL."""
        return urllib.parse.urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port in the URL, or its scheme's."""
        parts = urllib.parse.urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def loopback(self) -> bool:
        """True when the server is on this machine by its address."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def place(self) -> Place:
        """Where the client is: on the server's host, through loopback or not, or elsewhere."""
        if self.loopback:
            return "loopback"
        try:
            with socket.create_connection((self.host, self.port), timeout=_PLACE_TIMEOUT_S) as connection:
                # A connection to an address of this host comes from the same address.
                same = connection.getsockname()[0] == connection.getpeername()[0]
        except OSError:
            same = False
        return "same host" if same else "remote"


def normalise_url(url: str, option: str = "url") -> str:
    """The server's root: without a trailing slash and without ``/v1``. Raises ModelopsError for anything else than
    an absolute http(s) URL, and for one that carries a password; ``option`` is what the message calls it."""
    try:
        parts = urllib.parse.urlsplit(url.strip())
        port_ok = parts.port is None or 0 < parts.port < 65536
    except ValueError:
        # A bracket that is not closed, or a port that is no number: nothing of it is known to be no password.
        raise ModelopsError(
            f"{option} must be the server's root, but is no URL.", "Use for example http://127.0.0.1:8000."
        ) from None
    known = parts.scheme in ("http", "https") and parts.hostname and port_ok
    # What urlsplit takes for a name may have spaces, which no host has.
    if not known or parts.query or parts.fragment or any(c.isspace() for c in parts.netloc + parts.path):
        shown = f"{parts.scheme}://{parts.hostname or ''}"
        raise ModelopsError(
            f"{option} must be the server's root, but is {shown}...", "Use for example http://127.0.0.1:8000."
        )
    if parts.username or parts.password:
        raise ModelopsError(f"{option} holds a user name or a password, which would end up in logs.", "Use api_key.")
    path = parts.path.rstrip("/")
    path = path[: -len("/v1")] if path.endswith("/v1") else path
    return f"{parts.scheme}://{parts.netloc}{path}"


def _open(server: Server, timeout: float) -> tuple[http.client.HTTPConnection, str]:
    parts = urllib.parse.urlsplit(server.url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context), parts.path
    return http.client.HTTPConnection(host, parts.port, timeout=timeout), parts.path


def get(server: Server, path: str, timeout: float = 10.0) -> tuple[int, str]:
    """Status and text of a GET; status 0 and the reason when there was no answer."""
    connection, prefix = _open(server, timeout)
    try:
        connection.request("GET", prefix + path, headers=bearer(server.api_key))
        response = connection.getresponse()
        return response.status, response.read(_MAX_PAGE_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as e:
        return 0, f"{type(e).__name__}: {e}"
    finally:
        connection.close()


def get_json(server: Server, path: str, timeout: float = 10.0) -> tuple[int, t.Any]:
    """Status and document of a GET; the document is None when the body is no JSON."""
    status, text = get(server, path, timeout)
    try:
        return status, json.loads(text)
    except ValueError:
        return status, None


def post_json(server: Server, path: str, body: t.Mapping[str, t.Any], timeout: float = 10.0) -> tuple[int, t.Any]:
    """Status and document of a POST; the document is None when the body is no JSON, status 0 without an answer."""
    connection, prefix = _open(server, timeout)
    headers = {"Content-Type": "application/json", **bearer(server.api_key)}
    try:
        connection.request("POST", prefix + path, json.dumps(body), headers)
        response = connection.getresponse()
        status, text = response.status, response.read(_MAX_PAGE_BYTES)
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, None


def complete(
    server: Server, model: str, prompt: str, max_tokens: int, timeout: float, *, endpoint: Endpoint = "completions"
) -> Stream:
    """Send one greedy streamed request and read it to the end; never raises for what the server does."""
    stream = Stream()
    connection, prefix = _open(server, timeout)
    begin = time.perf_counter()
    try:
        headers = {"Content-Type": "application/json", **bearer(server.api_key)}
        body = json.dumps(request_body(endpoint, model, prompt, max_tokens))
        connection.request("POST", prefix + PATHS[endpoint], body, headers)
        response = connection.getresponse()
        stream.status = response.status
        if response.status != 200:
            text = response.read(_MAX_ERROR_BYTES).decode("utf-8", "replace")
            return stream.fail("http-error", f"HTTP {response.status} {response.reason}: {text[:300]}")
        _read(response, stream, begin, timeout)
    except (OSError, http.client.HTTPException) as e:
        return stream.fail("no-answer", f"{type(e).__name__}: {e}")
    finally:
        connection.close()
    return stream.close(max_tokens)


def _read(response: http.client.HTTPResponse, stream: Stream, begin: float, timeout: float) -> None:
    reader = EventReader()
    while True:
        data = response.read1(_READ_BYTES)
        at = time.perf_counter() - begin
        if at > timeout:
            # Keep-alives would hold a reader for ever.
            raise TimeoutError("the stream was not complete in time")
        for event in reader.feed(data, last=not data):
            if not stream.take(event, at):
                return
        if not data:
            return
