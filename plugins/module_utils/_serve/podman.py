# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What podman on this node can do for an instance: its version, the image, the devices, the file for Quadlet.

Everything here is asked before anything that runs is stopped. Only :meth:`Podman.pull` changes the node.
"""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from .._findings import Finding, error, warning
from . import quadlet

Run: t.TypeAlias = t.Callable[[t.Sequence[str]], "tuple[int, str, str]"]

# The generator of Quadlet, where Debian, Ubuntu, Fedora and RHEL install it.
GENERATORS: t.Final = (
    "/usr/lib/systemd/system-generators/podman-system-generator",
    "/usr/local/lib/systemd/system-generators/podman-system-generator",
)
# Where podman looks for CDI specifications (containers.conf, cdi_spec_dirs).
CDI_DIRS: t.Final = ("/etc/cdi", "/var/run/cdi")
# uname -m, and what images call it
_ARCHITECTURES: t.Final[t.Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le"}
# podman gives it to what it starts in a unit that Quadlet has made.
_UNIT_LABEL: t.Final = "PODMAN_SYSTEMD_UNIT"
_VERSION = re.compile(r"(\d+)\.(\d+)")
_CDI_KIND = re.compile(r"""^\s*kind:\s*["']?([^"'\s#]+)""", re.MULTILINE)
_CDI_NAME = re.compile(r"""^\s*(?:-\s+)?name:\s*["']?([^"'\s#]+)""", re.MULTILINE)


@dataclass(frozen=True)
class Image:
    """An image on this node. ``size`` in bytes."""

    id: str
    digest: str
    architecture: str
    size: int

    def as_dict(self) -> dict[str, t.Any]:
        """The form that modules return."""
        return {"id": self.id, "digest": self.digest, "architecture": self.architecture, "size": self.size}


class Podman:
    """``run`` executes a command and gives its status, stdout and stderr; 127 where the program is missing."""

    def __init__(
        self, run: Run, generators: t.Sequence[str] = GENERATORS, cdi_dirs: t.Sequence[str] = CDI_DIRS
    ) -> None:
        self._run = run
        self._generators = generators
        self._cdi_dirs = cdi_dirs

    def version(self) -> str:
        """As ``5.4.2``; empty when there is no podman."""
        rc, out, _err = self._run(["podman", "--version"])
        return out.split()[-1] if rc == 0 and out.strip() else ""

    def judge(self) -> list[Finding]:
        """Is this podman one that can run a container as a service?"""
        version = self.version()
        oldest = ".".join(map(str, quadlet.OLDEST_PODMAN))
        if not version:
            return [
                error(
                    "podman-missing",
                    "There is no podman on this node.",
                    f"Install podman {oldest} or newer, or set serve_engine to venv.",
                )
            ]
        match = _VERSION.match(version)
        if match is not None and (int(match[1]), int(match[2])) < quadlet.OLDEST_PODMAN:
            return [
                error(
                    "podman-too-old",
                    f"podman {version} has no Quadlet, which makes a service of a container; it came with {oldest}.",
                    "Use a release of the system with a newer podman (Debian 13, Ubuntu 24.04, RHEL 9.2), or set"
                    " serve_engine to venv.",
                    installed=version,
                    minimum=oldest,
                )
            ]
        if self._generator() is None:
            return [
                error(
                    "quadlet-missing",
                    f"podman {version} is here without its generator for systemd: {' and '.join(self._generators)} are"
                    " not there.",
                    "Install the whole package podman of the distribution.",
                )
            ]
        return []

    def _generator(self) -> str | None:
        return next((path for path in self._generators if os.access(path, os.X_OK)), None)

    # The image

    def image(self, reference: str) -> Image | None:
        """The image if it is on this node."""
        rc, out, _err = self._run(["podman", "image", "inspect", "--format=json", "--", reference])
        if rc != 0:
            return None
        try:
            (found,) = json.loads(out)
            return Image(str(found["Id"]), str(found["Digest"]), str(found["Architecture"]), int(found["Size"]))
        except (ValueError, KeyError, TypeError) as e:
            raise ModelopsError(
                f"podman image inspect {reference} gives no description of one image: {out.strip()[-300:]}",
                "Look at podman info, and repair podman's storage.",
            ) from e

    def pull(self, reference: str, auth_file: str) -> None:
        """Fetch it from its registry. Credentials come from ``auth_file`` or where podman login has put them."""
        auth = [f"--authfile={auth_file}"] if auth_file else []
        rc, out, err = self._run(["podman", "pull", "--quiet", *auth, "--", reference])
        if rc != 0:
            raise ModelopsError(
                f"podman pull {reference} failed with status {rc}: {(err or out).strip()[-700:]}",
                "Look whether the registry can be reached and has this digest; where it wants credentials, write them"
                " with podman login --authfile FILE and set serve_image_auth_file to FILE.",
            )

    @staticmethod
    def judge_image(reference: str, image: Image, machine: str = "") -> list[Finding]:
        """May the image run on this machine at all?"""
        machine = machine or platform.machine()
        own = _ARCHITECTURES.get(machine, machine)
        if image.architecture in ("", own):
            return []
        return [
            error(
                "image-architecture",
                f"{reference} is an image for {image.architecture}, and this node is {own}.",
                "Take the digest of the list of all architectures, or of the image for this one.",
                image=image.architecture,
                node=own,
            )
        ]

    # Its name

    def judge_names(self, instance: str) -> list[Finding]:
        """Is each container that has the name of the instance, or of one of its replicas, that of its own unit?

        The unit removes what it finds under its name before it starts, which must not be somebody else's container.
        Raises ModelopsError when podman does not tell.
        """
        argv = ["podman", "ps", "--all", "--format=json", f"--filter=name=^vllm-{instance}(-r[0-9]+)?$"]
        rc, out, err = self._run(argv)
        try:
            if rc != 0:
                raise ValueError(err)
            found = [(str(c["Names"][0]), str((c["Labels"] or {}).get(_UNIT_LABEL) or "")) for c in json.loads(out)]
        except (ValueError, KeyError, IndexError, TypeError) as e:
            raise ModelopsError(
                f"podman ps does not tell which containers there are: {(err or out).strip()[-300:]}",
                "Look at podman info, and repair podman's storage.",
            ) from e
        return [
            error(
                "container-foreign",
                f"There is a container {name} on this node, which {unit or 'somebody'} has started and not the unit"
                f" {name}.service. It would be removed by the start of that unit.",
                f"Rename it (podman rename {name} NAME), or stop and remove it yourself if it may go; or choose another"
                " serve_instance.",
                container=name,
                unit=unit,
            )
            for name, unit in sorted(found)
            if unit != f"{name}.service"
        ]

    # What the container gets of the node

    def cdi_devices(self) -> set[str]:
        """Names of the devices that CDI specifications describe, as ``nvidia.com/gpu=0``."""
        names: set[str] = set()
        for folder in self._cdi_dirs:
            for path in _files(folder):
                names |= _cdi_names(path)
        return names

    def judge_devices(self, devices: t.Sequence[str]) -> list[Finding]:
        """Are the devices there? Those below /dev are looked up, the others must be in a CDI specification."""
        missing = [d for d in devices if d.startswith("/") and not os.path.exists(d.partition(":")[0])]
        wanted = [d for d in devices if not d.startswith("/")]
        known = self.cdi_devices() if wanted else set()
        missing += [d for d in wanted if d not in known]
        if not missing:
            return []
        return [
            error(
                "device-unknown",
                f"podman does not know {', '.join(missing)}; the CDI specifications in {' and '.join(self._cdi_dirs)}"
                f" have {', '.join(sorted(known)) or 'no device'}.",
                "Run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml (again after each change of the driver).",
                missing=missing,
            )
        ]

    @staticmethod
    def judge_volumes(volumes: t.Sequence[str]) -> list[Finding]:
        """Is what is mounted there? podman starts no container without it."""
        return [
            error(
                "volume-missing",
                f"{path} does not exist, and podman starts no container without it.",
                "Make it, or take it out of serve_container_volumes.",
                path=path,
            )
            for path in map(quadlet.volume_source, volumes)
            if not os.path.lexists(path)
        ]

    @staticmethod
    def judge_links(folder: str, volumes: t.Sequence[str]) -> list[Finding]:
        """Do the links of the model stay within what is mounted? Those of the Hub's cache lead to another folder."""
        outside = sorted(_leaving(folder, [quadlet.volume_source(v) for v in volumes]))
        if not outside:
            return []
        return [
            error(
                "link-outside",
                f"{len(outside)} links in {folder} lead to where the container does not see, {outside[0]} to"
                f" {os.path.realpath(outside[0])}.",
                "Add the folder with the real files to serve_container_volumes, under the same path and with :ro.",
                links=len(outside),
            )
        ]

    # The file

    def judge_file(self, name: str, text: str) -> list[Finding]:
        """What Quadlet and systemd say to the text of ``<name>.container``."""
        generator = self._generator()
        if generator is None:
            return []
        with tempfile.TemporaryDirectory(prefix="modelops-quadlet-") as folder:
            with open(os.path.join(folder, f"{name}.container"), "w", encoding="utf-8") as f:
                f.write(text)
            _rc, out, err = self._run(["env", f"QUADLET_UNIT_DIRS={folder}", generator, "--dryrun"])
            unit = _generated(out, f"{name}.service")
            if not unit:
                return [
                    error(
                        "quadlet-refused",
                        f"podman {self.version()} makes no service of {name}.container: {_reason(err, folder)}",
                        "Correct serve_unit_overrides or serve_container_volumes.",
                    )
                ]
            path = os.path.join(folder, f"{name}.service")
            with open(path, "w", encoding="utf-8") as f:
                f.write(unit)
            rc, out, err = self._run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path])
        if rc == 127 or (rc == 0 and not err.strip()):
            return []
        report = error if rc else warning
        return [
            report(
                "unit-refused", f"systemd says to {name}.service: {_reason(err, folder)}", "See serve_unit_overrides."
            )
        ]


