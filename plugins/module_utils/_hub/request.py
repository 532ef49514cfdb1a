# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a run of hf_snapshot was asked for, and what it has to say."""

from __future__ import annotations

import os
import re
import time
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .._findings import Finding, as_dicts
from .._weights.checks import Level
from .._weights.manifest import Selection, manifest_path
from .client import PUBLIC_ENDPOINT
from .disk import parse_size

# Other kinds of repositories, by the first part of their addresses, which no organisation can have as its name.
_OTHER_KINDS = {"datasets": "dataset", "spaces": "space"}

_MAX_TOKEN = 10_000
_TOKEN_REMEDY = "Give a file on the node that holds the token and nothing else, readable by the user of the task."

_REPO = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")

# The least value of each option that is a number.
_LEAST = {"max_workers": 1, "retries": 0, "lock_timeout": 0, "stall_timeout": 1, "progress_interval": 0}


@dataclass(frozen=True)
class Request:
    """The normalised options of hf_snapshot; ``reserve`` in bytes, times in seconds."""

    repo: str
    revision: str
    dest: str
    endpoint: str
    python: str
    scratch: str
    selection: Selection = field(default_factory=Selection)
    level: Level = "sha256"
    token: str = field(default="", repr=False)
    xet: bool = False
    max_workers: int = 8
    offline: bool = False
    source_dir: str = ""
    source_checksums: str = ""
    hardlink: bool = False
    reserve: int = 0
    stall_timeout: float = 300.0
    retries: int = 5
    lock_timeout: float = 3600.0
    reverify: bool = False
    strict: bool = False
    prune: bool = False
    check_mode: bool = False

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which never moves."""
        return _COMMIT.fullmatch(self.revision) is not None


def is_commit(revision: str) -> bool:
    """Whether a revision is a full commit id."""
    return _COMMIT.fullmatch(revision) is not None


def require_repo(repo: str) -> str:
    """A model repository's name, checked; ModelopsError for another kind of repository, an address or a path."""
    name = re.sub(r"^https?://[^/]+/", "", repo)
    kind, _slash, rest = name.partition("/")
    if kind in _OTHER_KINDS and rest:
        raise ModelopsError(
            f"repo_id {repo!r} is a {_OTHER_KINDS[kind]}.",
            "Only model repositories can be served: give the repository of a model.",
        )
    name = re.split(r"/(?:tree|blob|resolve)/", name)[0].strip("/")
    if name != repo and _is_repo(name):
        raise ModelopsError(
            f"repo_id {repo!r} is not the name of a repository.",
            f"Give it as {name}, the branch or commit as revision, and another Hub as endpoint.",
        )
    if not _is_repo(repo):
        raise ModelopsError(f"repo_id {repo!r} is not the name of a repository.", "Give it as organisation/name.")
    return repo


def _is_repo(name: str) -> bool:
    return _REPO.fullmatch(name) is not None and ".." not in name and "--" not in name


def require_endpoint(text: str | None) -> str:
    """The address of a Hub without a slash at its end; ModelopsError for one that is none, or holds credentials."""
    endpoint = (text or PUBLIC_ENDPOINT).rstrip("/")
    if not re.fullmatch(r"https?://[^/@\s?#]+(/[^@\s?#]*)?", endpoint):
        raise ModelopsError(
            "endpoint is not an http or https address, or it holds credentials.", "Give it as https://host, use token."
        )
    return endpoint


def read_token(params: t.Mapping[str, t.Any]) -> str:
    """The token of the option, of the file, or of the environment variable HF_TOKEN, in this order; may be empty.

    ModelopsError for one that is none; its content is never quoted.
    """
    token, path = (params["token"] or "").strip(), (params["token_file"] or "").strip()
    if token and path:
        raise ModelopsError(
            f"token and token_file ({path}) are mutually exclusive, and both are set.", "Give one of them."
        )
    if token:
        return _require_token(token, "token")
    if not path:
        return _require_token(os.environ.get("HF_TOKEN", ""), "The environment variable HF_TOKEN")
    try:
        with open(path, encoding="ascii") as f:
            token = f.read(_MAX_TOKEN)
    except OSError as e:
        raise ModelopsError(f"token_file {path} cannot be read: {e.strerror}.", _TOKEN_REMEDY) from e
    except UnicodeDecodeError:
        # Its text would quote the content, so it is no cause of this one.
        raise ModelopsError(f"token_file {path} holds characters outside ASCII.", _TOKEN_REMEDY) from None
    if not token.strip():
        raise ModelopsError(f"token_file {path} is empty.", _TOKEN_REMEDY)
    return _require_token(token, f"token_file {path}")


