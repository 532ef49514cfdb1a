# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""One question to a Hub over plain HTTP: bounded in time and size, and the token stays with the host it is for."""

from __future__ import annotations

import http.client
import os
import time
import typing as t
import urllib.error
import urllib.parse
from dataclasses import dataclass

from .errors import Chain
from .worker import hide, wait_of

_HOPS = 5
_REDIRECTS = {301, 302, 303, 307, 308}
_BLOCK = 1 << 20

# A timeout is for one read. A server that sends a byte now and then ends here, in seconds.
_DEADLINE = 300.0

# What the Hub writes in X-Error-Code, and what huggingface_hub makes of it (utils/_http.py, hf_raise_for_status).
_ERROR_CODES = {
    "GatedRepo": "GatedRepoError",
    "RepoNotFound": "RepositoryNotFoundError",
    "RevisionNotFound": "RevisionNotFoundError",
    "EntryNotFound": "EntryNotFoundError",
}

# The first that names a file decides: what OpenSSL and httpx read (huggingface_hub 1.x and 2.x), then what requests
# does (0.x). Without one of them the authorities of the system count.
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class WebError(Exception):
    """No answer, or a refusal; ``chain`` has the form that the worker reports for an exception."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain[0]["text"])
        self.chain = chain


@dataclass(frozen=True)
class Answer:
    """What came back, from the last address of a chain of redirects."""

    url: str
    status: int
    headers: t.Mapping[str, str]
    body: bytes


def ask(
    method: str, url: str, *, token: str = "", limit: int = 0, timeout: float = 30.0, leave_host: bool = True
) -> Answer:
    """The answer to GET or HEAD, of at most ``limit`` bytes; ``timeout`` in seconds is for one read.

    Redirects are followed. The token goes to the host that it is for and to no other, and a redirect from https to
    http is refused. With ``leave_host`` false a redirect to another host is the answer. Raises :class:`WebError`,
    whose texts are free of the token.
    """
    try:
        return _follow(method, url, token, limit=limit, timeout=timeout, leave_host=leave_host)
    except WebError as e:
        raise WebError([{**link, "text": hide(str(link["text"]), token)} for link in e.chain]) from None


def _follow(method: str, url: str, token: str, *, limit: int, timeout: float, leave_host: bool) -> Answer:
    for _hop in range(_HOPS):
        answer = _one(method, url, token, limit, timeout)
        target = _redirect(answer)
        if not target:
            return answer
        if not _same_site(url, target):
            if not leave_host:
                return answer
            token = ""
        url = target
    raise WebError([_link(["FileMetadataError"], f"{url} is reached after {_HOPS} redirects and is one itself")])


def _one(method: str, url: str, token: str, limit: int, timeout: float) -> Answer:
    """One exchange; a redirect is an answer."""
    # A run with nothing to do asks nothing, and saves the time that this import takes.
    from ansible.module_utils import urls  # noqa: PLC0415

    try:
        with urls.open_url(
            url,
            method=method,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            unredirected_headers=["Authorization"],
            http_agent="modelops.vllm",
            timeout=timeout,
            ca_path=_authorities(),
            follow_redirects="none",
            decompress=False,
            use_netrc=False,
        ) as response:
            body = _read(response, limit) if method == "GET" else b""
            return Answer(url, response.status, _headers(response.headers), body)
    except urllib.error.HTTPError as e:
        with e:
            headers = _headers(e.headers)
        if e.code in _REDIRECTS and "location" in headers:
            return Answer(url, e.code, headers, b"")
        raise WebError([_refusal(method, url, e.code, str(e.reason), headers)]) from None
    except (OSError, http.client.HTTPException, urls.ConnectionError, ValueError) as e:
        raise WebError(_broken(e, url)) from None


def _headers(message: t.Any) -> dict[str, str]:
    return {name.lower(): value for name, value in message.items()}


def _authorities() -> str | None:
    """The file of authorities that the environment names."""
    named = (os.environ.get(name, "") for name in _CA_VARIABLES)
    return next((path for path in named if os.path.isfile(path)), None)


def _read(response: t.Any, limit: int) -> bytes:
    end = time.monotonic() + _DEADLINE
    parts, size = [], 0
    while block := response.read1(_BLOCK):
        parts.append(block)
        size += len(block)
        if size > limit:
            raise ValueError(f"the answer has more than {limit} bytes")
        if time.monotonic() > end:
            raise TimeoutError(f"the answer was not complete after {_DEADLINE:.0f} s")
    announced = response.headers.get("Content-Length", "")
    if announced.isdigit() and int(announced) != size:
        raise http.client.IncompleteRead(b"", int(announced) - size)
    return b"".join(parts)


def _redirect(answer: Answer) -> str:
    """Where an answer leads to, empty when it is none of a redirect."""
    if answer.status not in _REDIRECTS:
        return ""
    location = answer.headers["location"]
    try:
        # A Location may hold spaces and other characters that a request must not.
        target = urllib.parse.quote(urllib.parse.urljoin(answer.url, location), safe="%/:=&?~#+!$,;'@()*[]")
        parts = urllib.parse.urlsplit(target)
        right = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, half of an IPv6 address
        target, right = location, False
    downgrade = answer.url.startswith("https:") and target.startswith("http:")
    if not right or downgrade or parts.scheme not in ("http", "https"):
        raise WebError([_link(["FileMetadataError"], f"{answer.url} redirects to {target}, which is refused")])
    return target


def _same_site(url: str, target: str) -> bool:
    """Whether a token for one address may go to the other: the same host and port, or its https."""
    a, b = urllib.parse.urlsplit(url), urllib.parse.urlsplit(target)
    if a.hostname != b.hostname:
        return False
    ports = [x.port or {"http": 80, "https": 443}[x.scheme] for x in (a, b)]
    return ports[0] == ports[1] or (a.scheme, b.scheme, *ports) == ("http", "https", 80, 443)


def _refusal(method: str, url: str, status: int, reason: str, headers: t.Mapping[str, str]) -> dict[str, t.Any]:
    """The link of an HTTP status, with the class that huggingface_hub has for it."""
    said = headers.get("x-error-message", "")
    name = _ERROR_CODES.get(headers.get("x-error-code", ""), "")
    if not name and status == 401 and "invalid" not in said.lower():
        name = "RepositoryNotFoundError"  # the Hub hides private repositories like this
    text = f"{status} {reason} for {method} {url}{': ' if said else ''}{said}"
    return _link([*([name] if name else []), "HTTPError"], text, status, wait_of(headers))


def _broken(error: BaseException, url: str) -> Chain:
    """The links of an exchange that ended without an answer; they count as a broken connection."""
    chain: list[dict[str, t.Any]] = []
    link: t.Any = error
    while isinstance(link, BaseException) and len(chain) < _HOPS:
        classes = [c.__name__ for c in type(link).__mro__ if c not in (object, BaseException)]
        chain.append(_link([*classes, "ConnectionError"], f"{link} ({url})"))
        link = getattr(link, "reason", None)
    return chain


def _link(classes: list[str], text: str, status: int | None = None, wait: str | None = None) -> dict[str, t.Any]:
    return {"classes": classes, "text": text, "status": status, "retry_after": wait, "errno": None}
