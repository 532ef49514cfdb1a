# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units at boot: systemctl does it for services of our own, a link for those that Quadlet generates."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import boot
from ansible_collections.modelops.vllm.plugins.module_utils._serve.node import Node

UNIT = "vllm-main.service"


class Systemctl:
    """Answers is-enabled; keeps what else it was asked."""

    def __init__(self, enablement: str, fails: str = "") -> None:
        self.enablement = enablement
        self.fails = fails
        self.commands: list[list[str]] = []

    def __call__(self, argv: t.Sequence[str]) -> tuple[int, str, str]:
        if argv[1] == "is-enabled":
            return 0, f"{self.enablement}\n", ""
        self.commands.append(list(argv[1:]))
        return (1, "", "Failed to do so:\n Read-only file system\n") if argv[1] == self.fails else (0, "", "")


def node(enablement: str, units: Path) -> tuple[Node, Systemctl]:
    systemctl = Systemctl(enablement)
    return Node("", systemctl, str(units)), systemctl


def test_a_service_of_our_own_is_enabled_by_systemctl(tmp_path: Path) -> None:
    asked, systemctl = node("disabled", tmp_path)
    assert not asked.enabled(UNIT)
    asked.enable(UNIT)
    asked.disable(UNIT)
    assert systemctl.commands == [["enable", "--force", "--", UNIT], ["disable", "--", UNIT]]
    assert node("enabled", tmp_path)[0].enabled(UNIT)


def test_a_generated_unit_is_enabled_by_a_link(tmp_path: Path) -> None:
    asked, systemctl = node("generated", tmp_path)
    link = tmp_path / "multi-user.target.wants" / UNIT
    assert not asked.enabled(UNIT)
    for _again in range(2):
        asked.enable(UNIT)
        assert link.readlink() == Path("/run/systemd/generator", UNIT)
        assert asked.enabled(UNIT)
    assert [path.name for path in link.parent.iterdir()] == [UNIT]
    for _again in range(2):
        asked.disable(UNIT)
        assert not asked.enabled(UNIT)
    # What was done already is done once.
    assert systemctl.commands == [["daemon-reload"]] * 2


@pytest.mark.parametrize("enablement", ["disabled", "generated", "not-found"])
def test_no_link_of_another_engine_is_left_behind(enablement: str, tmp_path: Path) -> None:
    link = tmp_path / "multi-user.target.wants" / UNIT
    link.parent.mkdir()
    link.symlink_to(f"/etc/systemd/system/{UNIT}")
    node(enablement, tmp_path)[0].disable(UNIT)
    assert not link.is_symlink()


@pytest.mark.parametrize(
    ("enablement", "fails"), [("disabled", "enable"), ("enabled", "disable"), ("generated", "daemon-reload")]
)
def test_what_systemd_refuses_is_an_error_with_what_it_said(enablement: str, fails: str, tmp_path: Path) -> None:
    asked = Node("", Systemctl(enablement, fails), str(tmp_path))
    change = asked.disable if fails == "disable" else asked.enable
    with pytest.raises(
        ModelopsError, match=rf"systemctl {fails} .*ended with status 1 and said: Failed to do so: Read"
    ):
        change(UNIT)


@pytest.mark.parametrize("enablement", ["disabled", "not-found", "static"])
def test_a_unit_that_does_not_start_at_boot_need_not_be_disabled(enablement: str, tmp_path: Path) -> None:
    systemctl = Systemctl(enablement, "disable")
    Node("", systemctl, str(tmp_path)).disable(UNIT)
    assert systemctl.commands == [["disable", "--", UNIT]]


def test_the_way_back_is_a_unit_that_the_boot_starts(tmp_path: Path) -> None:
    asked, systemctl = node("enabled", tmp_path)
    link = tmp_path / f"{boot.TARGET}.wants" / boot.UNIT
    for text in ("first\n", "second\n"):
        asked.arm(text)
        assert link.resolve() == (tmp_path / boot.UNIT).resolve()
        assert link.read_text() == text
    for _again in range(2):
        asked.disarm()
        assert [path.name for path in tmp_path.iterdir()] == [f"{boot.TARGET}.wants"]
        assert list(link.parent.iterdir()) == []
    # What holds at the next boot need not be read before.
    assert systemctl.commands == []
