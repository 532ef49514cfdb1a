# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import http.client
import io
import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub import web


class Response(io.BytesIO):
    def __init__(self, body: bytes, **headers: str) -> None:
        super().__init__(body)
        self.headers = {k.replace("_", "-"): v for k, v in headers.items()}


def test_an_answer_is_read_up_to_its_limit_and_its_length() -> None:
    assert web._read(Response(b"abc", Content_Length="3"), 3) == b"abc"
    assert web._read(Response(b""), 0) == b""
    with pytest.raises(ValueError, match="more than 2 bytes"):
        web._read(Response(b"abc"), 2)
    with pytest.raises(http.client.IncompleteRead):
        web._read(Response(b"abc", Content_Length="4"), 10)


def test_a_server_that_drips_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_DEADLINE", -1.0)
    with pytest.raises(TimeoutError):
        web._read(Response(b"abc"), 10)


@pytest.mark.parametrize(
    ("url", "target", "same"),
    [
        ("https://hub/a", "https://hub/b", True),
        ("https://hub/a", "https://hub:443/b", True),
        ("http://hub/a", "https://hub/a", True),
        ("https://hub/a", "https://cdn.hub/a", False),
        ("https://hub/a", "https://hub:8443/a", False),
        ("http://hub:8080/a", "https://hub/a", False),
        ("http://hub:8080/a", "http://hub:8081/a", False),
        ("https://hub/a", "https://hub@evil/a", False),
    ],
)
def test_a_token_stays_with_its_host(url: str, target: str, same: bool) -> None:
    assert web._same_site(url, target) is same


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/new/name?x=1", "https://hub/new/name?x=1"),
        ("https://cdn/a b%20c", "https://cdn/a%20b%20c"),
        ("http://hub/a", None),
        ("file:///etc/passwd", None),
        ("https://cdn:99999/a", None),
        ("https://cdn:port/a", None),
        ("https://[::1/a", None),
        ("//other/x", "https://other/x"),
    ],
)
def test_where_a_redirect_leads(location: str, target: str | None) -> None:
    answer = web.Answer("https://hub/old", 302, {"location": location}, b"")
    if target:
        assert web._redirect(answer) == target
    else:
        with pytest.raises(web.WebError, match="refused"):
            web._redirect(answer)


@pytest.mark.parametrize(
    ("status", "headers", "name"),
    [
        (403, {"x-error-code": "GatedRepo"}, "GatedRepoError"),
        (404, {"x-error-code": "RepoNotFound"}, "RepositoryNotFoundError"),
        (404, {"x-error-code": "RevisionNotFound"}, "RevisionNotFoundError"),
        (404, {"x-error-code": "EntryNotFound"}, "EntryNotFoundError"),
        (401, {}, "RepositoryNotFoundError"),
        (401, {"x-error-message": "Invalid credentials in Authorization header"}, "HTTPError"),
        (404, {}, "HTTPError"),
        (500, {"x-error-code": "Unknown"}, "HTTPError"),
    ],
)
def test_a_refusal_has_the_name_that_huggingface_hub_gives_it(status: int, headers: t.Any, name: str) -> None:
    link = web._refusal("GET", "https://hub/x", status, "No", headers)
    assert link["classes"][0] == name
    assert link["status"] == status
    assert f"{status} No for GET https://hub/x" in link["text"]
