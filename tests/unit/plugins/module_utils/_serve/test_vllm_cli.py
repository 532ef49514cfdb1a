# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of an installed vLLM, and what is made of the answers."""

from __future__ import annotations

import json
import stat
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve.vllm_cli import Cli, interpreter

MARK = "MODELOPS_RESULT "


class Recorder:
    """Stands in for running programs: answers from a list, keeps what was asked."""

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[list[str], dict[str, str]]] = []

    def __call__(self, argv: t.Sequence[str], env: dict[str, str]) -> tuple[int, str, str]:
        self.calls.append((list(argv), env))
        return self.answers.pop(0)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "vllm"
    path.write_text(f"#!{sys.executable}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def parsed(args: dict[str, t.Any], reasoning: t.Sequence[str] = (), envs: t.Sequence[str] = ()) -> tuple[int, str, str]:
    return 0, f"noise\n{MARK}{json.dumps({'args': args, 'reasoning': reasoning, 'envs': envs})}\n", ""


def test_the_python_of_a_console_script_is_found(script: str, tmp_path: Path) -> None:
    assert interpreter(script) == sys.executable
    other = tmp_path / "wrapper"
    other.write_text("#!/bin/sh\nexec vllm\n")
    assert interpreter(str(other)) == ""
    assert interpreter(str(tmp_path / "absent")) == ""


def test_the_models_of_the_installed_transformers_are_its_folders(tmp_path: Path) -> None:
    # A name with brackets must not be taken for a pattern.
    venv = tmp_path / "vllm [1]"
    models = venv / "lib" / "python3.12" / "site-packages" / "transformers" / "models"
    for name in ("minimax_m2", "qwen3"):
        (models / name).mkdir(parents=True)
        (models / name / "__init__.py").touch()
    (models / "auto.py").touch()
    (venv / "bin").mkdir()
    for name, text in (("python3", "#!/bin/sh\n"), ("vllm", f"#!{venv}/bin/python3\n")):
        (venv / "bin" / name).write_text(text)
        (venv / "bin" / name).chmod(0o755)
    cli = Cli(str(venv / "bin" / "vllm"), Recorder(), "/tmp/h")
    # A first line cannot hold a path with a space: such an installation has a shell in front of its Python.
    assert cli.python == ""
    assert cli.model_types() == frozenset()
    cli.python = str(venv / "bin" / "python3")
    assert cli.model_types() == {"minimax_m2", "qwen3"}


def test_the_version_is_read_from_the_metadata(script: str) -> None:
    run = Recorder((0, "0.32.0+cpu\n", ""))
    assert Cli(script, run, "/tmp/h").version() == "0.32.0+cpu"
    assert run.calls[0][0][0] == sys.executable


def test_a_vllm_without_metadata_is_asked_itself(script: str) -> None:
    run = Recorder((1, "", "PackageNotFoundError"), (0, "WARNING x\n0.33.0\n", ""))
    assert Cli(script, run, "/tmp/h").version() == "0.33.0"
    assert run.calls[1][0] == [script, "--version"]


def test_a_broken_installation_is_an_error_with_its_last_words(script: str) -> None:
    broken = (1, "", "RuntimeError: operator torchvision::nms does not exist")
    with pytest.raises(ModelopsError, match="nms does not exist"):
        Cli(script, Recorder(broken, broken), "/tmp/h").version()
    with pytest.raises(ModelopsError, match="--help=all failed with status 1"):
        Cli(script, Recorder(broken), "/tmp/h").help_text()


def test_what_arrives_as_it_was_wanted_is_accepted(script: str) -> None:
    run = Recorder(parsed({"seed": 1, "served_model_name": ["x"], "enforce_eager": True, "hf_overrides": {"a": 1}}))
    wanted = {"seed": 1, "served-model-name": "x", "enforce-eager": True, "hf-overrides": {"a": 1}, "unlisted": 1}
    assert Cli(script, run, "/tmp/h").parse("/f.yaml", {}, wanted) == []
    assert run.calls[0][0][-1] == "/f.yaml"


@pytest.mark.parametrize(
    ("arrived", "wanted"),
    [({"seed": None}, {"seed": 3}), ({"x": False}, {"x": True}), ({"c": {}}, {"c": {"a": 1}}), ({"n": 1}, {"n": 2})],
)
def test_what_the_parser_drops_or_changes_is_an_error(
    script: str, arrived: dict[str, t.Any], wanted: dict[str, t.Any]
) -> None:
    findings = Cli(script, Recorder(parsed(arrived)), "/tmp/h").parse("/f.yaml", {}, wanted)
    assert findings is not None
    assert [f.id for f in findings] == ["flag-not-applied"]


def test_a_refusal_is_quoted(script: str) -> None:
    run = Recorder((2, "", "usage: vllm\nvllm serve: error: argument --seed: invalid int value: 'x'\n"))
    findings = Cli(script, run, "/tmp/h").parse("/f.yaml", {}, {"seed": "x"})
    assert findings is not None
    assert findings[0].id == "args-refused"
    assert "argument --seed: invalid int value" in findings[0].message


def test_another_layout_of_modules_is_no_refusal(script: str) -> None:
    run = Recorder((1, "", "ModuleNotFoundError: No module named 'vllm.entrypoints.cli.serve'"))
    assert Cli(script, run, "/tmp/h").parse("/f.yaml", {}, {}) is None


def test_unknown_variables_are_a_warning_and_unknown_reasoning_parsers_an_error(script: str) -> None:
    run = Recorder(parsed({}, ["minimax_m2"], ["VLLM_PORT"]))
    env = {"VLLM_USE_V1": "1", "VLLM_PORT": "1", "NCCL_DEBUG": "INFO"}
    findings = Cli(script, run, "/tmp/h").parse("/f.yaml", env, {"reasoning-parser": "nope"})
    assert findings is not None
    assert [(f.id, f.severity) for f in findings] == [("flag-choice", "error"), ("env-unknown", "warning")]
    assert "VLLM_USE_V1" in findings[1].message


def test_the_parser_runs_with_the_variables_of_the_service_but_not_in_its_directories(script: str) -> None:
    run = Recorder(parsed({}))
    env = {
        "PYTHONPATH": "/shim",
        "HOME": "/var/lib/vllm",
        "VLLM_CACHE_ROOT": "/var/lib/vllm/c",
        "HF_HOME": "/x",
        "N": 1,
    }
    Cli(script, run, "/tmp/h").parse("/f.yaml", env, {})
    used = run.calls[0][1]
    assert used["PYTHONPATH"] == "/shim"
    assert used["N"] == "1"
    assert used["HOME"] == "/tmp/h"
    assert not {"VLLM_CACHE_ROOT", "HF_HOME"} & set(used)
