# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter hands a mapping to the renderer, and errors reach the user as filter errors."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter.container_file import container_file

DIGEST = "sha256:" + "0123456789abcdef" * 4
SECTIONS = {"Unit": {"After": "a"}, "Service": {"Type": "exec", "TimeoutStopSec": "30"}, "Install": {}}
CONTAINER: dict[str, t.Any] = {
    "name": "vllm-x",
    "image": f"quay.io/a/b:tag@{DIGEST}",
    "argv": ["vllm", "serve"],
    "user": "1:2",
}


def test_image_and_mounts_are_written_and_the_input_is_left_alone() -> None:
    lines = container_file(SECTIONS, CONTAINER, ["/srv/my models"]).splitlines()
    assert lines[1:4] == ["[Unit]", "After=a", 'RequiresMountsFor="/srv/my models"']
    assert f"Image=quay.io/a/b@{DIGEST}" in lines
    assert "PodmanArgs=--stop-timeout=20" in lines
    assert SECTIONS["Unit"] == {"After": "a"}
    assert CONTAINER["image"] == f"quay.io/a/b:tag@{DIGEST}"


def test_a_tag_alone_is_a_filter_error_with_the_remedy() -> None:
    with pytest.raises(AnsibleFilterError, match=r"quay.io/a/b@sha256:\.\.\."):
        container_file(SECTIONS, {**CONTAINER, "image": "quay.io/a/b:latest"})


def test_a_local_image_is_taken_when_it_may_be() -> None:
    assert f"Image={DIGEST[7:]}\n" in container_file(SECTIONS, {**CONTAINER, "image": DIGEST, "local_image": True})


def test_a_refused_override_is_a_filter_error() -> None:
    with pytest.raises(AnsibleFilterError, match="must not change Image"):
        container_file(SECTIONS, CONTAINER, overrides={"Container": {"Image": "x"}})