@dataclass(frozen=True)
class Sandbox:
    """What a question to an image gets of the node: the volumes and devices of the instance that it will serve."""

    image: str
    volumes: t.Sequence[str] = ()
    devices: t.Sequence[str] = ()

    def command(self, argv: t.Sequence[str], environment: t.Mapping[str, str], seconds: int) -> list[str]:
        """Runs ``argv`` in a container that has no network and no rights, ends in time and leaves nothing behind."""
        return [
            "podman",
            "run",
            "--rm",
            "--pull=never",
            "--network=none",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            "--security-opt=label=disable",
            "--log-driver=none",
            "--pids-limit=0",
            f"--timeout={seconds}",
            *(f"--volume={v}" for v in self.volumes),
            *(f"--device={d}" for d in self.devices),
            *(f"--env={name}={value}" for name, value in environment.items()),
            f"--entrypoint={argv[0]}",
            self.image,
            *argv[1:],
        ]


def _files(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        return []


def _cdi_names(path: str) -> set[str]:
    """The devices of one specification: JSON, or the YAML that nvidia-ctk writes (no YAML library is on every node)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
    except OSError:
        return set()
    if path.endswith(".json"):
        try:
            spec = json.loads(text)
            return {f"{spec['kind']}={device['name']}" for device in spec["devices"]}
        except (ValueError, KeyError, TypeError):
            return set()
    kind = _CDI_KIND.search(text)
    if kind is None or not path.endswith((".yaml", ".yml")):
        return set()
    return {f"{kind[1]}={name}" for name in _CDI_NAME.findall(text)}


def _leaving(folder: str, sources: t.Sequence[str]) -> set[str]:
    """Links below ``folder`` whose target is below none of the sources, which may be links themselves."""
    inside = [os.path.realpath(source) for source in sources]
    found: set[str] = set()
    for parent, directories, files in os.walk(folder):
        for path in (os.path.join(parent, name) for name in (*directories, *files)):
            target = os.path.realpath(path) if os.path.islink(path) else folder
            if target != folder and not any(f"{target}/".startswith(f"{top.rstrip('/')}/") for top in inside):
                found.add(path)
    return found


def _generated(out: str, name: str) -> str:
    """The text of one unit in what the generator prints: each begins with ``---NAME---``."""
    _before, mark, rest = out.partition(f"---{name}---\n")
    return re.split(r"^---\S+---$", rest, maxsplit=1, flags=re.MULTILINE)[0] if mark else ""


def _reason(text: str, folder: str) -> str:
    """The line that says what is wrong with the files in ``folder``: Quadlet warns before it and sums up behind."""
    lines = [line.strip().replace(f"{folder}/", "") for line in text.splitlines() if line.strip()]
    said = [line for line in lines if "converting" in line] or lines
    return said[-1][-500:] if said else "no message"
