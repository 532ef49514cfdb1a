# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The way back of a node that loses its power in the middle of a switch and that nobody visits.

A new release is in the place of the old one before it has answered for the first time. Should the node start again at
that moment, it would start what may never come up. So there is a unit, from before the stop until the switch has ended,
that brings the files of what served before back at the boot, before any service starts, and keeps from starting what
came in its place under another name: until the switch has ended, one of both is enabled and then the other, or both. It
is plain copying, without Python or this collection on the node; the next run then settles the switch that was cut off,
with its proof.
"""

from __future__ import annotations

import os
import typing as t

from . import render
from .release import Release

UNIT: t.Final = "modelops-vllm-way-back.service"
# All services come after this target unless they say otherwise.
TARGET: t.Final = "basic.target"
# Where the links to units that start at the boot are, below the folder of the units.
LINKS: t.Final = "multi-user.target.wants"


def way_back_unit(before: t.Sequence[Release], targets: t.Sequence[Release], new: t.Sequence[Release] = ()) -> str:
    """The unit that has ``before`` start at the next boot, whatever of ``targets`` is in its place by then.

    ``new`` are those of ``targets`` whose instances did not serve before: they must not start beside it.
    Each step is tried whatever became of the one before it: what serves with a copy too few is better than nothing.
    """
    kept = {file["dest"] for release in before for file in release.files}
    instances = {release.instance for release in before}
    steps = [
        ["/bin/rm", "-f", file["dest"]]
        for release in targets
        if release.instance in instances
        for file in release.files
        if file["dest"] not in kept
    ]
    for release in before:
        for file in release.files:
            source = os.path.join(release.path, file["name"])
            steps.append(["/bin/cp", "-p", "--remove-destination", source, file["dest"]])
        place, target = release.pointer("current")
        steps.append(["/bin/ln", "-sfn", target, place])
    for unit in _units(new):
        steps.append(["/bin/systemctl", "disable", unit])
        # systemctl leaves the link to a unit that Quadlet has generated alone.
        steps.append(["/bin/rm", "-f", os.path.join("/etc/systemd/system", LINKS, unit)])
    steps.append(["/bin/systemctl", "daemon-reload"])
    # This boot has begun to start what was enabled, and goes on with it unless it is told otherwise.
    steps += [["/bin/systemctl", "--no-block", "stop", unit] for unit in _units(new)]
    steps += [["/bin/systemctl", "--no-block", "start", unit] for unit in _units(before)]
    sections: dict[str, dict[str, t.Any]] = {
        "Unit": {
            "Description": "The way back of a vLLM switch that was cut off",
            "DefaultDependencies": "no",
            "After": "local-fs.target",
            "Before": f"{TARGET} shutdown.target",
            "Conflicts": "shutdown.target",
            "RequiresMountsFor": " ".join(sorted({render.quote(release.path) for release in before})),
        },
        "Service": {"Type": "oneshot", "ExecStart": ["-" + render.exec_line(argv) for argv in steps]},
        "Install": {"WantedBy": TARGET},
    }
    return render.unit(sections)


def _units(releases: t.Iterable[Release]) -> list[str]:
    """Their units and those beside them, such as the watch of a group."""
    found = []
    for release in releases:
        beside = (os.path.basename(file["dest"]) for file in release.files if file["dest"].endswith(".service"))
        found += [release.unit, *(unit for unit in beside if unit != release.unit)]
    return found
