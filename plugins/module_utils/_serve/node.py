# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The hands of a switch on a node: units, ports, GPUs, and the question whether an instance answers."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error, warning
from .._gpu.host import runner
from . import boot, gpus, ports
from .podman import Podman
from .probe import Answer
from .question import Question
from .ready import Outcome, Waiter
from .release import Release, sync_folder, write_file
from .systemd import Unit, UnitState

Tell: t.TypeAlias = t.Callable[[str], None]
Asking: t.TypeAlias = t.Callable[[float], Answer]
_RUNNING: t.Final = ("active", "activating", "reloading", "deactivating")
# systemctl answers at once with --no-block; this bounds a manager that hangs.
_COMMAND_SECONDS: t.Final = 120
_NVIDIA_SMI_SECONDS: t.Final = 30.0
_POLL: t.Final = 2
# torch.compile, Triton and FlashInfer keep what they compile below the home of the service user: some GiB for a model.
_CACHE_BYTES: t.Final = 5 << 30
_RELEASE_BYTES: t.Final = 64 << 20
_FREE: t.Final = "Free space there, or set serve_state_dir to a larger file system."


def run(argv: t.Sequence[str]) -> tuple[int, str, str]:
    """Run a program: status, stdout, stderr; 127 when it is missing, 124 when it does not end."""
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(argv, capture_output=True, check=False, env=env, timeout=_COMMAND_SECONDS)
    except FileNotFoundError:
        return 127, "", f"{argv[0]}: not found"
    except subprocess.TimeoutExpired:
        return 124, "", f"{argv[0]} did not end within {_COMMAND_SECONDS} s"
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def _refused(argv: t.Sequence[str], rc: int, out: str, err: str) -> ModelopsError:
    said = " ".join((err or out).split())[-500:] or "nothing"
    return ModelopsError(
        f"{' '.join(argv)} ended with status {rc} and said: {said}.",
        "Look whether /etc/systemd/system can be written to and has space, and at journalctl -b _PID=1.",
    )


def _alone(ask: Asking, left: float) -> Answer:
    """The answer of one instance is all that counts."""
    return ask(left)


