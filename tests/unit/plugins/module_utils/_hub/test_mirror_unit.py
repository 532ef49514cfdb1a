# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the mirror becomes a service of systemd, with systemd's commands played by the test."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._hub import mirror, mirror_unit
from ansible_collections.modelops.vllm.plugins.module_utils._hub.mirror_unit import Offer, resolve, start, stop
from ansible_collections.modelops.vllm.plugins.module_utils._weights.manifest import Manifest, Record, Selection, save

TOKEN = "0neT1meT0kenOfThisTest"
COMMIT = "28950e6c1d56dbedd75007c1c27a969164730ca0"
UNIT = "modelops-mirror-0123456789ab.service"


class Systemd:
    """Remembers the commands, and what stands in the files that they name while they run."""

    def __init__(self, status: str = "Serving org/model at http://127.0.0.1:4711", refuses: str = "") -> None:
        self.commands: list[list[str]] = []
        self.job: dict[str, t.Any] = {}
        self.job_mode = 0
        self.program = ""
        self.status, self.refuses = status, refuses

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        self.commands.append(command)
        if command[0] == "systemd-run":
            path = next(a for a in command if a.startswith("--property=StandardInput=file:")).partition("file:")[2]
            self.job, self.job_mode = json.loads(Path(path).read_text()), stat.S_IMODE(os.stat(path).st_mode)
            self.program = Path(command[-1]).read_text()
            return (1, "", "Job failed. See journalctl.") if self.refuses else (0, "", "")
        if command[0] == "journalctl":
            return 0, self.refuses, ""
        return 0, self.status + "\n", ""


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of the test's own for what lies in /run."""
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr(mirror_unit, "RUN_FOLDER", str(folder))
    return folder


def snapshot(dest: Path, size: int = 0) -> dict[str, str]:
    """A folder with a manifest that holds; the hash of each file. ``size`` is what the manifest says of the first."""
    (dest / ".modelops").mkdir(parents=True)
    records, hashes = {}, {}
    for name, content in (("a.safetensors", b"weights"), ("config.json", b"{}")):
        (dest / name).write_bytes(content)
        st = os.stat(dest / name)
        hashes[name] = hashlib.sha256(content).hexdigest()
        records[name] = Record(st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino, hashes[name], None, "sha256")
    if size:
        os.truncate(dest / "a.safetensors", size)
        st = os.stat(dest / "a.safetensors")
        records["a.safetensors"] = Record(size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino, "0" * 64, None, "sha256")
    shards = ("a.safetensors",)
    save(str(dest), Manifest("org/model", COMMIT, "main", Selection(), "sha256", shards, records))
    return hashes


def offer(dest: Path, **changes: t.Any) -> Offer:
    return Offer(**{"dest": str(dest), "token": TOKEN, "address": "127.0.0.1", **changes})


def test_a_start_gives_the_service_what_it_needs_and_others_what_they_need(tmp_path: Path, run_folder: Path) -> None:
    hashes, systemd = snapshot(tmp_path / "m"), Systemd()
    result = start(offer(tmp_path / "m", lifetime=600), systemd)
    assert result == {
        "changed": True,
        "unit": result["unit"],
        "url": "http://127.0.0.1:4711",
        "repo_id": "org/model",
        "commit": COMMIT,
        "files": 2,
        "bytes_total": 9,
        "checksums": hashes,
    }
    command = systemd.commands[0]
    assert f"--unit={result['unit']}" in command
    assert {"--collect", "--service-type=notify", "--property=RuntimeMaxSec=600"} <= set(command)
    assert (systemd.job["repo"], systemd.job["commit"], systemd.job["revision"]) == ("org/model", COMMIT, "main")
    assert {n: r["sha256"] for n, r in systemd.job["files"].items()} == hashes
    assert systemd.program == Path(mirror.__file__).read_text()
    assert list(run_folder.iterdir()) == []


def test_the_token_is_in_a_file_of_roots_alone_and_in_no_command_or_result(tmp_path: Path) -> None:
    snapshot(tmp_path / "m")
    systemd = Systemd()
    result = start(offer(tmp_path / "m"), systemd)
    assert (systemd.job["token"], systemd.job_mode) == (TOKEN, 0o600)
    assert TOKEN not in json.dumps([systemd.commands, result])
    assert TOKEN not in repr(offer(tmp_path / "m"))


def test_each_mirror_is_a_unit_of_its_own(tmp_path: Path) -> None:
    snapshot(tmp_path / "m")
    units = {start(offer(tmp_path / "m"), Systemd())["unit"] for _i in range(5)}
    assert len(units) == 5


