# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The single steps of a switch on the node, each as often as it needs it: stop, wait, activate, start, prove, keep.

In which order, and what happens when one fails, says :mod:`switch`.
"""

from __future__ import annotations

import threading
import typing as t
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from .._errors import ModelopsError
from .._findings import Finding, warning
from .causes import Cause
from .node import CancelledError, Node
from .placing import install, installed, uninstall
from .ready import Outcome
from .release import Release, Store
from .stopping import stop_units

_GPU_POLL: t.Final = 1.0


@dataclass(frozen=True)
class Limits:
    """Seconds: to become ready, to stop gracefully, to get the memory of the GPUs back. ``keep``: releases to keep."""

    ready: float
    stop: float
    gpu: float
    keep: int = 5


class SwitchError(Exception):
    """The switch cannot be completed: what served before has to come back."""

    def __init__(self, cause: Cause, log_tail: t.Sequence[str] = ()) -> None:
        super().__init__(cause.line)
        self.cause = cause
        self.log_tail = list(log_tail)
        self.nothing_serves = ""
        """Why what served before did not come back either; empty when it did, or when there was nothing."""


@dataclass
class Report:
    """What a switch did."""

    changed: bool = False
    stopped: list[str] = field(default_factory=list)
    """Units of other instances that had to make room."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """unit -> how its proof ended"""
    findings: list[Finding] = field(default_factory=list)
    silent_since: float | None = None
    """When the first unit that answered was told to stop."""
    silence: float | None = None
    """Seconds without service; None when nothing served before."""
    pruned: list[str] = field(default_factory=list)
    back: list[Release] = field(default_factory=list)
    """What serves again after a failure."""


class Steps:
    """The hands of one switch. ``tell`` gets a line for people whenever something goes on."""

    def __init__(self, node: Node, store: Store, limits: Limits, tell: t.Callable[[str], None]) -> None:
        self._node, self._store, self._limits, self._tell = node, store, limits, tell
        self._touched: set[str] = set()
        """Units that this switch has stopped or started."""
        self.report = Report()

    # What is there

    def _runs(self, release: Release) -> bool:
        """Whether this release is what runs (or loads) under its unit, from the files that were staged."""
        current = self._store.linked(release.instance, "current")
        return (
            current is not None
            and current.id == release.id
            and installed(release)
            and self._node.state(release.unit).active == "active"
        )

    def _is_good(self, release: Release) -> bool:
        good = self._store.linked(release.instance, "last_good")
        return good is not None and good.id == release.id

    def _running_under(self, releases: t.Sequence[Release]) -> list[Release]:
        """What runs under the units of these releases: the release to ask whether it answers."""
        return [self._store.linked(r.instance, "current") or r for r in releases]

    # What goes

    def _stop(self, releases: t.Sequence[Release], *, kill: bool = False) -> None:
        answering = set() if kill else {r.unit for r in releases if self._node.answers(r)}
        if answering and self.report.silent_since is None:
            self.report.silent_since = self._node.now()
        self._touched |= {r.unit for r in releases}
        stuck = stop_units(self._node, [r.unit for r in releases], answering, self._limits.stop, kill=kill)
        if stuck:
            raise SwitchError(
                Cause(
                    "stop-failed",
                    f"{', '.join(stuck)} did not stop, not even by SIGKILL.",
                    "It hangs in the driver: look for Xid messages in the kernel log, and reboot.",
                )
            )

    def _retire(self, releases: t.Sequence[Release]) -> None:
        """Keep them from starting at boot."""
        for release in releases:
            self._node.disable(release.unit)
            self._node.forget(release.unit)

    def _wait_for_gpus(self, releases: t.Sequence[Release], ours: t.Collection[str], *, room: bool) -> None:
        end = self._node.now() + self._limits.gpu
        told = False
        while lines := self._node.gpu_holders(releases, ours, room=room):
            if self._node.now() > end:
                raise SwitchError(
                    Cause(
                        "gpu-not-free",
                        f"{self._limits.gpu:.0f} s after the stop: {'; '.join(lines)}",
                        "Stop the processes named here, which this role does not kill: an orphaned worker of vLLM keeps"
                        " its memory until it ends. Without a process, reset the GPU or reboot.",
                    )
                )
            if not told:
                told = True
                self._tell("waiting for the memory of the GPUs: " + "; ".join(lines))
            self._node.sleep(_GPU_POLL)

    # What comes

    def _activate(self, release: Release) -> None:
        self._touched.add(release.unit)
        install(release)
        kept = {f["dest"] for f in release.files}
        for other in self._store.releases(release.instance):
            # Also those of one that was cut off: a unit file would hide the one that Quadlet makes.
            uninstall(other, kept)
        self._store.point(release, "current")

    def _start_and_prove(self, releases: t.Sequence[Release]) -> None:
        self._node.reload()
        for release in releases:
            self._tell(f"starting {release.unit} with release {release.id}")
            problem = self._node.start(release.unit)
            if problem:
                raise SwitchError(Cause("unit-start-failed", problem, f"journalctl -u {release.unit} may say more."))
        self._prove(releases)

    def _prove(self, releases: t.Sequence[Release]) -> None:
        """Wait for all of them at once; the first that fails ends the wait for the others."""
        stop = threading.Event()
        failed: Outcome | None = None
        with ThreadPoolExecutor(max_workers=max(1, len(releases))) as pool:
            waits = {pool.submit(self._prove_one, r, stop): r for r in releases}
            for wait in as_completed(waits):
                outcome = wait.result()
                if outcome is None:
                    continue
                self.report.outcomes[waits[wait].unit] = outcome
                if not outcome.ready and failed is None:
                    failed = outcome
                    stop.set()
        if failed is not None:
            raise SwitchError(failed.cause or Cause("unclassified", "", ""), failed.log_tail)
        if self.report.silent_since is not None:
            self.report.silence = round(self._node.now() - self.report.silent_since, 1)

    def _prove_one(self, release: Release, stop: threading.Event) -> Outcome | None:
        try:
            return self._node.prove(
                release, self._limits.ready, stop.is_set, lambda line: self._tell(f"{release.unit}: {line}")
            )
        except CancelledError:
            return None
        except BaseException:
            stop.set()
            raise

    def _keep(self, releases: t.Sequence[Release]) -> None:
        """They have answered: they start at boot, and are the last good ones. A full disk is no reason to stop them."""
        for release in releases:
            self._enable(release)
            try:
                self._store.mark_proven(release, self._node.date())
            except OSError as e:
                text = (
                    f"It could not be written that release {release.id} of {release.unit} has answered: {e.strerror}."
                )
                self.report.findings.append(warning("not-recorded", text, "Free space and run again."))

    def _enable(self, release: Release) -> None:
        """Have it start at boot. What serves goes on where that fails."""
        try:
            self._node.enable(release.unit)
        except ModelopsError as e:
            self.report.findings.append(warning("not-enabled", e.message, e.remedy))
