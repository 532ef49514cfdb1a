# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module vllm_image with a podman of ours on PATH."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import podman

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"quay.io/a/vllm@{DIGEST}"
FOUND = {"Id": "ab" * 32, "Digest": DIGEST, "Architecture": "", "Size": 5}
SCRIPT = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  --version) echo podman version {version} ;;
  "image inspect"*) test -e {store} && echo '{found}' ;;
  pull*) touch {store} ;;
  ps*) echo '[{{"Names": ["vllm-main"], "Labels": null}}]' ;;
esac
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., list[str]]:
    """A node with this version of podman; gives what was run."""
    log, store, generator = tmp_path / "log", tmp_path / "store", tmp_path / "generator"
    generator.touch(mode=0o755)
    monkeypatch.setattr(podman.Podman.__init__, "__defaults__", ((str(generator),), (str(tmp_path / "cdi"),)))

    def make(version: str = "5.4.2", *, present: bool = False) -> list[str]:
        (tmp_path / "bin").mkdir(exist_ok=True)
        script = tmp_path / "bin" / "podman"
        script.write_text(SCRIPT.format(log=log, store=store, version=version, found=json.dumps([FOUND])))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
        if present:
            store.touch()
        return log.read_text().splitlines() if log.exists() else []

    return make


def test_a_missing_image_is_pulled_once(node: t.Callable[..., list[str]], run_module: t.Callable[..., t.Any]) -> None:
    node()
    first = run_module("vllm_image", {"image": f"quay.io/a/vllm:v1@{DIGEST}"})
    assert (first["changed"], first["present"], first["valid"]) == (True, True, True)
    assert first["reference"] == IMAGE
    assert first["image"] == {"id": "ab" * 32, "digest": DIGEST, "architecture": "", "size": 5}
    assert first["podman"] == "5.4.2"
    second = run_module("vllm_image", {"image": IMAGE})
    assert (second["changed"], second["present"]) == (False, True)
    assert [line for line in node() if line.startswith("pull")] == [f"pull --quiet -- {IMAGE}"]


def test_check_mode_pulls_nothing_and_says_so(
    node: t.Callable[..., list[str]], run_module: t.Callable[..., t.Any]
) -> None:
    node()
    result = run_module("vllm_image", {"image": IMAGE}, check=True)
    assert (result["changed"], result["present"], result["valid"]) == (True, False, True)
    assert [f["id"] for f in result["findings"]] == ["image-pulled"]
    assert not [line for line in node() if line.startswith("pull")]


@pytest.mark.parametrize(
    ("version", "more", "wanted"),
    [
        ("4.3.1", {}, "podman-too-old"),
        ("5.4.2", {"devices": ["nvidia.com/gpu=0"]}, "device-unknown"),
        ("5.4.2", {"volumes": ["/no/such/place:/x:ro"]}, "volume-missing"),
        ("5.4.2", {"image": DIGEST, "allow_local": True}, "image-missing"),
        ("5.4.2", {"instance": "main"}, "container-foreign"),
    ],
)
def test_nothing_is_pulled_for_what_cannot_run(
    node: t.Callable[..., list[str]],
    run_module: t.Callable[..., t.Any],
    version: str,
    more: dict[str, t.Any],
    wanted: str,
) -> None:
    node(version)
    result = run_module("vllm_image", {"image": IMAGE, **more})
    assert (result["changed"], result["valid"]) == (False, False)
    assert [f["id"] for f in result["findings"]] == [wanted]
    assert not [line for line in node() if line.startswith("pull")]


def test_a_local_image_by_its_id(node: t.Callable[..., list[str]], run_module: t.Callable[..., t.Any]) -> None:
    node(present=True)
    result = run_module("vllm_image", {"image": DIGEST, "allow_local": True})
    assert (result["changed"], result["valid"], result["reference"]) == (False, True, DIGEST.removeprefix("sha256:"))


def test_a_tag_alone_fails_with_the_remedy(run_module: t.Callable[..., t.Any]) -> None:
    result = run_module("vllm_image", {"image": "quay.io/a/vllm:latest"})
    assert result["failed"]
    assert "quay.io/a/vllm@sha256:..." in result["msg"]


def test_an_unreadable_auth_file_fails_before_the_pull(
    node: t.Callable[..., list[str]], run_module: t.Callable[..., t.Any]
) -> None:
    node()
    result = run_module("vllm_image", {"image": IMAGE, "auth_file": "/no/auth.json"})
    assert result["failed"]
    assert "podman login --authfile /no/auth.json" in result["msg"]
    assert not [line for line in node() if line.startswith("pull")]
