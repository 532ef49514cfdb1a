# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""Releases on disk: what an instance was, is and can go back to.

Below the state directory::

    instances/<instance>/releases/<id>/    the files of a release and release.json
    instances/<instance>/current           link to the release that was activated last
    instances/<instance>/last_good         link to the release that proved last that it answers

A release is never changed after it was staged; its id ends with the digest of its content, so that staging the same
content again finds it. Nothing here touches a running instance.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import typing as t
from dataclasses import dataclass

from .._errors import ModelopsError
from . import render

RECORD: t.Final = "release.json"
PROOF: t.Final = "proven.json"
SCHEMA: t.Final = 1
Link: t.TypeAlias = t.Literal["current", "last_good"]
_INSTANCE = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECRETS: t.Final = "secrets.env"
# modelops.vllm 1.0.0 kept one copy of the last good files under these names, in a folder called last_good.
_OLD_FILES: t.Final = ("args.yaml", _SECRETS, "unit.service")
# Where that folder is while a link takes its place.
_ASIDE: t.Final = ".1.0.0"
_DIGITS: t.Final = 8
# No part of the digest. The ports stand in the files too, and releases of before they were told go on to be found.
_BESIDE: t.Final = ("schema", "id", "created", "digest", "plan", "ports")
# Shorter values are words that stand in every log.
_SECRET_LENGTH: t.Final = 6


class File(t.TypedDict):
    """One file of a release: its name there, where activation puts it, and its mode ("0600")."""

    name: str
    dest: str
    mode: str


@dataclass(frozen=True)
class Release:
    """A staged release. ``path`` is its directory, ``record`` the content of its release.json."""

    path: str
    record: t.Mapping[str, t.Any]

    @property
    def id(self) -> str:
        return os.path.basename(self.path)

    @property
    def instance(self) -> str:
        return str(self.record["instance"])

    def pointer(self, link: Link) -> tuple[str, str]:
        """Where ``link`` of its instance is, and what that link holds when it points to this release."""
        folder, releases = os.path.split(os.path.dirname(self.path))
        return os.path.join(folder, link), os.path.join(releases, self.id)

    @property
    def service(self) -> str:
        """The name that several instances (replicas) share, or that of the instance."""
        return str(self.record.get("service") or self.instance)

    @property
    def unit(self) -> str:
        return str(self.record["unit"])

    @property
    def files(self) -> list[File]:
        return list(self.record["files"])

    @property
    def devices(self) -> frozenset[str]:
        """Indices of the GPUs that it uses; empty on a node without GPUs."""
        return frozenset(map(str, self.record.get("devices") or []))

    @property
    def question(self) -> dict[str, t.Any]:
        """How readiness is asked, without the API key."""
        return dict(self.record["question"])

    def api_key(self) -> str | None:
        """The key that clients need, from the secrets of the release."""
        text = self.read(_SECRETS) if any(f["name"] == _SECRETS for f in self.files) else ""
        return render.read_env_file(text).get("VLLM_API_KEY")

    @property
    def headless(self) -> bool:
        """Whether it is a worker of a group, which serves no HTTP."""
        group = self.record.get("group")
        return group is not None and int(group["rank"]) > 0

    def read(self, name: str) -> str:
        """The text of one of its files. Raises OSError."""
        with open(os.path.join(self.path, name), encoding="utf-8") as f:
            return f.read()

    def intact(self) -> bool:
        """Whether its files are still those that were staged."""
        try:
            contents = {f["name"]: self.read(f["name"]) for f in self.files}
        except (OSError, UnicodeDecodeError):
            return False
        return bool(digest(contents, self.record) == self.record["digest"])

    def summary(self) -> dict[str, t.Any]:
        """What a module returns about it: no file content."""
        keys = ("instance", "unit", "model", "model_dir", "commit", "vllm_version", "layout", "devices", "port")
        return {"release": self.id, **{key: self.record.get(key) for key in keys}}


def secrets_of(releases: t.Iterable[Release]) -> frozenset[str]:
    """The secrets of these releases, as far as they can be read, that are long enough to be told from words."""
    found: set[str] = set()
    for release in releases:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found.update(render.read_env_file(release.read(_SECRETS)).values())
    return frozenset(secret for secret in found if len(secret) >= _SECRET_LENGTH)