def test_check_mode_judges_and_starts_nothing(tmp_path: Path, run_folder: Path) -> None:
    hashes, systemd = snapshot(tmp_path / "m"), Systemd()
    result = start(offer(tmp_path / "m"), systemd, check_mode=True)
    assert (result["changed"], result["unit"], result["url"], result["checksums"]) == (True, "", "", hashes)
    assert (systemd.commands, list(run_folder.iterdir())) == ([], [])


def test_a_folder_without_a_manifest_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(ModelopsError, match="holds no snapshot that was verified"):
        start(offer(tmp_path), Systemd())


def test_a_snapshot_that_somebody_wrote_to_is_not_served(tmp_path: Path) -> None:
    snapshot(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_bytes(b"[]")
    with pytest.raises(ModelopsError, match=r"1 files in .* config\.json is one of them"):
        start(offer(tmp_path / "m"), Systemd())


def test_a_file_that_no_client_would_fetch_is_refused(tmp_path: Path) -> None:
    snapshot(tmp_path / "m", size=50_000_000_001)
    with pytest.raises(ModelopsError, match=r"a\.safetensors has 50000000001 bytes") as e:
        start(offer(tmp_path / "m"), Systemd())
    assert "share the folder" in e.value.remedy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token": "short"}, "token has less than 20 characters"),
        ({"token": "a token with spaces in it"}, "token has less than 20 characters, or a space"),
        ({"token": "a-token-with-a-line\nbreak"}, "or a character outside ASCII"),
        ({"port": 80}, "port is 80; 0 or one of 1024 to 65535"),
        ({"port": 65536}, "port is 65536"),
        ({"lifetime": 0}, "lifetime is 0"),
        ({"address": "no such host"}, "address no such host is not known on this node"),
        ({"address": "localhost"}, "localhost is .* on this node, where no other node reaches it"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(tmp_path: Path, changes: dict[str, t.Any], message: str) -> None:
    snapshot(tmp_path / "m")
    systemd = Systemd()
    with pytest.raises(ModelopsError, match=message) as e:
        start(offer(tmp_path / "m", **changes), systemd)
    assert changes.get("token", "\0") not in str(e.value)
    assert systemd.commands == []


def test_addresses() -> None:
    assert [resolve(a) for a in ("127.0.0.1", "::1", "10.0.0.5")] == ["127.0.0.1", "::1", "10.0.0.5"]


def test_the_address_of_ipv6_stands_in_brackets(tmp_path: Path) -> None:
    snapshot(tmp_path / "m")
    systemd = Systemd(status="Serving org/model at http://[::1]:4711")
    assert start(offer(tmp_path / "m", address="::1"), systemd)["url"] == "http://[::1]:4711"


def test_why_it_did_not_start_is_said_and_nothing_is_left(tmp_path: Path, run_folder: Path) -> None:
    snapshot(tmp_path / "m")
    log = "Traceback (most recent call last):\nOSError: [Errno 98] Address already in use\nMain process exited\n"
    with pytest.raises(ModelopsError, match=r"did not start: OSError: \[Errno 98\] Address already in use\."):
        start(offer(tmp_path / "m"), Systemd(refuses=log))
    assert list(run_folder.iterdir()) == []


def test_a_service_that_tells_no_port_is_stopped(tmp_path: Path) -> None:
    snapshot(tmp_path / "m")
    systemd = Systemd(status="")
    with pytest.raises(ModelopsError, match="does not tell its port"):
        start(offer(tmp_path / "m"), systemd)
    assert systemd.commands[-1][:2] == ["systemctl", "stop"]


@pytest.mark.parametrize("state", ["active", "activating", "deactivating"])
def test_a_mirror_that_runs_is_stopped(state: str) -> None:
    systemd = Systemd(status=state)
    assert stop(UNIT, systemd) == {"changed": True, "unit": UNIT}
    assert systemd.commands[-1] == ["systemctl", "stop", UNIT]


@pytest.mark.parametrize(("state", "check_mode"), [("inactive", False), ("failed", False), ("active", True)])
def test_one_that_has_ended_is_not_stopped_nor_is_any_in_check_mode(state: str, check_mode: bool) -> None:
    systemd = Systemd(status=state)
    assert stop(UNIT, systemd, check_mode)["changed"] is check_mode
    assert ["systemctl", "stop", UNIT] not in systemd.commands


@pytest.mark.parametrize("unit", ["", "sshd.service", "modelops-mirror-x.service", f"--help {UNIT}"])
def test_no_other_unit_is_stopped(unit: str) -> None:
    systemd = Systemd()
    with pytest.raises(ModelopsError, match="is not the name of a mirror"):
        stop(unit, systemd)
    assert systemd.commands == []
