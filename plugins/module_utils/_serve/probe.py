# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One HTTP request to a running server, and what a look at it can find."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass
from http.client import HTTPException
from urllib.error import HTTPError, URLError

from ansible.module_utils.urls import open_url

from .._errors import ModelopsError
from .._findings import Finding
from .._key import bearer
from .causes import Cause

Stage: t.TypeAlias = t.Literal["connect", "health", "models", "completion", "smoke", "group", "ready"]
_BODY_LIMIT = 1 << 20


@dataclass(frozen=True)
class Answer:
    """How far a server came. ``cause`` is set when waiting longer cannot help, ``findings`` when it is ready."""

    stage: Stage
    detail: str = ""
    cause: Cause | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Reply:
    """One HTTP reply; status 0 when there was none, then ``body`` says why."""

    status: int
    body: str
    timed_out: bool = False

    def json(self) -> dict[str, t.Any]:
        """The body as an object; empty when it is none."""
        try:
            decoded = json.loads(self.body)
        except ValueError:
            return {}
        return decoded if isinstance(decoded, dict) else {}

    @property
    def text(self) -> str:
        """Status and body for a message."""
        return f"HTTP {self.status} {self.body[:300]!r}" if self.status else self.body


Request: t.TypeAlias = t.Callable[[str, "dict[str, t.Any] | None", float], Reply]


def requester(url: str, api_key: str | None) -> Request:
    """A function ``(path, body, seconds) -> Reply`` for this server. The key travels in a header only."""

    def request(path: str, body: dict[str, t.Any] | None, seconds: float) -> Reply:
        data = None if body is None else json.dumps(body)
        try:
            with open_url(
                url.rstrip("/") + path,
                data=data,
                headers={"Content-Type": "application/json", **bearer(api_key)},
                method="GET" if body is None else "POST",
                timeout=seconds,
                use_proxy=False,
                follow_redirects="none",
            ) as response:
                return Reply(response.getcode(), response.read(_BODY_LIMIT).decode("utf-8", "replace"))
        except HTTPError as e:
            return Reply(e.code, _body_of(e))
        except ModelopsError as e:
            return Reply(0, str(e))
        # A TimeoutError is an OSError. Something that speaks no HTTP, or dies within its reply, is an HTTPException.
        except (URLError, OSError, HTTPException, ValueError) as e:
            reason = getattr(e, "reason", e)
            timed_out = isinstance(reason, TimeoutError) or "timed out" in str(reason)
            text = str(reason) or type(e).__name__
            return Reply(0, f"no answer within {seconds:.0f} s" if timed_out else text, timed_out)

    return request


def _body_of(error: HTTPError) -> str:
    """What the server says to its refusal; empty when it dies while it says so."""
    try:
        return error.read(_BODY_LIMIT).decode("utf-8", "replace") if error.fp else ""
    except (OSError, HTTPException, ValueError):
        return ""
