# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that is the way back of a node without power: what it does, in systemd's words."""

from __future__ import annotations

import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import boot
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release


def release(id_: str, *dests: str, instance: str = "main", state: str = "/var/lib/vllm") -> Release:
    files = [{"name": f"{i}.txt", "dest": dest, "mode": "0600"} for i, dest in enumerate(dests)]
    record: dict[str, t.Any] = {"instance": instance, "unit": f"vllm-{instance}.service", "files": files}
    return Release(f"{state}/instances/{instance}/releases/{id_}", record)


def steps(text: str) -> list[str]:
    return [line.removeprefix("ExecStart=-") for line in text.splitlines() if line.startswith("ExecStart=")]


def test_the_old_files_and_the_link_come_back_and_what_only_the_new_one_has_goes() -> None:
    old = release("1-old", "/etc/systemd/system/vllm-main.service", "/etc/modelops/main.yaml")
    new = release("2-new", "/etc/containers/systemd/vllm-main.container", "/etc/modelops/main.yaml")
    assert steps(boot.way_back_unit([old], [new])) == [
        "/bin/rm -f /etc/containers/systemd/vllm-main.container",
        "/bin/cp -p --remove-destination /var/lib/vllm/instances/main/releases/1-old/0.txt"
        " /etc/systemd/system/vllm-main.service",
        "/bin/cp -p --remove-destination /var/lib/vllm/instances/main/releases/1-old/1.txt /etc/modelops/main.yaml",
        "/bin/ln -sfn releases/1-old /var/lib/vllm/instances/main/current",
        "/bin/systemctl daemon-reload",
        "/bin/systemctl --no-block start vllm-main.service",
    ]


def test_another_instance_that_was_to_come_does_not_start_beside_it() -> None:
    """Once it was proven it is enabled, while the way back to what made room for it is still open."""
    old, new = release("1", "/etc/kimi"), release("2", "/etc/minimax", instance="minimax")
    assert steps(boot.way_back_unit([old], [new], [new]))[2:] == [
        "/bin/systemctl disable vllm-minimax.service",
        "/bin/rm -f /etc/systemd/system/multi-user.target.wants/vllm-minimax.service",
        "/bin/systemctl daemon-reload",
        "/bin/systemctl --no-block stop vllm-minimax.service",
        "/bin/systemctl --no-block start vllm-main.service",
    ]


def test_another_instance_that_served_before_is_left_alone() -> None:
    text = boot.way_back_unit([release("1", "/etc/kimi")], [release("2", "/etc/minimax", instance="minimax")])
    assert not any("minimax" in step for step in steps(text))


def test_the_watch_of_a_group_comes_back_and_goes_with_its_unit() -> None:
    units = ("/etc/systemd/system/vllm-main.service", "/etc/systemd/system/vllm-main-watch.service")
    group = release("1-old", *units)
    alone = release("2-new", units[0])
    told = [step for step in steps(boot.way_back_unit([group], [alone])) if "systemctl" in step]
    assert told == [
        "/bin/systemctl daemon-reload",
        "/bin/systemctl --no-block start vllm-main.service",
        "/bin/systemctl --no-block start vllm-main-watch.service",
    ]
    told = steps(boot.way_back_unit([release("1", "/etc/kimi", instance="kimi")], [group], [group]))
    assert "/bin/systemctl disable vllm-main-watch.service" in told
    assert "/bin/systemctl --no-block stop vllm-main-watch.service" in told


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / boot.UNIT
    old, new = release("1", "/etc/a b%$HOME", state="/srv/state of 100%"), release("2", "/etc/b", instance="b")
    unit.write_text(boot.way_back_unit([old], [new], [new]))
    run = subprocess.run(["systemd-analyze", "verify", unit], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