def mask(text: str, secrets: t.Iterable[str]) -> str:
    """The text without the secrets; a long one that holds a short one is masked whole."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "********")
    return text


def digest(contents: t.Mapping[str, str], facts: t.Mapping[str, t.Any]) -> str:
    """SHA-256 of everything that makes a release another one: its files, where they go, and what they serve."""
    facts = {key: value for key, value in facts.items() if key not in _BESIDE}
    text = json.dumps([sorted(contents.items()), facts], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Store:
    """The releases of one node."""

    def __init__(self, state_dir: str) -> None:
        self.state_dir = state_dir

    def _instance_dir(self, instance: str) -> str:
        if not _INSTANCE.fullmatch(instance):
            raise ModelopsError(
                f"{instance!r} is not the name of an instance.",
                "Use up to 60 small letters, digits, - and _, starting with a letter or a digit.",
            )
        return os.path.join(self.state_dir, "instances", instance)

    def _releases_dir(self, instance: str) -> str:
        return os.path.join(self._instance_dir(instance), "releases")

    def instances(self) -> list[str]:
        """All instances that have a release here, sorted."""
        return [name for name in self._names() if self.releases(name)]

    def secrets(self) -> frozenset[str]:
        """Those of all releases of the node."""
        return secrets_of(r for name in self.instances() for r in self.releases(name))

    def units(self) -> set[str]:
        """The units of all current releases, and of the instances of modelops.vllm 1.0.0."""
        old = {f"vllm-{name}.service" for name in self._names() if self._old_folder(name)}
        return old | {r.unit for name in self.instances() if (r := self.linked(name, "current")) is not None}

    def _names(self) -> list[str]:
        try:
            names = os.listdir(os.path.join(self.state_dir, "instances"))
        except OSError:
            return []
        return sorted(name for name in names if _INSTANCE.fullmatch(name))

    def _old_folder(self, instance: str) -> str:
        """What modelops.vllm 1.0.0 left, also when its adoption was cut off; empty when there is nothing to adopt."""
        folder = os.path.join(self._instance_dir(instance), "last_good")
        places = (folder, folder + _ASIDE)
        return next((path for path in places if os.path.isdir(path) and not os.path.islink(path)), "")

    def releases(self, instance: str) -> list[Release]:
        """All readable releases of an instance, the oldest first."""
        try:
            names = os.listdir(self._releases_dir(instance))
        except OSError:
            return []
        found = [r for name in names if _ID.fullmatch(name) and (r := self._load(instance, name)) is not None]
        return sorted(found, key=lambda r: (str(r.record["created"]), r.id))

    def _load(self, instance: str, id_: str) -> Release | None:
        path = os.path.join(self._releases_dir(instance), id_)
        try:
            with open(os.path.join(path, RECORD), encoding="utf-8") as f:
                record = json.load(f)
            if record["schema"] != SCHEMA or record["instance"] != instance:
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Release(path, record)

    def get(self, instance: str, id_: str) -> Release:
        """A release by its id. Raises ModelopsError when there is none."""
        release = self._load(instance, id_) if _ID.fullmatch(id_) else None
        if release is None:
            known = ", ".join(r.id for r in self.releases(instance)) or "none"
            raise ModelopsError(
                f"The instance {instance} has no release {id_!r} in {self.state_dir}; there are: {known}.",
                "Choose one of them, or deploy a new one.",
            )
        return release

    def linked(self, instance: str, link: Link) -> Release | None:
        """The release that ``current`` or ``last_good`` points to; None when there is none."""
        try:
            target = os.readlink(os.path.join(self._instance_dir(instance), link))
        except OSError:
            return None
        return self._load(instance, os.path.basename(target))

    def previous(self, instance: str) -> Release | None:
        """What a rollback goes back to: the last good release if it is not current, else the one proven before it."""
        current, good = self.linked(instance, "current"), self.linked(instance, "last_good")
        if good is not None and current is not None and good.id != current.id:
            return good
        proven = [(self._proven(r), r) for r in self.releases(instance) if good is None or r.id != good.id]
        proven = [(when, r) for when, r in proven if when]
        return max(proven, key=lambda pair: pair[0])[1] if proven else None

    def stage(
        self,
        contents: t.Mapping[str, str],
        facts: t.Mapping[str, t.Any],
        created: str,
        validate: t.Callable[[str], None] = lambda _path: None,
    ) -> tuple[Release, bool]:
        """Have a release with this content: (the release, whether it is new).

        ``facts`` is release.json without schema, id, created and digest; ``created`` an ISO time in UTC. ``validate``
        gets the directory before it becomes a release and raises what is wrong with it.
        """
        if self.find(contents, facts) is None:
            self.adopt_old(created)
        return self._stage(contents, facts, created, validate)

    def _stage(
        self,
        contents: t.Mapping[str, str],
        facts: t.Mapping[str, t.Any],
        created: str,
        validate: t.Callable[[str], None] = lambda _path: None,
    ) -> tuple[Release, bool]:
        found = self.find(contents, facts)
        if found is not None:
            return found, False
        instance = str(facts["instance"])
        sum_ = digest(contents, facts)
        id_ = f"{re.sub('[^0-9TZ]', '', created)}-{sum_[:_DIGITS]}"
        record = {**facts, "schema": SCHEMA, "id": id_, "created": created, "digest": sum_}
        parent = _make_private(self._releases_dir(instance))
        work = tempfile.mkdtemp(prefix=".new-", dir=parent)
        try:
            modes = {f["name"]: int(f["mode"], 8) for f in facts["files"]}
            for name, text in contents.items():
                write_file(os.path.join(work, name), text, modes[name])
            write_file(os.path.join(work, RECORD), _json(record), 0o600)
            validate(work)
            os.rename(work, os.path.join(parent, id_))
            sync_folder(parent)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        return self.get(instance, id_), True

    def find(self, contents: t.Mapping[str, str], facts: t.Mapping[str, t.Any]) -> Release | None:
        """The newest intact release with exactly this content."""
        sum_ = digest(contents, facts)
        same = [r for r in self.releases(str(facts["instance"])) if r.record["digest"] == sum_ and r.intact()]
        return same[-1] if same else None

    def point(self, release: Release, link: Link) -> None:
        """Let ``link`` of the instance point to this release, atomically."""
        place, target = release.pointer(link)
        folder = os.path.dirname(place)
        fresh = os.path.join(folder, f".{link}.new")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(target, fresh)
        os.replace(fresh, place)
        sync_folder(folder)

    def mark_proven(self, release: Release, when: str) -> None:
        """It has answered: it is the last good one, and can be gone back to later."""
        write_file(os.path.join(release.path, PROOF), _json({"proven": when}), 0o600)
        self.point(release, "last_good")

    def _proven(self, release: Release) -> str:
        try:
            with open(os.path.join(release.path, PROOF), encoding="utf-8") as f:
                return str(json.load(f)["proven"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def prune(self, instance: str, keep: int) -> list[str]:
        """Remove all but the ``keep`` newest releases; never what is current, last good or gone back to next."""
        needed = (self.linked(instance, "current"), self.linked(instance, "last_good"), self.previous(instance))
        kept = {r.id for r in needed if r is not None} | {r.id for r in self.releases(instance)[-keep:]}
        gone = [r for r in self.releases(instance) if r.id not in kept]
        for release in gone:
            shutil.rmtree(release.path, ignore_errors=True)
        return [r.id for r in gone]

    def adopt_old(self, created: str) -> None:
        """Make releases of what modelops.vllm 1.0.0 left as last good ones, so that a failure can go back to them."""
        for instance in self._names():
            folder = self._old_folder(instance)
            if folder:
                self._adopt(instance, folder, created)

    def _adopt(self, instance: str, folder: str, created: str) -> None:
        """Done again from the start after it was cut off: ``current`` is the last but the removal."""
        if self.linked(instance, "current") is not None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        try:
            contents = {name: read_file(os.path.join(folder, name)) for name in _OLD_FILES}
            question = json.loads(read_file(os.path.join(folder, "question.json")))
            question.pop("api_key", None)
            unit = f"vllm-{instance}.service"
            args = re.search(r'"?--config"? "?([^"\s]+)', contents["unit.service"])
            secrets = re.search(r"^EnvironmentFile=(.+)$", contents["unit.service"], re.MULTILINE)
            if args is None or secrets is None:
                return
        except (OSError, ValueError, AttributeError):
            return
        dests = (args[1], secrets[1], f"/etc/systemd/system/{unit}")
        modes = ("0644", "0600", "0644")
        files: list[File] = [
            {"name": name, "dest": dest, "mode": mode}
            for name, dest, mode in zip(_OLD_FILES, dests, modes, strict=True)
        ]
        facts = {"instance": instance, "unit": unit, "files": files, "question": question, "model": question["model"]}
        release, _new = self._stage(contents, facts, created)
        if not folder.endswith(_ASIDE):
            os.rename(folder, folder + _ASIDE)
        self.mark_proven(release, created)
        self.point(release, "current")
        shutil.rmtree(os.path.join(self._instance_dir(instance), "last_good" + _ASIDE), ignore_errors=True)


def _make_private(path: str) -> str:
    """A directory of root's own, with its parents below the state directory."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def read_file(path: str) -> str:
    with open(path, encoding="utf-8") as f:
        return f.read()


def _json(value: t.Any) -> str:
    return json.dumps(value, sort_keys=True, indent=1) + "\n"


def write_file(path: str, text: str, mode: int) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut; it never has a wider mode."""
    fresh = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)
    os.replace(fresh, path)


def sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
