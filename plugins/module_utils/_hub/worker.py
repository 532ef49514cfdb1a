# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The worker: the only code that imports huggingface_hub, run by an interpreter that has it.

It is started in an environment of its own (huggingface_hub reads its settings at import), gets one job as a line
of JSON on standard input, and answers with events, one line of JSON each, on standard output:

* ``{"event": "hello", "version": str, "xet": bool}``
* ``{"event": "landed", "name": str}``: huggingface_hub says that the file is there, which proves nothing yet
* ``{"event": "failed", "name": str, "error": [...]}``: the chain of an exception, outermost first
* ``{"event": "done"}``

The job ends when standard input is closed, so that no worker outlives the process that started it.
Works with huggingface_hub 0.36, 1.x and 2.x: only what has the same name and meaning in all of them is used.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import threading
import typing as t
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

_LOCK = threading.Lock()
_CHAIN = 6

# A shorter part of a password is in many words.
_SHORT = 3


def emit(out: t.TextIO, event: str, **fields: t.Any) -> None:
    """Write one event."""
    with _LOCK:
        out.write(json.dumps({"event": event, **fields}) + "\n")
        out.flush()


def wait_of(headers: t.Mapping[str, str]) -> str | None:
    """Seconds to wait by Retry-After, or by the t= of RateLimit (draft-ietf-httpapi-ratelimit-headers).

    Names in small letters, or a mapping to which case does not matter.
    """
    reset = re.search(r"\bt=(\d+)", headers.get("ratelimit") or "")
    return headers.get("retry-after") or (reset[1] if reset else None)


def hide(text: str, secret: str = "") -> str:
    """The text without the secret and without what the proxy variables of the environment hold before the host."""
    hidden = {secret} if secret else set()
    for name, value in os.environ.items():
        userinfo, at, _host = value.partition("://")[2 if "://" in value else 0].rpartition("@")
        if not at or not name.lower().endswith("_proxy"):
            continue
        password = userinfo.partition(":")[2] or userinfo
        # A password that is not percent-encoded ends in the wrong place: libraries quote a part of it as the port.
        parts = {p for p in re.split(r"[#/?@:\[\]]", password) if p}
        hidden |= {userinfo, password, urllib.parse.unquote(password)}
        hidden |= {quote + p + quote for p in parts for quote in ("'", '"')}
        hidden |= {p for p in parts if len(p) >= _SHORT}
    for part in sorted(hidden, key=len, reverse=True):
        text = text.replace(part, "***")
    return text


def describe(exc: BaseException, secret: str = "") -> list[dict[str, t.Any]]:
    """An exception and its causes: class names, text, HTTP status, Retry-After, errno; the secrets cut out."""
    chain: list[dict[str, t.Any]] = []
    link: BaseException | None = exc
    while link is not None and len(chain) < _CHAIN:
        response = getattr(link, "response", None)
        headers = getattr(response, "headers", None) or {}
        chain.append(
            {
                "classes": [c.__name__ for c in type(link).__mro__ if c not in (object, BaseException)],
                "text": hide(str(link), secret),
                "status": getattr(response, "status_code", None),
                "retry_after": wait_of(headers),
                "errno": getattr(link, "errno", None),
            }
        )
        link = link.__cause__ or link.__context__
    return chain


def _has_xet() -> bool:
    return importlib.util.find_spec("hf_xet") is not None and os.environ.get("HF_HUB_DISABLE_XET") != "1"


def _fetch(hub: t.Any, job: dict[str, t.Any], name: str) -> str:
    return str(
        hub.hf_hub_download(
            repo_id=job["repo_id"],
            filename=name,
            revision=job["commit"],
            local_dir=job["folder"],
            token=job["token"] or False,
            endpoint=job["endpoint"],
            etag_timeout=job["timeout"],
        )
    )


def _fetch_all(hub: t.Any, job: dict[str, t.Any], out: t.TextIO) -> None:
    def one(name: str) -> None:
        try:
            _fetch(hub, job, name)
        except Exception as e:  # any class: the HTTP library of each version has its own
            emit(out, "failed", name=name, error=describe(e, job["token"]))
        else:
            emit(out, "landed", name=name)

    with ThreadPoolExecutor(max_workers=job["max_workers"]) as pool:
        list(pool.map(one, job["names"]))


def _die_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Do one job."""
    # Libraries may print; standard output belongs to the events.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        import huggingface_hub as hub  # noqa: PLC0415
        from huggingface_hub import constants  # noqa: PLC0415

        # The library takes 10 MB of each connection at once: needless memory, and progress in large steps.
        constants.DOWNLOAD_CHUNK_SIZE = 1 << 20

        emit(out, "hello", version=hub.__version__, xet=_has_xet())
        _fetch_all(hub, job, out)
    except Exception as e:  # the parent classifies it
        emit(out, "failed", name="", error=describe(e, job["token"]))
    emit(out, "done")
    os._exit(0)


if __name__ == "__main__":
    main()
