# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Where the files of a snapshot come from: what a source does, and the Hub as one."""

from __future__ import annotations

import os
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error, info
from .._weights.checks import Check, RemoteFile
from .._weights.selection import Listing
from . import client
from .errors import Failure, classify
from .listing import HubApi
from .request import Request
from .staging import Staging
from .worker import hide

# huggingface_hub refuses larger files without Xet, before the first byte.
HTTP_LIMIT = 50_000_000_000


class Source(t.Protocol):
    """Lists a commit, and brings files to a staging area."""

    def listing(self, known: str) -> Listing:
        """The files of the commit, or no files when it is ``known``; ListingError when that cannot be told."""

    def fetch(
        self, files: t.Sequence[RemoteFile], staging: Staging, on_landed: t.Callable[[str], t.Any]
    ) -> Failure | None:
        """Bring files, calling ``on_landed`` for each; the failure that matters most, if there was one."""

    def damaged(self, check: Check) -> Failure:
        """What it means that a file arrived with other bytes than those listed."""

    def adapt(self, failure: Failure, files: t.Iterable[RemoteFile]) -> Finding | None:
        """Change the way of fetching after a failure; what to tell the user when that makes a retry sensible."""

    def require_fetchable(self, files: t.Collection[RemoteFile]) -> list[Finding]:
        """Raise ModelopsError for files that this source can never bring, before anything is touched.

        In check mode a finding tells what a real run would need first.
        """

    def space_for(self, files: t.Iterable[RemoteFile]) -> int:
        """Bytes that these files will take on the file system of the destination."""


