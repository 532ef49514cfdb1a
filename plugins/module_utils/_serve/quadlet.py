# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""A service of this collection as a container: the text of the .container file that podman's Quadlet reads.

Pure functions. The sections are those of the service in a virtual environment: what systemd would do to the process of
vLLM there (limits, umask, working directory), podman has to do here, since systemd starts podman. Only keys that
Quadlet has known since podman 4.4 are used, and flags of ``podman run`` for the rest, so that one text fits them all.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from .._errors import ModelopsError
from . import render

OLDEST_PODMAN: t.Final = (4, 4)
DIRECTORY: t.Final = "/etc/containers/systemd"
SECTION: t.Final = "Container"

Sections: t.TypeAlias = "t.Mapping[str, t.Mapping[str, t.Any]]"

_HEX64: t.Final = "[0-9a-f]{64}"
_LOCAL_ID = re.compile(f"(?:sha256:)?({_HEX64})")
# distribution/reference: a registry has a dot or a port or is localhost; anything else is a short name, which each node
# looks up in its own list of registries.
_REFERENCE = re.compile(
    r"(?P<name>(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+(?=:))(?::[0-9]+)?"
    r"(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)+)"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    rf"(?:@(?P<digest>sha256:{_HEX64}))?"
)
_DEVICE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./:=-]*")
_OWNER = re.compile(r"[0-9]+:[0-9]+")
_SIZE = re.compile(r"[1-9][0-9]*[bkmg]?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# podman run --ulimit
_ULIMITS: t.Final = ("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss",
                     "rtprio", "rttime", "sigpending", "stack")  # fmt: skip
_LIMIT_VALUE = re.compile(r"(?:[0-9]+|infinity)(?::(?:[0-9]+|infinity))?")
# Directives of [Service] that would act on podman instead of vLLM, and the flag of `podman run` with the same effect.
_FLAGS: t.Final[t.Mapping[str, str]] = {
    "WorkingDirectory": "--workdir",
    "UMask": "--umask",
    "OOMScoreAdjust": "--oom-score-adj",
}
# Those that Quadlet sets itself, or that [Container] has instead.
_REPLACED: t.Final = ("Type", "User", "Group", "NoNewPrivileges", "KillMode")
# Sandboxing by systemd: it would be podman's, which needs to mount and to make cgroups. vLLM gets that of the
# container: its own file system, no capability, podman's filter of system calls.
_SANDBOX = re.compile(
    "(?:Protect|Private|Restrict|SystemCall)[A-Za-z]+|(?:Bind|BindReadOnly|ReadOnly|ReadWrite|Inaccessible|Exec|NoExec)Paths"
    "|(?:Root|Mount)[A-Z][A-Za-z]+|TemporaryFileSystem|LockPersonality|MemoryDenyWriteExecute|CapabilityBoundingSet"
    "|AmbientCapabilities|SecureBits|DynamicUser|RemoveIPC|DevicePolicy|DeviceAllow"
)
# Between podman's own SIGKILL and that of systemd, so that podman can clean up behind it.
_STOP_MARGIN: t.Final = 10
# What a file of this collection needs of its node.
_NEED = re.compile(r"^(Image|AddDevice|Volume)=(.*)$", re.MULTILINE)
# An override of these would start something else than what was checked, or get in the way of the stop.
_KEPT: t.Final[t.Mapping[str, str]] = {
    "ContainerName": "the role names it after the unit",
    "Image": "set serve_image",
    "Rootfs": "set serve_image",
    "Exec": "serve_args makes it",
    "Entrypoint": "serve_args makes it",
    "User": "set serve_user",
    "Group": "set serve_group",
    "Environment": "set serve_env",
    "EnvironmentFile": "set serve_secret_env",
    "EnvironmentHost": "set serve_env and serve_secret_env",
    "Volume": "set serve_container_volumes",
    "LogDriver": "the wait for readiness reads the journal of the unit",
    "Notify": "the role waits for readiness itself",
    "Pull": "the image is pulled before anything is stopped",
    "ServiceName": "the role names it after the instance",
    "StopTimeout": "set serve_stop_timeout",
    "StopSignal": "vLLM ends its requests and its workers on SIGTERM",
    "AutoUpdate": "the image is the one that was checked, until another is deployed",
    "Network": "vLLM listens on serve_host and serve_port of the node",
    "Pod": "vLLM listens on serve_host and serve_port of the node",
    **dict.fromkeys(
        ("UserNS", "UIDMap", "GIDMap", "SubUIDMap", "SubGIDMap", "RemapUsers", "RemapUid", "RemapGid"),
        "the files of the model and of the caches belong to the users of the node",
    ),
}
# Flags of `podman run` that do the same as a key that is kept; the last one of several holds.
_KEPT_FLAGS: t.Final[t.Mapping[str, str]] = {
    "--name": "ContainerName",
    "--rootfs": "Rootfs",
    "--entrypoint": "Entrypoint",
    "--user": "User",
    "-u": "User",
    "--log-driver": "LogDriver",
    "--pull": "Pull",
    "--stop-timeout": "StopTimeout",
    "--stop-signal": "StopSignal",
    "--network": "Network",
    "--net": "Network",
    "--pod": "Pod",
    "--userns": "UserNS",
    "--uidmap": "UIDMap",
    "--gidmap": "GIDMap",
}
_GPU = re.compile(r"nvidia\.com/gpu=|/dev/nvidia[0-9]|--gpus\b")


@dataclass(frozen=True)
class Container:
    """What runs in the container, and what it gets of the node."""

    name: str
    """Name of the container: that of the unit without ``.service``."""
    image: str
    """As :func:`image_reference` returns it."""
    argv: t.Sequence[str]
    """The command; its first word replaces the entry point of the image."""
    user: str
    """Numbers, ``uid:gid``: the names of the node mean nothing in the image."""
    environment: t.Mapping[str, t.Any] = field(default_factory=dict)
    secrets: t.Collection[str] = ()
    """Names of variables that come from ``EnvironmentFile=`` of the service; their values stand in no command."""
    volumes: t.Sequence[str] = ()
    """``/on/the/node:/in/the/container[:options]``"""
    devices: t.Sequence[str] = ()
    """CDI devices (``nvidia.com/gpu=0``) or paths below /dev."""
    shm_size: str = ""
    """Size of an own /dev/shm (``16g``); empty for the one of the node."""


@dataclass(frozen=True)
class Needs:
    """What a container cannot start without."""

    image: str
    devices: t.Sequence[str]
    volumes: t.Sequence[str]
    """Each as :attr:`Container.volumes` has it."""


def needs_of(text: str) -> Needs:
    """What the container of a file needs that :func:`container_file` has written."""
    found: dict[str, list[str]] = {"Image": [], "AddDevice": [], "Volume": []}
    for key, value in _NEED.findall(text):
        found[key].append(value)
    # An override may name several on a line, and with a minus those that need not be there.
    devices = [word for line in found["AddDevice"] for word in line.split() if not word.startswith("-")]
    volumes = [volume.replace("%%", "%").replace("$$", "$") for volume in found["Volume"]]
    return Needs(" ".join(found["Image"]), devices, volumes)


def image_reference(image: str, *, allow_local: bool = False) -> str:
    """The image as podman takes it: ``registry/name@sha256:...`` (a tag in between is dropped), or an image id.

    Raises ModelopsError for a tag alone, which can be another image tomorrow, and for a name without registry.
    """
    local = _LOCAL_ID.fullmatch(image)
    if local and allow_local:
        return local[1]
    if local:
        raise ModelopsError(
            f"serve_image is the id of a local image, {image}, which no other node can pull.",
            "Write it as registry/name@sha256:..., or set serve_image_local to true to use what is on this node.",
        )
    match = _REFERENCE.fullmatch(image)
    if match is None:
        raise ModelopsError(
            f"serve_image is {image!r}, which is no full name of an image.",
            "Write it with its registry and its digest, as docker.io/vllm/vllm-openai@sha256:...",
        )
    if match["digest"] is None:
        raise ModelopsError(
            f"serve_image is {image}, without a digest: a tag can be another image tomorrow, so that neither a second"
            " node nor a rollback would get the same one.",
            f"Look the digest up (skopeo inspect --format '{{{{.Digest}}}}' docker://{image}) and write"
            f" {match['name']}@sha256:...",
        )
    return f"{match['name']}@{match['digest']}"


def container_file(sections: Sections, container: Container, overrides: Sections | None = None) -> str:
    """The text of ``<name>.container``. Raises ModelopsError for what Quadlet or podman would read differently.

    It has no [Install] section: a unit with one starts at boot as long as its file is in place, and a release shall do
    so only once it has proven itself. Node.enable makes the link that this takes.
    """
    own = dict(overrides or {})
    added = dict(own.pop(SECTION, {}))
    for key, value in own.get("Service", {}).items():
        if _SANDBOX.fullmatch(key) and value is not None:
            raise ModelopsError(
                f"serve_unit_overrides sets {key} of [Service], which would act on podman and not on vLLM.",
                f"Leave it out, or use the keys of [{SECTION}] for the container.",
            )
    merged = render.unit_with_overrides(sections, own)
    merged.pop("Install", None)
    service = merged["Service"]
    moved = _moved(service)
    stop = _stop_timeout(service)
    block = {
        "ContainerName": container.name,
        "Image": container.image,
        "User": _owner(container.user)[0],
        "Group": _owner(container.user)[1],
        "Network": "host",
        "NoNewPrivileges": service.get("NoNewPrivileges", True),
        "DropCapability": "all",
        # The model belongs to the node and is not relabelled for one container; NVIDIA's devices need it too.
        "SecurityLabelDisable": True,
        "AddDevice": [_checked(_DEVICE, d, "A device of the container") for d in container.devices],
        "Volume": [_literal(_volume(v)) for v in container.volumes],
        "Environment": [_word(w) for w in _environment(container.environment)],
        "PodmanArgs": [
            _word(flag)
            for flag in (
                f"--entrypoint={container.argv[0]}",
                "--pull=never",
                # Straight to the journal, under the unit and its invocation.
                "--log-driver=passthrough",
                f"--stop-timeout={stop}",
                # The unit's own limit of tasks holds; podman's 2048 are too few for eight workers that compile.
                "--pids-limit=0",
                f"--shm-size={_checked(_SIZE, container.shm_size, 'serve_container_shm_size')}"
                if container.shm_size
                else "--ipc=host",
                *moved,
                *(f"--env={_checked(_VARIABLE, name, 'A secret')}" for name in sorted(container.secrets)),
            )
        ],
        "Exec": " ".join(_word(word) for word in container.argv[1:]),
    }
    service = {key: value for key, value in service.items() if not _is_podmans(key)}
    service["ExecStartPre"] = [_clean(container.name), *render.listed(service.get("ExecStartPre"))]
    merged["Service"] = service
    merged = {"Unit": merged.pop("Unit", {}), SECTION: _with_overrides(block, added), **merged}
    return render.unit(merged)


def _clean(name: str) -> str:
    """Removes what a killed conmon has left: the first podman to find it fails, which must not be ``run --replace``."""
    return f"-/usr/bin/podman rm --volumes --force --ignore --time=0 {name}"


def _is_podmans(key: str) -> bool:
    return key in _REPLACED or _acts_on_process(key) or _SANDBOX.fullmatch(key) is not None


def _acts_on_process(key: str) -> bool:
    return key in _FLAGS or key.startswith("Limit")


def _moved(service: t.Mapping[str, t.Any]) -> list[str]:
    """The flags of ``podman run`` for the directives of [Service] that are about vLLM's process."""
    flags = []
    for key, value in service.items():
        if value is None or not _acts_on_process(key):
            continue
        if key in _FLAGS:
            flags.append(f"{_FLAGS[key]}={value}")
            continue
        name, text = key[len("Limit") :].lower(), str(value)
        if name not in _ULIMITS or not _LIMIT_VALUE.fullmatch(text):
            raise ModelopsError(
                f"{key}={value} in [Service] cannot be given to a container.",
                f"Write Limit with one of {', '.join(_ULIMITS).upper()} and a number, infinity or soft:hard.",
            )
        soft, _colon, hard = text.replace("infinity", "-1").partition(":")
        flags.append(f"--ulimit={name}={soft}:{hard or soft}")
    return flags


def _stop_timeout(service: t.Mapping[str, t.Any]) -> int:
    """Seconds that podman waits for vLLM's end before it kills, less than systemd waits for podman."""
    text = str(service.get("TimeoutStopSec", ""))
    if not text.isdigit() or int(text) <= _STOP_MARGIN:
        raise ModelopsError(
            f"TimeoutStopSec={text} is no number of seconds above {_STOP_MARGIN}.", "Set serve_stop_timeout to one."
        )
    return int(text) - _STOP_MARGIN


def _owner(user: str) -> tuple[str, str]:
    uid, _colon, gid = _checked(_OWNER, user, "The user of the container").partition(":")
    return uid, gid


def _volume(text: str) -> str:
    source, _colon, rest = text.partition(":")
    target, _colon, options = rest.partition(":")
    if not source.startswith("/") or not target.startswith("/") or ":" in options:
        raise ModelopsError(
            f"The volume {text!r} of the container is not /on/the/node:/in/the/container[:options].",
            "Use absolute paths without a colon; a model below such a path has to move.",
        )
    return text


def volume_source(text: str) -> str:
    """The path on the node. Raises ModelopsError as :func:`container_file` does."""
    return _volume(text).partition(":")[0]


def _environment(env: t.Mapping[str, t.Any]) -> list[str]:
    render.unit_environment(env)  # refuses what systemd could not carry
    return [f"{name}={env[name]}" for name in sorted(env)]


def _word(text: str) -> str:
    """One word that Quadlet splits off and writes into ``ExecStart=``, where systemd expands ``%`` and ``$``."""
    return render.exec_line([text])


def _literal(text: str) -> str:
    """A value that Quadlet takes as one word, whatever is in it, and writes into ``ExecStart=``."""
    return text.replace("%", "%%").replace("$", "$$")


def _checked(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise ModelopsError(f"{what} is {text!r}, which does not match {pattern.pattern}.", "Correct it.")
    return text


def _with_overrides(block: t.Mapping[str, t.Any], overrides: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Lists get longer, other values are replaced."""
    merged = dict(block)
    for key, value in overrides.items():
        _refuse_kept(key, value)
        before = merged.get(key)
        merged[key] = before + render.listed(value) if isinstance(before, list) else value
    return merged


def _refuse_kept(key: str, value: t.Any) -> None:
    """Raises ModelopsError for an override that would change what is kept, by its key or by a flag."""
    words = [word.strip("'\"") for line in render.listed(value) for word in str(line).split()]
    flags = [word.partition("=")[0] for word in words] if key == "PodmanArgs" else []
    for said, name in [(key, key), *((f"{flag} by {key}", _KEPT_FLAGS[flag]) for flag in flags if flag in _KEPT_FLAGS)]:
        if name in _KEPT:
            raise ModelopsError(
                f"serve_unit_overrides must not change {said} of [{SECTION}]: {_KEPT[name]}.", "Leave it out."
            )
    gpus = [word for word in words if _GPU.search(word)] if key in ("AddDevice", "PodmanArgs") else []
    if gpus:
        raise ModelopsError(
            f"serve_unit_overrides must not add GPUs to the container, as {key}={gpus[0]} of [{SECTION}] does: they may"
            " be those of another instance.",
            "Set serve_devices.",
        )