def _require_token(text: str, where: str) -> str:
    token = text.strip()
    if not token.isprintable() or not token.isascii() or " " in token:
        raise ModelopsError(
            f"{where} contains a space, a line break or a character outside ASCII.", "Give the token as issued."
        )
    return token


def read_selection(params: t.Mapping[str, t.Any]) -> Selection:
    """The patterns of the options; blanks, as an empty answer of a survey leaves them, are none."""
    allow, ignore = (
        tuple(stripped for p in params[name] or () if (stripped := (p or "").strip()))
        for name in ("allow_patterns", "ignore_patterns")
    )
    return Selection(allow, ignore, params["allow_pickle"])


def from_params(params: t.Mapping[str, t.Any], python: str, scratch: str, check_mode: bool) -> Request:
    """Normalise and check a module's parameters; ModelopsError names the option that is wrong."""
    for option, least in _LEAST.items():
        if params[option] < least:
            raise ModelopsError(f"{option} is {params[option]}; at least {least} is needed.", "Give a larger number.")
    if params["offline"] and params["source_dir"]:
        raise ModelopsError("offline and source_dir are both set.", "source_dir needs no network: leave offline out.")
    if not params["source_dir"]:
        for option, default in (("source_checksums", None), ("source_transfer", "copy")):
            if (params[option] or default) != default:
                raise ModelopsError(f"{option} is set without source_dir.", "Give source_dir, or leave it out.")
    if not params["revision"].strip():
        raise ModelopsError("revision is empty.", "Give a branch, a tag, or best a commit.")
    return Request(
        repo=require_repo(params["repo_id"].strip()),
        revision=params["revision"].strip(),
        dest=absolute(params["dest"], "dest"),
        endpoint=(endpoint := require_endpoint(params["endpoint"])),
        python=params["python"] or python,
        scratch=scratch,
        selection=read_selection(params),
        level=params["verify"],
        token=read_token(params),
        xet=params["xet"] == "on" or (params["xet"] == "auto" and endpoint == PUBLIC_ENDPOINT),
        max_workers=params["max_workers"],
        offline=params["offline"],
        source_dir=absolute(params["source_dir"], "source_dir") if params["source_dir"] else "",
        source_checksums=absolute(params["source_checksums"], "source_checksums") if params["source_checksums"] else "",
        hardlink=params["source_transfer"] == "hardlink",
        reserve=parse_size(params["min_free"], "min_free"),
        stall_timeout=float(params["stall_timeout"]),
        retries=params["retries"],
        lock_timeout=float(params["lock_timeout"]),
        reverify=params["reverify"],
        strict=params["strict"],
        prune=params["prune"],
        check_mode=check_mode,
    )


def absolute(path: str, option: str) -> str:
    """An absolute path that is not the root; ModelopsError names the option otherwise."""
    if not os.path.isabs(path) or os.path.normpath(path) == "/":
        raise ModelopsError(f"{option} is {path!r}, which is not an absolute path of a folder.", "Give a full path.")
    return os.path.normpath(path)


@dataclass
class Report:
    """What was found and done. ``missing`` is what is absent at the end, ``bad`` what was found damaged."""

    request: Request
    changed: bool = False
    commit: str = ""
    files: int = 0
    bytes_total: int = 0
    bytes_fetched: int = 0
    fetched: list[str] = field(default_factory=list)
    expected: int = 0
    present: int = 0
    missing: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    verified: Level = "none"
    attempts: int = 0
    findings: list[Finding] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def as_dict(self) -> dict[str, t.Any]:
        """The form that the module returns."""
        return {
            "changed": self.changed,
            "repo_id": self.request.repo,
            "commit": self.commit,
            "files": self.files,
            "bytes_total": self.bytes_total,
            "bytes_fetched": self.bytes_fetched,
            "fetched": sorted(self.fetched),
            "shards": {
                "expected": self.expected,
                "present": self.present,
                "missing": sorted(self.missing),
                "bad": sorted(self.bad),
            },
            "verified": self.verified,
            "seconds": round(time.monotonic() - self.started, 3),
            "attempts": self.attempts,
            "findings": as_dicts(self.findings),
            "manifest": manifest_path(self.request.dest),
        }

    def diff(self) -> dict[str, str]:
        """Verdicts on the files that change, before and after."""
        return {
            "before_header": self.request.dest,
            "after_header": self.request.dest,
            "before": "".join(f"{n}: {v}\n" for n, v in sorted(self.before.items())),
            "after": "".join(f"{n}: {v}\n" for n, v in sorted(self.after.items())),
        }
