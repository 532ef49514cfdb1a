# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a release in their places: written whole, mended from there, and never those of others."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import render
from ansible_collections.modelops.vllm.plugins.module_utils._serve.placing import (
    foreign_files,
    install,
    installed,
    restore,
    uninstall,
)
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Release, Store


@pytest.fixture
def release(tmp_path: Path) -> Release:
    files = [
        {"name": "unit.service", "dest": str(tmp_path / "systemd/vllm-main.service"), "mode": "0644"},
        {"name": "args.yaml", "dest": str(tmp_path / "etc/main.yaml"), "mode": "0644"},
        {"name": "secrets.env", "dest": str(tmp_path / "etc/main.env"), "mode": "0600"},
    ]
    contents = {"unit.service": "[Unit]\n", "args.yaml": "model: /m\n", "secrets.env": render.env_file({"A": "b"})}
    contents = {name: text if name == "secrets.env" else render.HEADER + text for name, text in contents.items()}
    facts = {"instance": "main", "unit": "vllm-main.service", "files": files, "question": {}}
    return Store(str(tmp_path / "state")).stage(contents, facts, "2026-11-30T10:00:00Z")[0]


def test_install_writes_the_files_with_their_modes(release: Release, tmp_path: Path) -> None:
    assert not installed(release)
    install(release)
    assert installed(release)
    assert stat.S_IMODE(os.stat(tmp_path / "etc/main.env").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "etc/main.yaml").st_mode) == 0o644
    (tmp_path / "etc/main.yaml").write_text("changed by hand\n", encoding="utf-8")
    assert not installed(release)


def test_what_is_in_place_already_is_not_written_again(release: Release, tmp_path: Path) -> None:
    install(release)
    before = os.stat(tmp_path / "etc/main.env").st_ino
    os.chmod(tmp_path / "etc/main.yaml", 0o600)
    install(release)
    assert os.stat(tmp_path / "etc/main.env").st_ino == before
    assert stat.S_IMODE(os.stat(tmp_path / "etc/main.yaml").st_mode) == 0o644


def test_uninstall_leaves_what_is_kept(release: Release, tmp_path: Path) -> None:
    install(release)
    uninstall(release, {str(tmp_path / "etc/main.env")})
    assert [p.name for p in sorted((tmp_path / "etc").iterdir())] == ["main.env"]
    assert list((tmp_path / "systemd").iterdir()) == []


def test_a_release_is_mended_from_its_copies(release: Release, tmp_path: Path) -> None:
    install(release)
    Path(release.path, "secrets.env").unlink()
    assert not release.intact()
    assert restore(release)
    assert release.intact()
    assert stat.S_IMODE(os.stat(f"{release.path}/secrets.env").st_mode) == 0o600
    Path(release.path, "args.yaml").unlink()
    (tmp_path / "etc/main.yaml").write_text("changed by hand\n", encoding="utf-8")
    assert not restore(release)


def test_files_of_1_0_0_are_ours(release: Release, tmp_path: Path) -> None:
    install(release)
    old = "# Written by the role modelops.vllm.serve: changes made here are lost.\n[Service]\n"
    (tmp_path / "systemd/vllm-main.service").write_text(old, encoding="utf-8")
    assert foreign_files(release) == []


def test_files_that_others_made_are_told_apart(release: Release, tmp_path: Path) -> None:
    assert foreign_files(release) == []
    install(release)
    assert foreign_files(release) == []
    (tmp_path / "systemd/vllm-main.service").write_text("[Service]\n", encoding="utf-8")
    (tmp_path / "etc/main.yaml").write_bytes(b"\xff")
    assert foreign_files(release) == [str(tmp_path / "systemd/vllm-main.service"), str(tmp_path / "etc/main.yaml")]
