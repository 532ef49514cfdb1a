# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""What a switch finds on its node: who is in the way, what to go back to, and what is not ours. Reads only."""

from __future__ import annotations

import os
import re
import typing as t

from .._errors import ModelopsError
from .._findings import Finding, error
from . import quadlet
from .journal import Entry
from .node import Node, run
from .placing import foreign_files
from .podman import Podman
from .release import Release, Store

_COMMAND = re.compile(r'^ExecStart="?(/[^\s"]+)', re.MULTILINE)


def devices_of(releases: t.Iterable[Release]) -> frozenset[str]:
    """All GPUs that they use."""
    return frozenset().union(*(r.devices for r in releases))


def find(store: Store, wanted: t.Mapping[str, str]) -> list[Release]:
    """The releases {instance: id} that are still there."""
    found = []
    for instance, id_ in wanted.items():
        try:
            found.append(store.get(instance, id_))
        except ModelopsError:
            continue
    return found


def alive(node: Node, release: Release) -> bool:
    """Whether its unit runs, or would at the next boot."""
    return node.runs(release.unit) or node.enabled(release.unit)


def rivals(node: Node, store: Store, targets: t.Sequence[Release]) -> list[Release]:
    """Other instances of this node that must go: same service under another instance name, or same GPUs."""
    names, services = {r.instance for r in targets}, {r.service for r in targets}
    devices = devices_of(targets)
    others = [store.linked(i, "current") for i in store.instances() if i not in names]
    return [r for r in others if r is not None and (r.service in services or r.devices & devices) and alive(node, r)]


def about_the_same(store: Store, entry: Entry, targets: t.Sequence[Release]) -> bool:
    """Whether an earlier switch was about services or GPUs of this one."""
    services, devices = {r.service for r in targets}, devices_of(targets)
    meant = find(store, entry.targets) + find(store, entry.before)
    return any(r.service in services or r.devices & devices for r in meant)


def way_back(
    node: Node, store: Store, targets: t.Sequence[Release], leaving: t.Sequence[Release], cut_off: Entry | None
) -> list[Release]:
    """What to go back to: what served before a cut-off switch, what runs or starts at boot, else what was good last.

    What a switch that was cut off has started is never gone back to: it has not answered.
    """
    own = [r for x in targets if (r := store.linked(x.instance, "last_good")) is not None]
    now = [r for r in own if alive(node, r)]
    for rival in leaving:
        good = store.linked(rival.instance, "last_good") or (rival if node.runs(rival.unit) else None)
        now += [good] if good is not None else []
    if cut_off is None:
        return now or own
    before = find(store, cut_off.before)
    known = {*cut_off.before, *cut_off.targets}
    return before + [r for r in now if r.instance not in known]


def not_ours(node: Node, store: Store, changing: t.Sequence[Release]) -> list[Finding]:
    """Units and files under our names that somebody else made, and units of ours whose release cannot be read."""
    findings = []
    for release in changing:
        if store.linked(release.instance, "current") or store.linked(release.instance, "last_good"):
            continue
        strange = foreign_files(release)
        if strange or node.runs(release.unit):
            what = f"the files {', '.join(strange)}" if strange else "no release of it can be read"
            findings.append(
                error(
                    "unit-foreign",
                    f"{release.unit} is not known to this collection as a service that it could go back to: {what}.",
                    "If it may go, stop it and move its files away yourself. Or choose another serve_instance.",
                    unit=release.unit,
                )
            )
    return findings


def missing(release: Release, podman: Podman | None = None) -> list[str]:
    """What a release needs and the node has no more, such as weights or a virtual environment that were removed.

    ``podman`` is asked about one in a container, by default that of this node.
    """
    needed, lost = [], []
    if release.record.get("model_dir"):
        needed.append(os.path.join(str(release.record["model_dir"]), "config.json"))
    for file in release.files:
        if file["name"] == "unit.service":
            needed += _COMMAND.findall(release.read(file["name"]))
        if file["name"] == "unit.container":
            # The start puts the files of the release there itself.
            own = {f["dest"] for f in release.files}
            lost += _lost(quadlet.needs_of(release.read(file["name"])), own, podman or Podman(run))
    return [path for path in needed if not os.path.exists(path)] + lost


def _lost(needs: quadlet.Needs, own: t.Collection[str], podman: Podman) -> list[str]:
    """What a container needs and podman would not find: it is started with ``--pull=never``."""
    devices = podman.judge_devices(needs.devices)
    volumes = podman.judge_volumes([v for v in needs.volumes if quadlet.volume_source(v) not in own])
    return [
        *([] if podman.image(needs.image) else [f"{needs.image} (image)"]),
        *(f"{device} (device)" for finding in devices for device in finding.numbers["missing"]),
        *(finding.numbers["path"] for finding in volumes),
    ]