class HubSource:
    """The Hub: listed over plain HTTP, fetched by huggingface_hub in a worker process."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._xet = request.xet
        self._workers = request.max_workers

    def _interpreter(self) -> client.Interpreter:
        timeout = max(1, min(30, int(self._request.stall_timeout)))
        return client.Interpreter(
            self._request.python, self._request.scratch, self._request.endpoint, self._xet, timeout
        )

    def _classify(self, chain: t.Sequence[t.Mapping[str, t.Any]]) -> Failure:
        r = self._request
        return classify(chain, r.repo, r.revision, r.endpoint, with_token=bool(r.token))

    def _run(
        self, job: t.Mapping[str, t.Any], on_event: t.Callable[[client.Event], None], progress: t.Callable[[], int]
    ) -> Failure | None:
        r = self._request
        try:
            client.run(
                self._interpreter(),
                {"repo_id": r.repo, "token": r.token, **job},
                on_event,
                progress,
                r.stall_timeout,
            )
        except client.WorkerFailedError as e:
            return self._classify(e.chain)
        except _FatalError as e:
            return e.failure
        except client.OldVersionError as e:
            return Failure("no-hub-client", e.message, e.remedy)
        except (client.NotStartedError, client.StalledError, client.WorkerDiedError) as e:
            return self._explain(e)
        return None

    def _explain(self, e: Exception) -> Failure:
        """The failure of a worker that did not report one."""
        r = self._request
        if isinstance(e, client.NotStartedError):
            message = f"The interpreter {r.python} cannot be started: {e}."
            return Failure("no-hub-client", message, "Give a Python that has huggingface_hub with the option python.")
        if isinstance(e, client.StalledError):
            message = f"No byte arrived from {r.endpoint} for {r.stall_timeout:.0f} s."
            return Failure("stalled", message, "Check the network, or raise stall_timeout.", True, xet=self._xet)
        died = t.cast(client.WorkerDiedError, e)
        if died.status < 0:
            message = f"The worker process was killed by signal {-died.status}."
            remedy = "Signal 9 is often the kernel's, for lack of memory: lower max_workers, or give it more."
            return Failure("worker-killed", message, remedy, True)
        what = f"ended with status {died.status}" if died.status else "did not run the worker to its end"
        message = f"{r.python} {what}: {self._hide(died.tail)}."
        return Failure("worker-failed", message, "Check that this is a Python that works.")

    def _hide(self, text: str) -> str:
        lines = [line for line in text.splitlines() if line.strip()]
        last = lines[-1] if lines else "no output"
        return hide(last, self._request.token)

    def listing(self, known: str) -> Listing:
        """One request for the commit, the sizes and the hashes, and one for each index."""
        return HubApi(self._request).listing(known)

    def fetch(
        self, files: t.Sequence[RemoteFile], staging: Staging, on_landed: t.Callable[[str], t.Any]
    ) -> Failure | None:
        """One worker for all files; the first failure that no retry mends ends it."""
        failures: list[Failure] = []

        def on_event(event: client.Event) -> None:
            if event["event"] == "hello":
                return
            if event["event"] == "landed":
                on_landed(event["name"])
                return
            failure = self._classify(event["error"])
            failures.append(failure)
            if not failure.passing:
                raise _FatalError(failure)

        job = {
            "commit": os.path.basename(staging.folder),
            "folder": staging.folder,
            "names": [f.name for f in files],
            "max_workers": self._workers,
        }
        staging.drop_partials()
        failure = self._run(job, on_event, staging.bytes_here)
        return failure or max(failures, key=lambda f: f.retry_after, default=None)

    def damaged(self, check: Check) -> Failure:
        """A cache on the way may hold other bytes: the next attempt may meet another."""
        message = f"{check.name} arrived damaged: {check.message}."
        return Failure(check.verdict, message, "Check network and mirror.", True)

    def adapt(self, failure: Failure, files: t.Iterable[RemoteFile]) -> Finding | None:
        """Leave Xet when it fails and plain HTTP can do it; load less when the worker was killed."""
        if failure.id == "worker-killed" and self._workers > 1:
            self._workers = max(1, self._workers // 2)
            return info("fewer-workers", f"{failure.message} The next attempt has {self._workers} connections.")
        if self._xet and failure.xet and all(f.size <= HTTP_LIMIT for f in files):
            self._xet = False
            return info("xet-fallback", f"Xet failed, the next attempt is by plain HTTP. {failure.message}")
        return None

    def require_fetchable(self, files: t.Collection[RemoteFile]) -> list[Finding]:
        """Refuse files that plain HTTP never brings, and a node without huggingface_hub."""
        if not files:
            return []
        self._require_http(files)
        seen: list[client.Event] = []
        failure = self._run({"names": [], "max_workers": 1}, seen.append, lambda: 0)
        if not failure:
            return self._judge_xet(files, seen)
        if not self._request.check_mode:
            raise ModelopsError(
                failure.message,
                failure.remedy,
                findings=[error(failure.id, failure.message, failure.remedy).as_dict()],
            )
        return [info(failure.id, f"A real run needs huggingface_hub first. {failure.message}", failure.remedy)]

    def _require_http(self, files: t.Iterable[RemoteFile]) -> None:
        large = [f for f in files if f.size > HTTP_LIMIT]
        if large and not self._xet:
            message = f"{large[0].name} has {large[0].size} bytes, and without Xet at most {HTTP_LIMIT} can be fetched."
            remedy = "Set xet to on and install hf_xet beside huggingface_hub."
            finding = error("file-too-large", message, remedy, size=large[0].size, limit=HTTP_LIMIT)
            raise ModelopsError(message, remedy, findings=[finding.as_dict()])

    def _judge_xet(self, files: t.Iterable[RemoteFile], seen: t.Iterable[client.Event]) -> list[Finding]:
        """What it means that the interpreter has no hf_xet, when Xet is wanted."""
        if not self._xet or all(event["xet"] for event in seen):
            return []
        self._xet = False
        self._require_http(files)
        return [
            info(
                "no-xet",
                f"{self._request.python} has no hf_xet, so the files come by plain HTTP.",
                "Install hf_xet beside huggingface_hub, or set xet to off.",
            )
        ]

    def space_for(self, files: t.Iterable[RemoteFile]) -> int:
        """Each file takes its size."""
        return sum(f.size for f in files)


class _FatalError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
