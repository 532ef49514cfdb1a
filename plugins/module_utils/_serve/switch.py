# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The switch from what serves to what shall serve, as one transaction on the node.

Check, write down what served, stop it, wait for the GPUs, activate, start, prove, commit. Whatever fails after the
stop, what served before is brought back and proven by its own question. A switch that was cut off (a reboot, a process
that was killed) has left its journal: the next one goes back, if it has to, to what served before that one.
"""

from __future__ import annotations

import contextlib
import typing as t

from .._errors import ModelopsError
from .._findings import as_dicts, error, has_errors, warning
from . import boot
from .causes import Cause
from .journal import Entry, Journal
from .node import Node
from .placing import restore
from .release import Release, Store
from .situation import about_the_same, alive, find, missing, not_ours, rivals, way_back
from .steps import Limits, Steps, SwitchError


class Switch(Steps):
    """One switch."""

    def __init__(self, node: Node, store: Store, limits: Limits, tell: t.Callable[[str], None]) -> None:
        super().__init__(node, store, limits, tell)
        self._journal = Journal(store.state_dir)
        self._leaving: list[Release] = []
        """Instances that make room: they start at boot until what replaces them does."""

    def run(self, targets: t.Sequence[Release]) -> None:
        """Have exactly these releases serve on their GPUs. The caller holds the lock of the node.

        Raises ModelopsError when nothing was touched, SwitchError when something was: ``report.back`` serves then.
        """
        self._check_files(targets)
        cut_off = self._cut_off(targets)
        self._leaving = rivals(self._node, self._store, targets)
        changing = [r for r in targets if not self._runs(r)]
        before = way_back(self._node, self._store, targets, self._leaving, cut_off)
        if not changing and not self._leaving:
            changing = self._prove_unchanged(targets, before, cut_off)
            if not changing:
                return
        self._check_way_back(before)
        self._check(changing, self._leaving)
        entry = Entry(
            started=self._node.date(),
            targets={r.instance: r.id for r in targets},
            before={r.instance: r.id for r in before},
        )
        self._journal.write(entry)
        self._arm(entry)
        self.report.changed = True
        try:
            self._exchange(entry, changing, self._leaving)
            self._prove([r for r in targets if r not in changing and not self._is_good(r)])
            self._commit(entry, targets)
        except Exception as e:  # whatever it is, what served before has to come back
            failure = e if isinstance(e, SwitchError) else SwitchError(_unexpected(e))
            failure.nothing_serves = self._go_back(entry, targets, before)
            raise failure from e

    def would_change(self, targets: t.Sequence[Release]) -> bool:
        """Whether :meth:`run` would do more than ask. Reads only."""
        last = self._journal.read()
        return (
            bool(rivals(self._node, self._store, targets))
            or not all(self._runs(r) and self._node.enabled(r.unit) and self._is_good(r) for r in targets)
            or (last is not None and not last.ended)
        )

    def would_stop(self, releases: t.Sequence[Release]) -> bool:
        """Whether :meth:`stop` would do something. Reads only."""
        return any(alive(self._node, r) for r in releases)

    def stop(self, releases: t.Sequence[Release]) -> None:
        """Stop these instances and keep them from starting at boot. Raises SwitchError when one cannot be stopped."""
        running = [r for r in releases if self._node.runs(r.unit)]
        enabled = [r for r in releases if self._node.enabled(r.unit)]
        self.report.changed = bool(running or enabled)
        if running:
            self._tell("stopping " + ", ".join(r.unit for r in running))
            self._stop(running)
        self._retire(enabled)
        self._forget({r.instance for r in releases})
        self._wait_for_gpus(running, {r.unit for r in running}, room=False)

    def _forget(self, instances: t.Collection[str]) -> None:
        """What was stopped on purpose is not brought back by a later run."""
        last = self._journal.read()
        if last is None or last.ended:
            return
        last.targets = {i: r for i, r in last.targets.items() if i not in instances}
        last.before = {i: r for i, r in last.before.items() if i not in instances}
        self._arm(last)
        self._phase(last, last.phase if last.targets or last.before else "gone-back")

    # What a switch before this one has left

    def _cut_off(self, targets: t.Sequence[Release]) -> Entry | None:
        """The last switch if it did not end well and was about the same things; one about other things is settled."""
        last = self._journal.read()
        if last is None or last.ended:
            return None
        if about_the_same(self._store, last, targets):
            return last
        self._finish(last)
        return None

    def _finish(self, last: Entry) -> None:
        """Have what an earlier switch wanted, or else what served before it, before the node forgets about it.

        Raises ModelopsError when neither comes up.
        """
        self._tell("an earlier switch was cut off: settling it first")
        wanted, before = find(self._store, last.targets), find(self._store, last.before)
        try:
            self._leaving = rivals(self._node, self._store, wanted)
            gone = not any(self._node.runs(r.unit) for r in self._leaving)
            if wanted and gone and all(self._runs(r) for r in wanted):
                self._prove(wanted)
                self._commit(last, wanted)
                return
        except SwitchError:
            pass
        self.report.changed = True
        problem = self._go_back(last, wanted, before)
        if problem:
            raise ModelopsError(
                f"An earlier switch to {', '.join(r.unit for r in wanted)} was cut off, and what served before it does"
                f" not come back: {problem}",
                "Nothing else was touched. Deploy that service again, or stop it with the playbook stop.yml, first.",
            )

    # Before the stop

    def _check_files(self, targets: t.Sequence[Release]) -> None:
        for release in targets:
            if not release.intact():
                raise ModelopsError(
                    f"The files of release {release.id} in {release.path} are not those that were staged.",
                    "Remove the directory and deploy again.",
                )

    def _check_way_back(self, before: t.Sequence[Release]) -> None:
        """Nothing that serves is stopped before it is known that it can come back."""
        for release in before:
            lost = missing(release) if release.intact() or restore(release) else [release.path]
            if not lost:
                continue
            text = f"{', '.join(lost)} of release {release.id} of {release.unit}, to go back to, is missing or changed."
            if alive(self._node, release):
                raise ModelopsError(
                    f"Nothing was stopped. {text}",
                    "Bring it back, or stop that service first with the playbook stop.yml: then nothing has to.",
                )
            self.report.findings.append(warning("way-back-damaged", text, "It cannot be gone back to."))

    def _check(self, changing: t.Sequence[Release], leaving: t.Sequence[Release]) -> None:
        """Everything that can be known before something is stopped."""
        ours = {r.unit for r in [*changing, *leaving]}
        findings = self._node.disk_findings(self._store.state_dir)
        findings += not_ours(self._node, self._store, changing)
        findings += [
            error(
                "release-incomplete",
                f"{path}, which release {r.id} needs, is not there.",
                "Deploy it again.",
                path=path,
            )
            for r in changing
            for path in missing(r)
        ]
        findings += [f for r in changing for f in self._node.container_findings(r)]
        findings += [f for r in changing for f in self._node.port_findings(r, ours)]
        findings += self._node.gpu_findings(changing, ours)
        self.report.findings += findings
        if has_errors(findings):
            text = "\n".join(f"{f.message} {f.remedy}" for f in findings if f.severity == "error")
            raise ModelopsError(f"Nothing was stopped.\n{text}", findings=as_dicts(self.report.findings))

    # The exchange

    def _exchange(self, entry: Entry, changing: t.Sequence[Release], leaving: t.Sequence[Release]) -> None:
        going = [r for r in [*leaving, *self._running_under(changing)] if self._node.runs(r.unit)]
        if going:
            self._tell("stopping " + ", ".join(r.unit for r in going))
            self._stop(going)
        self.report.stopped = [r.unit for r in leaving]
        self._wait_for_gpus(changing, {r.unit for r in going}, room=True)
        self._phase(entry, "starting")
        for release in changing:
            self._activate(release)
        self._phase(entry, "proving")
        self._start_and_prove(changing)

    def _commit(self, entry: Entry, releases: t.Sequence[Release]) -> None:
        self._keep(releases)
        try:
            self._retire(self._leaving)
        except ModelopsError as e:
            self.report.findings.append(warning("not-disabled", e.message, e.remedy))
        if entry.before and entry.before != entry.targets:
            for service in {r.service for r in releases}:
                with contextlib.suppress(OSError):
                    self._journal.remember(service, entry)
        self._note(entry, "done")
        self.report.pruned = [id_ for r in releases for id_ in self._store.prune(r.instance, self._limits.keep)]

    def _arm(self, entry: Entry) -> None:
        """From here on a boot brings back what served before, until this switch has ended. Raises OSError."""
        before = [r for r in find(self._store, entry.before) if r.intact()]
        if before:
            targets = find(self._store, entry.targets)
            new = [r for r in targets if r.instance not in entry.before]
            self._node.arm(boot.way_back_unit(before, targets, new))
        else:
            self._node.disarm()

    def _note(self, entry: Entry, phase: t.Any) -> None:
        """A phase after which nothing depends on the journal any more: a full disk must not end what goes on."""
        with contextlib.suppress(OSError):
            self._phase(entry, phase)

    def _phase(self, entry: Entry, phase: t.Any) -> None:
        entry.phase = phase
        if entry.ended:
            self._node.disarm()
        self._journal.write(entry)

    # When all is in place already

    def _prove_unchanged(
        self, targets: t.Sequence[Release], before: t.Sequence[Release], cut_off: Entry | None
    ) -> list[Release]:
        """Ask what runs already. The releases to start again are returned: none, or all when one has died.

        What runs and does not answer is left alone as long as it was good once: a server under load may be slow.
        """
        unproven = [r for r in targets if not self._is_good(r)]
        try:
            self._prove(targets)
        except SwitchError as failure:
            dead = [r for r in targets if self._node.state(r.unit).active != "active"]
            if dead:
                return dead
            if unproven:
                entry = cut_off or Entry(self._node.date(), {r.instance: r.id for r in targets})
                self.report.changed = True
                failure.nothing_serves = self._go_back(entry, targets, before)
                raise
            raise ModelopsError(
                f"What runs is the release that was wanted, and it does not answer [{failure.cause.id}]:"
                f" {failure.cause.line} {failure.cause.remedy}",
                "Nothing was touched. To start it anew, run the playbook stop.yml and then this one.",
                cause=failure.cause.as_dict(),
            ) from failure
        late = [r for r in targets if not self._node.enabled(r.unit)]
        if unproven or late or cut_off is not None:
            self.report.changed = True
            self._commit(cut_off or Entry(self._node.date(), {r.instance: r.id for r in targets}), targets)
        return []

    # When it failed

    def _go_back(self, entry: Entry, targets: t.Sequence[Release], before: t.Sequence[Release]) -> str:
        """Have ``before`` serve again; without one the new units are stopped and stay so.

        Returns why that failed as well, an empty string when it did not.
        """
        self._note(entry, "going-back")
        wanted = {r.unit for r in before}
        try:
            # What was never touched, or goes on as it was, is no part of the failure.
            kept = {r.unit for r in before if r.unit not in self._touched and self._runs(r)}
            doomed = [r for r in targets if r.unit not in kept]
            self._stop([r for r in doomed if self._node.runs(r.unit)], kill=True)
            self._retire([r for r in doomed if r.unit not in wanted])
            self._bring_back(before)
        except Exception as e:  # both have failed: nothing is left but to say so
            self._note(entry, "failed")
            return f"[{e.cause.id}] {e.cause.line} {e.cause.remedy}" if isinstance(e, SwitchError) else str(e)
        self._note(entry, "gone-back")
        return ""

    def _bring_back(self, before: t.Sequence[Release]) -> None:
        resting = [r for r in before if not self._runs(r)]
        try:
            self._wait_for_gpus(resting, (), room=True)
        except SwitchError as e:
            # Starting it is still the best that can be done: vLLM has its own check.
            self.report.findings.append(warning(e.cause.id, e.cause.line, e.cause.remedy))
        for release in resting:
            self._activate(release)
        self._tell("going back to " + ", ".join(f"{r.unit} release {r.id}" for r in before) if before else "stopped")
        if resting:
            self._node.reload()
        for release in before:
            # It was proven once: should it be slow now, it still starts with the node.
            self._enable(release)
        if resting:
            self._start_and_prove(resting)
        self._prove([r for r in before if r not in resting])
        self._keep(before)
        self.report.back = list(before)


def _unexpected(e: Exception) -> Cause:
    return Cause("switch-error", f"{type(e).__name__}: {e}", "See the message; if it is none of the node, report it.")
