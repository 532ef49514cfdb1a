# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the worker tells of an exception; the rest of it is tested with real clients in tests/integration."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._hub.worker import describe, hide, wait_of


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, "7"),
        ({"ratelimit": '"api";r=0;t=55'}, "55"),
        ({"retry-after": "7", "ratelimit": '"api";r=0;t=55'}, "7"),
        ({"ratelimit": '"api";r=0;start=55'}, None),
    ],
)
@pytest.mark.case("rate-limit-429")
def test_the_wait_is_what_the_hub_asks_for(headers: dict[str, str], seconds: str | None) -> None:
    assert wait_of(headers) == seconds


@pytest.mark.parametrize(
    ("variable", "value", "text", "hidden"),
    [
        ("http_proxy", "http://me:s3cr3t@proxy:3128", "by http://me:s3cr3t@proxy:3128", "by http://***@proxy:3128"),
        ("HTTPS_PROXY", "me:s3cr3t@proxy", "no port: 's3cr3t@proxy'", "no port: '***@proxy'"),
        ("all_proxy", "http://me:sec#ret@proxy:1", "Invalid port: 'sec'", "Invalid port: ***"),
        ("ALL_PROXY", "http://me:s/cr3t@proxy:1", "nonnumeric port: 's' of me", "nonnumeric port: *** of me"),
        ("http_proxy", "http://me:p%40ss@proxy", "wrong: p@ss, p%40ss", "wrong: ***, ***"),
        ("http_proxy", "http://t0ken@proxy", "t0ken at proxy", "*** at proxy"),
        ("http_proxy", "http://proxy:3128", "by http://proxy:3128", "by http://proxy:3128"),
        ("no_proxy", "hub,proxy", "hub, proxy", "hub, proxy"),
        ("OTHER", "http://me:s3cr3t@proxy", "s3cr3t", "s3cr3t"),
    ],
)
def test_the_password_of_a_proxy_is_not_told(variable, value, text, hidden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    assert hide(text) == hidden
    assert describe(OSError(text))[0]["text"] == hidden


def test_causes_are_told_outermost_first_and_without_the_token() -> None:
    class RefusedError(OSError):
        response = SimpleNamespace(status_code=429, headers={"retry-after": "3"})

    inner, refused = ConnectionResetError(104, "reset by hf_secret"), RefusedError("Bearer hf_secret was refused")
    refused.__cause__ = inner
    outer, cause = describe(refused, "hf_secret")
    assert outer["classes"][:2] == ["RefusedError", "OSError"]
    assert (outer["text"], outer["status"], outer["retry_after"]) == ("Bearer *** was refused", 429, "3")
    assert (cause["classes"][0], cause["errno"]) == ("ConnectionResetError", 104)
    assert "hf_secret" not in cause["text"]
