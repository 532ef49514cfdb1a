# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tarball, installed where no other collection is, cut down to what Galaxy promises: its playbooks run by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from checkout import copy_checkout
from loopback_hub import Hub
from tiny_files import model

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
MOCK = ROOT / "tests" / "support" / "fake_nvidia_smi"
# All that content of a collection may need at run time.
KEPT = {"meta", "plugins", "roles", "playbooks"}
MODEL = "MiniMaxAI/MiniMax-M2.5"


class Site(t.NamedTuple):
    """A controller that has the collection and no other one, and works in an empty folder."""

    collections: Path
    folder: Path

    @property
    def installed(self) -> Path:
        return self.collections / "ansible_collections" / "modelops" / "vllm"

    def play(self, playbook: str, *arguments: str, **variables: t.Any) -> subprocess.CompletedProcess[str]:
        (self.folder / "vars.json").write_text(json.dumps(variables))
        command = [str(BIN / "ansible-playbook"), playbook, *arguments, "-e", "@vars.json"]
        return _run(command, self.folder, ANSIBLE_COLLECTIONS_PATH=str(self.collections))


def _run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of Ansible that finds no configuration and no collections but those that it is told."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    env |= {
        "ANSIBLE_HOME": str(folder.parent / "home"),
        # The Python package ansible brings hundreds of collections, which a site may not have.
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "LC_ALL": "C.UTF-8",
        **environment,
    }
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The tarball, built from the files that git would commit, installed and cut down."""
    top = tmp_path_factory.mktemp("site")
    source = top / "source"
    copy_checkout(source)
    for folder in ("dist", "work"):
        (top / folder).mkdir()
    galaxy = [str(BIN / "ansible-galaxy"), "collection"]
    built = _run([*galaxy, "build", "--output-path", str(top / "dist"), str(source)], top / "work")
    assert built.returncode == 0, built.stderr
    (tarball,) = (top / "dist").glob("modelops-vllm-*.tar.gz")
    command = [str(BIN / "ansible-galaxy"), "collection", "install", "--offline", str(tarball)]
    done = _run([*command, "-p", str(top / "collections")], top / "work")
    assert done.returncode == 0, done.stderr
    site = Site(top / "collections", top / "work")
    for entry in site.installed.iterdir():
        if entry.name not in KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return site


@pytest.fixture
def inventory(site: Site, hub: Hub, tmp_path: Path) -> Path:
    """This machine as a node that shows eight RTX PRO 6000, in check mode only."""
    hub.commit(MODEL, model())
    host = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "hardware_profile": "rtx_pro_6000_x8",
        "preflight_nvidia_smi": str(MOCK),
        "serve_nvidia_smi": str(MOCK),
        "serve_venv": str(tmp_path / "vllm"),
        "serve_state_dir": str(tmp_path / "state"),
        "serve_config_dir": str(tmp_path / "config"),
        "weights_dest": str(tmp_path / "models"),
        "weights_endpoint": hub.endpoint,
        "weights_revision": "main",
        "weights_python": sys.executable,
    }
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps({"vllm_nodes": {"hosts": {"gpu01": host}}}))
    return path


def test_nothing_but_the_promised_folders_is_left(site: Site) -> None:
    assert {x.name for x in site.installed.iterdir()} == KEPT


def test_a_plan_by_name(site: Site) -> None:
    run = site.play("modelops.vllm.plan", model_profile="minimax_m2_5", hardware_profile="rtx_pro_6000_x8")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "tp8: FP8 blocks of 128 do not fit the experts" in " ".join(run.stdout.split())


def test_a_deployment_in_check_mode_by_name(site: Site, inventory: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    run = site.play("modelops.vllm.deploy", "-i", str(inventory), "--check", "--diff", model_profile="minimax_m2_5")
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr
    for role in ("preflight", "weights", "serve"):
        assert f"TASK [modelops.vllm.{role} :" in run.stdout
    assert "Valid layout: tp8-ep" in run.stdout
    assert "failed=0" in run.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_the_other_playbooks_are_understood_by_name(site: Site, inventory: Path) -> None:
    """Their roles, modules and files are found."""
    names = sorted(p.stem for p in (site.installed / "playbooks").glob("*.yml"))
    assert len(names) > 10
    first, *others = (f"modelops.vllm.{name}" for name in names)
    run = site.play(first, *others, "-i", str(inventory), "--syntax-check")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "WARNING" not in run.stderr
    for name in names:
        assert f"playbook: {site.installed}/playbooks/{name}.yml" in run.stdout
