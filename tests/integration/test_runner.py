# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repository as a project of AWX: synchronised as AWX does it, and run by ansible-runner with surveys answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import ansible_runner
import pytest
import yaml
from checkout import copy_checkout
from loopback_hub import Hub
from tiny_files import model

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
MOCK = ROOT / "tests" / "support" / "fake_nvidia_smi"
TEMPLATES = yaml.safe_load((ROOT / "awx" / "job_templates.yml").read_text())["awx_job_templates"]


def answers(template: str, **given: t.Any) -> dict[str, t.Any]:
    """What AWX sends for a survey in which only these questions are answered: the defaults, and blanks for the rest."""
    (spec,) = (x["survey_spec"]["spec"] for x in TEMPLATES if x["name"] == template)
    asked = {question["variable"]: question["default"] for question in spec}
    assert set(given) <= set(asked)
    return asked | given


class Project(t.NamedTuple):
    """A synchronised project, and where its collections were installed."""

    folder: Path
    collections: Path

    def run(
        self, tmp_path: Path, playbook: str, extra: dict[str, t.Any], inventory: dict[str, t.Any], options: str = ""
    ):
        """(the status, all output) of one job."""
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_HOME": str(tmp_path / "home"),
            "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
            "ANSIBLE_HOST_KEY_CHECKING": "False",
            "ANSIBLE_FORCE_COLOR": "False",
            "ANSIBLE_NOCOLOR": "1",
            "AWX_HOST": "https://awx.example.com",
            "JOB_ID": "17",
            "LC_ALL": "C.UTF-8",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        job = tmp_path / "job"
        job.mkdir(parents=True)
        done = ansible_runner.run(
            private_data_dir=str(job),
            project_dir=str(self.folder),
            playbook=f"playbooks/{playbook}.yml",
            inventory=inventory,
            extravars=extra,
            envvars=environment,
            cmdline=options,
            timeout=240,
            quiet=True,
        )
        return done.status, done.stdout.read()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The files of the repository in a folder of their own, and the collection installed from them."""
    top = tmp_path_factory.mktemp("awx")
    folder = top / "_9__modelops_vllm"
    copy_checkout(folder)
    collections = top / "requirements_collections"
    # As awx/playbooks/project_update.yml calls it.
    command = [BIN / "ansible-galaxy", "collection", "install", "-r", "collections/requirements.yml"]
    command += ["--collections-path", str(collections)]
    environment = {**os.environ, "ANSIBLE_HOME": str(top / "home"), "LC_ALL": "C.UTF-8"}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    return Project(folder, collections)


@pytest.fixture
def node() -> dict[str, t.Any]:
    """An inventory with this machine as a node that shows eight RTX PRO 6000, in check mode only."""
    host = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "hardware_profile": "rtx_pro_6000_x8",
        "preflight_nvidia_smi": str(MOCK),
        "serve_nvidia_smi": str(MOCK),
        "serve_vllm_bin": "/nonexistent/vllm",
        "weights_python": sys.executable,
    }
    return {"vllm_nodes": {"hosts": {"gpu01": host}}}


@pytest.mark.case("C06")
def test_the_project_brings_its_own_collection(project: Project) -> None:
    installed = project.collections / "ansible_collections" / "modelops" / "vllm"
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    manifest = json.loads((installed / "MANIFEST.json").read_text())["collection_info"]
    assert (manifest["namespace"], manifest["version"]) == ("modelops", galaxy["version"])
    assert (installed / "plugins" / "modules" / "layout_info.py").exists()
    assert not (installed / "tests").exists()


@pytest.mark.parametrize("blank", ["", None], ids=["blank", "null"])
def test_a_plan_with_strings_blanks_and_nulls(
    project: Project, tmp_path: Path, node: dict[str, t.Any], blank: str | None
) -> None:
    given = answers("vLLM plan", plan_vllm_version="0.26.0", plan_max_num_seqs="256", plan_layouts="tp8-ep,tp4")
    extra = {name: blank if value == "" else value for name, value in given.items()}
    assert blank in extra.values()
    status, output = project.run(tmp_path, "plan", extra, node)
    assert status == "successful", output
    # One line of the table is one line of AWX's output, with its columns.
    (row,) = (line for line in output.splitlines() if " tp8-ep " in line and "26.95" in line)
    assert row.split("tp8-ep", 1)[1].split()[:3] == ["8", "0", "26.95"]


@pytest.mark.case("C03")
def test_text_in_json_survives_the_variables_between(project: Project, tmp_path: Path, node: dict[str, t.Any]) -> None:
    """Before 2.19 a JSON text that goes through a second variable comes out in Python's notation."""
    gpus = '{"count": 2, "name": "NVIDIA H200", "memory_mib": 143771, "compute_cap": "9.0", "link": "nvlink"}'
    extra = {
        "model_profile": "minimax_m2_5",
        "plan_gpus": gpus,
        "plan_layouts": "tp2",
        "plan_vllm_version": "0.26.0",
    }
    status, output = project.run(tmp_path, "plan", extra, node)
    assert status == "successful", output
    assert "107.25" in output


