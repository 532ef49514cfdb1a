# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a failure of huggingface_hub means, whether it may pass by itself, and what the user can do.

The classes differ between versions (requests, httpx, httpx2, builtin errors, RuntimeError of hf_xet), and
LocalEntryNotFoundError wraps anything that went wrong while listing. So names and HTTP statuses are looked for in
the whole chain of causes.
"""

from __future__ import annotations

import email.utils
import errno
import math
import re
import time
import typing as t
from dataclasses import dataclass

Chain = t.Sequence[t.Mapping[str, t.Any]]

_TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504}

# Connections that break, by class name, in the libraries of all versions.
_TRANSIENT_CLASSES = {
    "ChunkedEncodingError",
    "ConnectError",
    "ConnectionError",
    "ConnectionResetError",
    "IncompleteRead",
    "NetworkError",
    "ProtocolError",
    "ReadTimeout",
    "RemoteProtocolError",
    "RequestException",
    "TimeoutException",
    "TimeoutError",
    "TransportError",
}

# huggingface_hub raises it for whatever kept it from the Hub. Its base class says that the Hub lacks the file, which
# is true where a cause is HTTP status 404: mirrors give it without the Hub's own X-Error-Code.
_WRAPPER = "LocalEntryNotFoundError"

# Without one of these a 403 may come from the file server: signed links expire while a download waits.
_HUB_SAYS_NO = {"GatedRepoError", "DisabledRepoError", "RepositoryNotFoundError"}

DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True)
class Failure:
    """A classified failure; ``passing`` when another attempt may succeed, ``retry_after`` in seconds."""

    id: str
    message: str
    remedy: str
    passing: bool = False
    retry_after: float = 0.0
    xet: bool = False


@dataclass(frozen=True)
class Rule:
    """Applies when one of the class names, statuses or texts is in the chain."""

    id: str
    message: str
    remedy: str
    classes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    text: str = ""

    def applies(self, classes: set[str], statuses: set[int], texts: str) -> bool:
        """Whether this rule explains the failure."""
        return bool(
            self.classes & classes
            or self.statuses & statuses
            or (self.text and re.search(self.text, texts, re.IGNORECASE))
        )


# The first that applies explains the failure. Later rules are less specific: GatedRepoError is a
# RepositoryNotFoundError, and both are HTTP errors with a status.
_RULES = (
    Rule(
        "gated",
        "The repository {repo} is gated, and cannot be read with {token}",
        "Accept the licence on the model's page with the account of the token; a fine-grained token also needs the "
        "permission to read gated repositories.",
        classes=frozenset({"GatedRepoError"}),
    ),
    Rule(
        "disabled",
        "Access to {repo} is disabled by the Hub",
        "Choose another repository.",
        classes=frozenset({"DisabledRepoError"}),
        text="access to this resource is disabled",
    ),
    Rule(
        "revision-not-found",
        "The repository {repo} has no revision {revision}",
        "Give an existing branch, tag or commit as revision.",
        classes=frozenset({"RevisionNotFoundError"}),
    ),
    Rule(
        "token-refused",
        "The Hub does not accept {token}",
        "Give a valid token, or none for a public repository.",
        text="invalid credentials|invalid user token",
    ),
    Rule(
        "repo-not-found",
        "The repository {repo} does not exist at {endpoint}, or it is private and cannot be read with {token}",
        "Check the spelling of repo_id; for a private repository give a token of an account that can read it.",
        classes=frozenset({"RepositoryNotFoundError"}),
    ),
    Rule(
        "file-not-found",
        "The Hub at {endpoint} lists a file of {repo} that it does not have",
        "The mirror is incomplete: use another endpoint, or ask the publisher.",
        classes=frozenset({"EntryNotFoundError", "RemoteEntryNotFoundError"}),
    ),
    Rule(
        "file-too-large",
        "A file is larger than the 50 GB that huggingface_hub fetches without Xet",
        "Set xet to on and install hf_xet beside huggingface_hub.",
        text="too large to be downloaded",
    ),
    Rule(
        "certificate",
        "The certificate of {endpoint} is not trusted",
        "Install the authority on the node and set SSL_CERT_FILE or REQUESTS_CA_BUNDLE for the task.",
        text="CERTIFICATE_VERIFY_FAILED",
    ),
    Rule(
        "not-a-hub",
        "What is at {endpoint} does not answer as a Hub does: its answer lacks the commit and the size of a file, "
        "which happens when it redirects to another site",
        "Use an endpoint that serves the files itself.",
        classes=frozenset({"FileMetadataError"}),
        text="does not seem to be on huggingface|distant resource does not",
    ),
    Rule(
        "forbidden",
        "The Hub at {endpoint} refuses access to {repo} with {token}",
        "Check what the token may read, and whether a proxy stands between.",
        statuses=frozenset({401, 403, 407, 451}),
    ),
    Rule(
        "not-found",
        "The Hub at {endpoint} has no such page for {repo}",
        "Check endpoint: it is the root of a Hub.",
        statuses=frozenset({404, 410}),
    ),
)

# Failures of Xet come as RuntimeError or OSError with one of these words in the text.
_XET_TEXT = re.compile(r"xet|reconstruction|\bcas\b|xorb", re.IGNORECASE)


def classify(chain: Chain, repo: str, revision: str, endpoint: str, with_token: bool) -> Failure:
    """Explain the chain of causes that the worker reported."""
    classes = {name for link in chain if _WRAPPER not in link["classes"] for name in link["classes"]}
    statuses = {link["status"] for link in chain if link["status"]}
    if 404 in statuses and any(_WRAPPER in link["classes"] for link in chain):
        classes.add("EntryNotFoundError")
    texts = "\n".join(str(link["text"]) for link in chain)
    quoted = _first_line(chain)
    if {link["errno"] for link in chain} & DISK_FULL:
        return Failure("disk-full", f"The disk is full ({quoted}).", "Free space, or give another dest.")
    if classes & {"ModuleNotFoundError", "ImportError"}:
        return Failure(
            "no-hub-client",
            f"huggingface_hub cannot be imported ({quoted}).",
            "Install huggingface_hub 0.36 or newer for the interpreter of the option python.",
        )
    xet = bool(_XET_TEXT.search(texts))
    passing = _passing(classes, statuses, endpoint in texts)
    if passing:
        id_, what = passing
        wait = max((_seconds(link["retry_after"]) for link in chain), default=0.0)
        return Failure(id_, f"{what.format(endpoint=endpoint)} ({quoted}).", _LATER, True, wait, xet)
    token = "the given token" if with_token else "no token"
    # A connection that broke tells nothing about the repository, unless a certificate is why.
    broken = bool(classes & _TRANSIENT_CLASSES) and not statuses
    for rule in _RULES:
        if rule.applies(classes, statuses, texts) and not (broken and rule.id != "certificate"):
            message = rule.message.format(repo=repo, revision=revision, endpoint=endpoint, token=token)
            return Failure(rule.id, f"{message} ({quoted}).", rule.remedy, xet=xet)
    what = "The connection to {endpoint} failed" if classes & _TRANSIENT_CLASSES else "huggingface_hub failed"
    id_ = "connection" if classes & _TRANSIENT_CLASSES else "download-failed"
    return Failure(id_, f"{what.format(endpoint=endpoint)} ({quoted}).", _LATER, True, 0.0, xet)


def _passing(classes: set[str], statuses: set[int], names_hub: bool) -> tuple[str, str] | None:
    """(id, message) of an HTTP status that another attempt may not meet."""
    busy = statuses & _TRANSIENT_STATUS
    if busy:
        return "hub-busy", f"The Hub at {{endpoint}} answered with HTTP status {min(busy)}"
    if 403 in statuses and not classes & _HUB_SAYS_NO and not names_hub:
        return "cdn-refused", "The file server of {endpoint} refused a link"
    return None


class ListingError(Exception):
    """The Hub did not tell what a commit holds."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


_LATER = "Check the network and the proxy settings, then run again: what is verified is kept."


def _first_line(chain: Chain) -> str:
    """The innermost cause in one line, which names the address and the status."""
    for link in reversed(chain):
        lines = str(link["text"]).strip().splitlines()
        if lines:
            return f"{link['classes'][0]}: {lines[0][:300]}"
    return str(chain[0]["classes"][0]) if chain else "no reason was given"


def _seconds(header: t.Any) -> float:
    """Retry-After as seconds from now: it is a number of them, or a date (RFC 9110, 10.2.3)."""
    try:
        seconds = float(header)
    except (TypeError, ValueError):
        seconds = _until(str(header))
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def _until(date: str) -> float:
    try:
        # A date without a zone is one of UTC, as HTTP has no other.
        parts = email.utils.parsedate_tz(date)
        return email.utils.mktime_tz(parts) - time.time() if parts else 0.0
    except (ValueError, OverflowError):
        return 0.0
