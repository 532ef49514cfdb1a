# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters: errors reach the user as filter errors, and never quote a secret."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.modelops.vllm.plugins.filter.env_file import env_file
from ansible_collections.modelops.vllm.plugins.filter.findings_text import findings_text
from ansible_collections.modelops.vllm.plugins.filter.unit_file import unit_file
from ansible_collections.modelops.vllm.plugins.filter.version_findings import version_findings


def test_a_unit_gets_command_environment_mounts_and_overrides() -> None:
    sections = {"Unit": {"After": "a"}, "Service": {"Type": "exec"}, "Install": {}}
    text = unit_file(
        sections, ["/v", "--x", "100%"], {"B": "two words", "A": "1"}, ["/srv/m"], {"Service": {"Nice": 1}}
    )
    assert text.splitlines()[1:] == [
        "[Unit]",
        "After=a",
        "RequiresMountsFor=/srv/m",
        "",
        "[Service]",
        "Type=exec",
        "Nice=1",
        "Environment=A=1",
        'Environment="B=two words"',
        'ExecStart=/v --x "100%%"',
        "",
        "[Install]",
    ]


def test_a_refused_override_is_a_filter_error() -> None:
    with pytest.raises(AnsibleFilterError, match="KillMode=none"):
        unit_file({"Service": {}}, ["/v"], overrides={"Service": {"KillMode": "none"}})


class Vaulted:
    """A vaulted value of ansible-core 2.17 and 2.18: no string, but str() of it is the text."""

    def __str__(self) -> str:
        return "clear text"


def test_a_vaulted_value_is_its_text() -> None:
    assert env_file({"TOKEN": Vaulted()}).splitlines()[1:] == ['TOKEN="clear text"']


def test_a_bad_secret_is_not_quoted() -> None:
    with pytest.raises(AnsibleFilterError) as e:
        env_file({"TOKEN": "hunter2\nX=1"})
    assert "TOKEN" in str(e.value)
    assert "hunter2" not in str(e.value)


def test_findings_are_lines_with_errors_first() -> None:
    warning = {"id": "w", "severity": "warning", "message": "W.", "remedy": "Do w."}
    error = {"id": "e", "severity": "error", "message": "E.", "remedy": ""}
    assert findings_text([warning, error]) == "ERROR e: E.\nWARNING w: W. Do w."
    assert findings_text([]) == ""


@pytest.mark.parametrize(("version", "minimum", "bad"), [("", "0.20.2", []), (None, None, None), ("0.32.0", "", [])])
def test_nothing_is_said_of_a_version_that_is_not_known_or_not_limited(version, minimum, bad) -> None:
    assert version_findings(version, minimum, bad) == []


def test_a_version_is_judged_by_its_profile() -> None:
    found = version_findings("0.19.0", "0.20.2", [{"version": "0.19.0", "why": "It hangs."}])
    assert [(f["id"], f["severity"]) for f in found] == [("vllm-too-old", "error"), ("vllm-known-bad", "warning")]


def test_a_minimum_that_is_no_version_is_a_filter_error() -> None:
    with pytest.raises(AnsibleFilterError, match=r"'new', which is no version\. Write it as 0\.32\.0"):
        version_findings("0.19.0", "new", [])
