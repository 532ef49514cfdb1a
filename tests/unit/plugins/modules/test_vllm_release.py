# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Staging as Ansible does it: idempotent, with a diff, and never a secret in what is returned."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve import ports, switching
from ansible_collections.modelops.vllm.plugins.module_utils._serve.release import Store

KEY = "sk-very-secret-4711"
UNIT = "[Unit]\nDescription=vLLM\n"


@pytest.fixture(autouse=True)
def _systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(argv: t.Sequence[str]) -> tuple[int, str, str]:
        text = Path(argv[-1]).read_text(encoding="utf-8")
        return (1, "", f"{argv[-1]}:2: Unknown key") if "Misspelt" in text else (0, "", "")

    monkeypatch.setattr(switching, "run", verify)


@pytest.fixture
def params(tmp_path: Path) -> dict[str, t.Any]:
    return {
        "state_dir": str(tmp_path / "state"),
        "config_dir": str(tmp_path / "etc"),
        "instance": "main",
        "unit_text": UNIT,
        "args_text": "model: /m\nport: 8000\n",
        "secrets": {"VLLM_API_KEY": KEY},
        "model": "m",
        "model_dir": "/m",
        "question": {"url": "http://127.0.0.1:8000", "model": "m"},
        "port": 8000,
    }


def test_a_release_is_staged_once(run_module: t.Any, params: dict[str, t.Any]) -> None:
    first = run_module("vllm_release", params)
    again = run_module("vllm_release", params)
    assert (first["changed"], again["changed"]) == (True, False)
    assert first["release"] == again["release"] == os.path.basename(first["path"])
    assert sorted(os.listdir(first["path"])) == ["args.yaml", "release.json", "secrets.env", "unit.service"]
    assert (first["current"], first["last_good"]) == ("", "")


def test_ports_are_kept_and_make_no_other_release(run_module: t.Any, params: dict[str, t.Any]) -> None:
    """Those of before it kept them are found again, so that an upgrade of the collection restarts nothing."""
    old = run_module("vllm_release", params)
    further = [{"host": "127.0.0.1", "port": "29000", "variable": "router_metrics_port"}]
    assert run_module("vllm_release", {**params, "ports": further})["release"] == old["release"]
    new = run_module("vllm_release", {**params, "ports": further, "instance": "other"})
    (release,) = Store(params["state_dir"]).releases("other")
    assert (release.id, release.intact()) == (new["release"], True)
    assert ports.wanted(release.record) == [
        {"host": "127.0.0.1", "port": 8000, "variable": "serve_port"},
        {"host": "127.0.0.1", "port": 29000, "variable": "router_metrics_port"},
    ]


def test_nothing_is_activated(run_module: t.Any, params: dict[str, t.Any], tmp_path: Path) -> None:
    run_module("vllm_release", params)
    assert not (tmp_path / "etc").exists()
    assert Store(params["state_dir"]).linked("main", "current") is None


def test_check_mode_writes_nothing(run_module: t.Any, params: dict[str, t.Any], tmp_path: Path) -> None:
    result = run_module("vllm_release", params, check=True)
    assert (result["changed"], result["release"]) == (True, "")
    assert list(tmp_path.iterdir()) == []
    run_module("vllm_release", params)
    assert run_module("vllm_release", params, check=True)["changed"] is False


def test_the_diff_shows_args_and_unit_and_of_secrets_the_names(run_module: t.Any, params: dict[str, t.Any]) -> None:
    run_module("vllm_release", params)
    store = Store(params["state_dir"])
    store.point(store.releases("main")[0], "current")
    secrets = {"VLLM_API_KEY": KEY + "x", "HF_TOKEN": "hf_secret_value"}
    new = {**params, "args_text": "model: /m\nport: 9000\n", "secrets": secrets}
    result = run_module("vllm_release", new, diff=True)
    rows = {row["after_header"]: (row["before"], row["after"]) for row in result["diff"]}
    assert rows["args.yaml"] == ("model: /m\nport: 8000\n", "model: /m\nport: 9000\n")
    assert rows["secrets.env"] == (
        "VLLM_API_KEY=********\n",
        "HF_TOKEN=********\nVLLM_API_KEY=******** (changed)\n",
    )
    assert set(rows) == {"args.yaml", "secrets.env"}
    for secret in (KEY, "hf_secret_value"):
        assert secret not in json.dumps(result)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_the_repair_of_a_damaged_release_is_staged(
    run_module: t.Any, params: dict[str, t.Any], content: bytes | None
) -> None:
    staged = run_module("vllm_release", params)
    store = Store(params["state_dir"])
    store.point(store.get("main", staged["release"]), "current")
    damaged = Path(staged["path"], "args.yaml")
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    result = run_module("vllm_release", {**params, "args_text": "model: /m\nport: 9000\n"}, diff=True)
    assert (result["changed"], result["current"]) == (True, staged["release"])
    rows = {row["after_header"]: (row["before"], row["after"]) for row in result["diff"]}
    assert rows == {"args.yaml": ("", "model: /m\nport: 9000\n")}


def test_a_unit_that_systemd_refuses_is_not_staged(run_module: t.Any, params: dict[str, t.Any]) -> None:
    result = run_module("vllm_release", {**params, "unit_text": "[Unit]\nMisspelt=1\n"})
    assert result["failed"]
    assert "systemd refuses the unit vllm-main.service: vllm-main.service:2: Unknown key" in result["msg"]
    assert Store(params["state_dir"]).releases("main") == []


@pytest.mark.parametrize("name", ["../x", "A", ""])
def test_a_bad_name_is_refused(run_module: t.Any, params: dict[str, t.Any], name: str) -> None:
    assert "not the name of an instance" in run_module("vllm_release", {**params, "instance": name})["msg"]


def test_secrets_with_every_character_come_back(run_module: t.Any, params: dict[str, t.Any]) -> None:
    value = 'a "b" \\ $HOME `c` 100% \\t'
    run_module("vllm_release", {**params, "secrets": {"VLLM_API_KEY": value}})
    (release,) = Store(params["state_dir"]).releases("main")
    assert release.api_key() == value
