# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request, to servers that answer badly: whatever they send is a reply, never an exception."""

from __future__ import annotations

import contextlib
import socket
import threading
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve.probe import Reply, requester

HEAD = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nConnection: close\r\n"


@contextlib.contextmanager
def server(sent: bytes) -> t.Iterator[str]:
    """Sends this to the first who asks, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)

        def serve() -> None:
            with listening.accept()[0] as client:
                client.recv(65536)
                client.sendall(sent)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(30)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        pytest.param(HEAD % b"200 OK" + b"Content-Length: 2\r\n\r\n{}", 200, "{}", id="well"),
        pytest.param(HEAD % b"503 Busy" + b"Content-Length: 4\r\n\r\nbusy", 503, "busy", id="refused"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", 0, "SSH-2.0-OpenSSH_9.2", id="no HTTP"),
        pytest.param(
            HEAD % b"200 OK" + b"Transfer-Encoding: chunked\r\n\r\n40\r\n{", 0, "IncompleteRead", id="died within"
        ),
        pytest.param(
            HEAD % b"500 Oops" + b"Transfer-Encoding: chunked\r\n\r\n40\r\n{", 500, "", id="died within a refusal"
        ),
        pytest.param(
            HEAD % b"200 OK" + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 0, "IncompleteRead", id="odd chunk"
        ),
        pytest.param(b"", 0, "Remote end closed connection without response", id="hung up"),
    ],
)
def test_whatever_is_sent_is_a_reply(sent: bytes, status: int, body: str) -> None:
    with server(sent) as url:
        reply = requester(url, "key")("/health", None, 10.0)
    assert reply.status == status
    assert body in reply.body
    assert not reply.timed_out


@pytest.mark.parametrize("key", ["sk-1\nsk-2", "sk-1-ü"])
def test_a_key_that_no_header_holds_is_a_reply_that_does_not_show_it(key: str) -> None:
    reply = requester("http://127.0.0.1:9", key)("/health", None, 1.0)
    assert reply.status == 0
    assert reply.body.startswith("No header can hold api_key, which has a control character")
    assert "sk-" not in reply.body


def test_an_address_that_is_none_is_a_reply() -> None:
    reply = requester("http://127.0.0.1:port", None)("/health", None, 1.0)
    assert isinstance(reply, Reply)
    assert reply.status == 0
    assert reply.body