@pytest.mark.case("C04", "C10", "C15")
def test_a_deployment_in_check_mode(project: Project, tmp_path: Path, node: dict[str, t.Any], hub: Hub) -> None:
    """All answers are texts, blanks and nulls; the node is bare but for its GPUs; the secrets are nowhere."""
    repo = "MiniMaxAI/MiniMax-M2.5"
    hub.commit(repo, model())
    hub.token = "hf_s3cr3t"
    host = node["vllm_nodes"]["hosts"]["gpu01"]
    host |= {"weights_endpoint": hub.endpoint, "weights_revision": "main"}
    extra = answers(
        "vLLM deploy",
        model_profile="minimax_m2_5",
        survey_serve_layout="tp4",
        survey_serve_port="8017",
        survey_serve_start="true",
        survey_serve_smoke="False",
        survey_serve_ready_timeout=None,
        survey_serve_max_model_len="65536",
        survey_weights_dest=str(tmp_path / "models"),
        survey_weights_token="hf_s3cr3t",
        survey_serve_api_key="sk-test-4711",
    )
    status, output = project.run(tmp_path, "deploy", extra, node, "--check --diff -vvv")
    assert status == "successful", output[-8000:]
    assert "Valid layout: tp4" in output
    assert "8017" in output
    assert "hf_s3cr3t" not in output
    assert "sk-test-4711" not in output
    assert not (tmp_path / "models").exists()


def test_no_as_an_answer_means_no(project: Project, tmp_path: Path, node: dict[str, t.Any], hub: Hub) -> None:
    hub.commit("MiniMaxAI/MiniMax-M2.5", model())
    node["vllm_nodes"]["hosts"]["gpu01"] |= {"weights_endpoint": hub.endpoint, "weights_revision": "main"}
    extra = answers("vLLM deploy", survey_serve_start="no", survey_weights_dest=str(tmp_path / "models"))
    status, output = project.run(tmp_path, "deploy", extra, node, "--check")
    assert status == "successful", output[-8000:]
    # Nothing is switched to, and nothing is measured.
    assert (
        "TASK [modelops.vllm.benchmark" not in output or "skipping" in output.split("TASK [modelops.vllm.benchmark")[1]
    )


@pytest.mark.case("C13")
def test_a_python_that_is_too_old_is_named(project: Project, tmp_path: Path, node: dict[str, t.Any]) -> None:
    """A module would end in a syntax error there."""
    old = tmp_path / "python3.6"
    old.write_text("#!/bin/sh\necho 3.6\n")
    old.chmod(0o755)
    node["vllm_nodes"]["hosts"]["gpu01"] |= {"ansible_python_interpreter": str(old), "preflight_python": str(old)}
    for playbook in ("deploy", "download"):
        status, output = project.run(tmp_path / playbook, playbook, answers("vLLM deploy"), node)
        assert status == "failed"
        text = " ".join(output.split())
        assert f"{old} on the node is 3.6" in text
        assert "the modules need Python 3.10 or later. Install one and set ansible_python_interpreter to it." in text


def test_a_profile_for_the_download_is_not_deployed(project: Project, tmp_path: Path, node: dict[str, t.Any]) -> None:
    extra = answers("vLLM deploy") | {"model_profile": "glm_5_gguf"}
    status, output = project.run(tmp_path, "deploy", extra, node)
    assert status == "failed"
    assert "glm_5_gguf is for playbooks/download.yml only. vLLM does not serve GGUF files" in " ".join(output.split())
