# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service user and the directories that its libraries write to."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._preflight import users
from ansible_collections.modelops.vllm.plugins.module_utils._preflight.question import Question

NOBODY = "nobody"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")


def test_a_user_that_will_be_made():
    (finding,) = users.service_user(Question(user="no-such-user"))
    assert (finding.id, finding.severity) == ("user-missing", "info")
    assert users.service_user(Question()) is None


@pytest.fixture
def open_path(tmp_path):
    """A directory whose parents everybody may pass."""
    below = Path(tempfile.gettempdir())
    for folder in (tmp_path, *(p for p in tmp_path.parents if below in p.parents)):
        folder.chmod(folder.stat().st_mode | 0o011)
    return tmp_path


@as_root
@pytest.mark.case("B09")
def test_b09_a_cache_under_a_parent_of_another_user(open_path):
    """Only the vLLM cache was moved, below a directory of root; the home of the account does not exist."""
    cache = str(open_path / "srv" / "vllm" / "cache")
    (finding,) = users.service_user(Question(user=NOBODY, home="/nonexistent", env={"VLLM_CACHE_ROOT": cache}))
    assert (finding.id, finding.severity) == ("cache-not-writable", "error")
    assert finding.numbers == {"variable": "VLLM_CACHE_ROOT", "path": cache}


@as_root
@pytest.mark.parametrize(
    ("mode", "owner", "found"),
    [
        (0o700, "nobody", []),
        (0o777, "root", []),
        (0o755, "root", ["cache-not-writable"]),
        (0o500, "nobody", ["cache-not-writable"]),
    ],
)
def test_a_home_as_the_user_sees_it(open_path, mode, owner, found):
    home = open_path / "home"
    home.mkdir()
    os.chown(home, pwd.getpwnam(owner).pw_uid, -1)
    home.chmod(mode)
    findings = users.service_user(Question(user=NOBODY, home=str(home)))
    assert [f.id for f in findings] == found


@as_root
def test_a_file_in_the_place_of_a_directory(open_path):
    (open_path / "file").write_text("", encoding="ascii")
    (open_path / "file").chmod(0o777)
    assert users.may_write(str(open_path / "file"), pwd.getpwnam(NOBODY)) is False


def test_what_cannot_be_found_out_is_no_finding(monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr(users.subprocess, "run", refuse)
    me = pwd.getpwuid(os.getuid()).pw_name
    assert users.service_user(Question(user=me, home=str(tmp_path))) == []


def test_which_directories_are_looked_at(tmp_path):
    env = {"HF_HOME": "/srv/hf", "VLLM_CACHE_ROOT": "relative", "OTHER": "/x"}
    assert users.directories(str(tmp_path), env) == [("home", str(tmp_path)), ("HF_HOME", "/srv/hf")]
    assert users.directories("/no/such/home", {}) == []
