# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release needs of its node, asked before anything is stopped for it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve.podman import Podman
from ansible_collections.modelops.vllm.plugins.module_utils._serve.quadlet import Container, container_file
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release, Store
from ansible_collections.modelops.vllm.plugins.module_utils._serve.situation import missing

IMAGE = "docker.io/vllm/vllm-openai@sha256:" + "0123456789abcdef" * 4
HERE = json.dumps([{"Id": "ab", "Digest": "sha256:cd", "Architecture": "amd64", "Size": 7}])
CDI = "devices:\n- name: '0'\nkind: nvidia.com/gpu\n"
SECTIONS = {"Unit": {}, "Service": {"TimeoutStopSec": 120}}


class Node:
    """A node with a podman, one image, one GPU, and a path to mount whose name is no plain word."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounted = root / "models 50% $x"
        self.mounted.mkdir()
        (root / "cdi").mkdir()
        (root / "cdi" / "nvidia.yaml").write_text(CDI, encoding="utf-8")
        self.images = {IMAGE}

    def run(self, argv: t.Sequence[str]) -> tuple[int, str, str]:
        assert argv[:-1] == ["podman", "image", "inspect", "--format=json", "--"]
        return (0, HERE, "") if argv[-1] in self.images else (125, "", "no such image")

    def missing(self, release: Release) -> list[str]:
        return missing(release, Podman(self.run, (), [str(self.root / "cdi")]))

    def release(self, overrides: dict[str, t.Any] | None = None, devices: t.Sequence[str] = ("0",)) -> Release:
        args, unit = str(self.root / "etc" / "main.yaml"), str(self.root / "etc" / "vllm-main.container")
        container = Container(
            name="vllm-main",
            image=IMAGE,
            argv=["vllm"],
            user="1:1",
            volumes=[f"{args}:{args}:ro", f"{self.mounted}:/models:ro"],
            devices=[f"nvidia.com/gpu={d}" for d in devices],
        )
        contents = {"unit.container": container_file(SECTIONS, container, overrides), "args.yaml": "port: 8000\n"}
        places = {"unit.container": unit, "args.yaml": args}
        files = [{"name": name, "dest": places[name], "mode": "0644"} for name in contents]
        facts = {"instance": "main", "unit": "vllm-main.service", "files": files, "question": {}}
        return Store(str(self.root / "state")).stage(contents, facts, "2026-11-30T10:00:00Z")[0]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_container_whose_files_the_start_will_write_lacks_nothing(node: Node) -> None:
    assert node.missing(node.release()) == []


def test_an_image_that_was_pruned_is_missing(node: Node) -> None:
    node.images.clear()
    assert node.missing(node.release()) == [f"{IMAGE} (image)"]


def test_a_device_that_cdi_has_no_more_is_missing(node: Node) -> None:
    assert node.missing(node.release(devices=("0", "1"))) == ["nvidia.com/gpu=1 (device)"]


def test_devices_of_an_override_are_looked_up_but_those_that_need_not_be_there(node: Node) -> None:
    said = {"Container": {"AddDevice": ["/dev/null:/dev/x:rw /dev/none-a", "-/dev/none-b"]}}
    assert node.missing(node.release(said)) == ["/dev/none-a (device)"]


def test_what_is_mounted_and_was_removed_is_missing(node: Node) -> None:
    release = node.release()
    node.mounted.rmdir()
    assert node.missing(release) == [str(node.mounted)]