class Node:
    """The node that this process runs on. ``nvidia_smi`` empty: a node without GPUs."""

    def __init__(
        self,
        nvidia_smi: str,
        command: t.Callable[[t.Sequence[str]], tuple[int, str, str]] = run,
        units: str = "/etc/systemd/system",
    ) -> None:
        self._command, self._units = command, units
        self._gpus = gpus.Gpus(lambda: runner(nvidia_smi, _NVIDIA_SMI_SECONDS)) if nvidia_smi else None

    # Time

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def date(self) -> str:
        """UTC, ISO 8601."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    # Units

    def state(self, unit: str) -> UnitState:
        """Raises ModelopsError when systemd cannot be asked."""
        return Unit(unit, self._command).state()

    def runs(self, unit: str) -> bool:
        """Whether the unit has processes, or will have them again by itself."""
        return self.state(unit).active in _RUNNING

    # systemctl neither enables nor disables a unit that Quadlet has generated. What it would do is a link, and systemd
    # takes that one by its name, also when the unit is generated anew at the next boot.

    def enabled(self, unit: str) -> bool:
        """Whether it starts at boot."""
        said = self._enablement(unit)
        return said == "enabled" or (said == "generated" and os.path.lexists(self._boot_link(unit)))

    def enable(self, unit: str) -> None:
        """Have it start at boot. Raises ModelopsError when systemd does not take it."""
        if self._enablement(unit) != "generated":
            # By force: a link to the generated unit of the same name may be there.
            self._must(["systemctl", "enable", "--force", "--", unit])
            return
        link, generated = self._boot_link(unit), f"/run/systemd/generator/{unit}"
        if os.path.islink(link) and os.readlink(link) == generated:
            return
        os.makedirs(os.path.dirname(link), mode=0o755, exist_ok=True)
        fresh = f"{link}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(generated, fresh)
        os.replace(fresh, link)
        self.reload()

    def disable(self, unit: str) -> None:
        """Keep it from starting at boot, also one that is not there. Raises ModelopsError when it still will."""
        if self._enablement(unit) != "generated":
            argv = ["systemctl", "disable", "--", unit]
            rc, out, err = self._command(argv)
            if rc != 0 and self._enablement(unit) == "enabled":
                raise _refused(argv, rc, out, err)
        link = self._boot_link(unit)
        if os.path.islink(link):
            os.unlink(link)
            self.reload()

    def _enablement(self, unit: str) -> str:
        return self._command(["systemctl", "is-enabled", "--", unit])[1].strip()

    def _boot_link(self, unit: str) -> str:
        return os.path.join(self._units, boot.LINKS, unit)

    def reload(self) -> None:
        """Have systemd read the unit files again. Raises ModelopsError when it does not."""
        self._must(["systemctl", "daemon-reload"])

    def _must(self, argv: t.Sequence[str]) -> None:
        rc, out, err = self._command(argv)
        if rc != 0:
            raise _refused(argv, rc, out, err)

    def forget(self, unit: str) -> None:
        """Forget how the unit ended before: a load that was killed is no failure of the node."""
        self._command(["systemctl", "reset-failed", "--", unit])

    def start(self, unit: str) -> str:
        """Start it, whatever failures lie behind it; an empty string or what systemctl said against it."""
        self.forget(unit)
        rc, _out, err = self._command(["systemctl", "start", "--", unit])
        return "" if rc == 0 else err.strip() or f"systemctl start ended with status {rc}"

    def stop(self, unit: str) -> None:
        """Stop it, and wait until it has stopped."""
        self._command(["systemctl", "stop", "--", unit])

    def ask_to_stop(self, unit: str) -> None:
        """Begin to stop it: no start by itself from here on."""
        self._command(["systemctl", "stop", "--no-block", "--", unit])

    def signal(self, unit: str, name: str) -> None:
        """Send a signal to all processes of the unit."""
        self._command(["systemctl", "kill", f"--signal={name}", "--", unit])

    # Containers

    def container_findings(self, release: Release) -> list[Finding]:
        """Would its start remove a container that somebody else has made?"""
        in_container = any(file["dest"].endswith(".container") for file in release.files)
        return Podman(self._command).judge_names(release.instance) if in_container else []

    # The next boot

    def arm(self, way_back: str) -> None:
        """Have this unit (:mod:`boot`) bring back what served, should the node start again. Raises OSError."""
        write_file(os.path.join(self._units, boot.UNIT), way_back, 0o644)
        link = self._way_back_link()
        os.makedirs(os.path.dirname(link), mode=0o755, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(os.path.join("..", boot.UNIT), link)
        sync_folder(os.path.dirname(link))
        sync_folder(self._units)

    def disarm(self) -> None:
        """What the unit links to is good by now. Raises OSError."""
        for path in (self._way_back_link(), os.path.join(self._units, boot.UNIT)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _way_back_link(self) -> str:
        # systemd reads it at the boot, so no daemon-reload is needed now.
        return os.path.join(self._units, f"{boot.TARGET}.wants", boot.UNIT)

    # The disk

    def disk_findings(self, state_dir: str) -> list[Finding]:
        """Is there room for the files of a release, and for what vLLM compiles at its first start?"""
        free = shutil.disk_usage(state_dir).free
        if free >= _CACHE_BYTES:
            return []
        numbers = {"free_bytes": free, "path": state_dir}
        message = f"{state_dir} has {free / 2**30:.2f} GiB free;"
        if free < _RELEASE_BYTES:
            return [error("disk-full", f"{message} not even the files of a release are safe there.", _FREE, **numbers)]
        return [
            warning(
                "disk-low", f"{message} kernels that are compiled at the first start may need more.", _FREE, **numbers
            )
        ]

    # The port

    def port_findings(self, release: Release, ours: t.Collection[str]) -> list[Finding]:
        """May the release listen where it wants to? ``ours`` are the units that will be stopped before."""
        return [finding for one in ports.wanted(release.record) for finding in self._judge_port(one, ours)]

    def _judge_port(self, listener: ports.Listener, ours: t.Collection[str]) -> list[Finding]:
        host, port = listener["host"], listener["port"]
        holders = ports.owners(host, port, lambda: self._command(ports.ss(port))[1])
        bind_errno = ports.bind_error(host, port)
        if bind_errno and not holders:
            # An instance that still loads has bound its port and does not listen yet.
            holders = [ports.Owner(0, "vllm", unit) for unit in ours if self.runs(unit)]
        return ports.judge(host, port, ours, bind_errno, holders, variable=listener["variable"])

    # GPUs

    def gpu_findings(self, releases: t.Sequence[Release], ours: t.Collection[str]) -> list[Finding]:
        """Will the GPUs hold the releases once the units ``ours`` are stopped?"""
        return self._gpus.judge(releases, ours) if self._gpus else []

    def gpu_holders(self, releases: t.Sequence[Release], ours: t.Collection[str], *, room: bool) -> list[str]:
        """What still keeps the GPUs from holding the releases, a line each: empty when they are free."""
        return self._gpus.holders(releases, ours, room=room) if self._gpus else []

    # Readiness

    def answers(self, release: Release) -> bool:
        """Whether it is healthy right now: an instance that loads swallows the signal to stop.

        A worker of a group says nothing, and swallows nothing: it ends with its head.
        """
        return release.headless or self._question(release).ask(5.0).stage not in ("connect", "health")

    def prove(
        self,
        release: Release,
        timeout: float,
        cancelled: t.Callable[[], bool],
        tell: Tell,
        *,
        settle: t.Callable[[Asking, float], Answer] = _alone,
    ) -> Outcome:
        """Wait until the release answers, or it is plain that it never will.

        ``settle`` gets the question and the seconds that are left, and says what its answer means.
        """
        question = self._question(release)

        def ask(left: float) -> Answer:
            if cancelled():
                raise CancelledError
            return settle(question.ask, left)

        return Waiter(ask, Unit(release.unit, self._command), timeout, _POLL, tell=tell).wait()

    def _question(self, release: Release) -> Question:
        return Question.from_dict(release.question, release.api_key())


class CancelledError(Exception):
    """Another instance of the same switch has failed: this one need not be waited for."""
