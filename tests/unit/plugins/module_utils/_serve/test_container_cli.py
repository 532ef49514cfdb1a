# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions to the vLLM of an image: in containers, and by the same rules as those to a virtual environment."""

from __future__ import annotations

import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._errors import ModelopsError
from ansible_collections.modelops.vllm.plugins.module_utils._serve import acceptance
from ansible_collections.modelops.vllm.plugins.module_utils._serve.container_cli import ContainerCli
from ansible_collections.modelops.vllm.plugins.module_utils._serve.podman import Sandbox

IMAGE = "quay.io/a/vllm@sha256:" + "0123456789abcdef" * 4
FACTS = 'MODELOPS_IMAGE ["/usr/bin/python3", "0.32.0", ["llama", "minimax_m2"]]\n'


class Engine:
    """podman run, as far as the questions see it."""

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self.answers = list(answers)
        self.commands: list[list[str]] = []

    def __call__(self, argv: t.Sequence[str]) -> tuple[int, str, str]:
        self.commands.append(list(argv))
        return self.answers.pop(0)


def cli(*answers: tuple[int, str, str]) -> tuple[ContainerCli, Engine]:
    engine = Engine((0, "/usr/local/bin/vllm\n" + FACTS, ""), *answers)
    return ContainerCli(Sandbox(IMAGE, ["/srv/m:/srv/m:ro"], ["nvidia.com/gpu=all"]), "vllm", engine, "/tmp/q"), engine


def test_version_and_model_types_take_one_container() -> None:
    asked, engine = cli()
    assert (asked.version(), asked.model_types()) == ("0.32.0", {"llama", "minimax_m2"})
    assert len(engine.commands) == 1
    assert {"--device=nvidia.com/gpu=all", "--volume=/srv/m:/srv/m:ro", "--volume=/tmp/q:/tmp/q:ro"} <= set(
        engine.commands[0]
    )


def test_the_flags_come_from_the_script_of_the_image() -> None:
    asked, engine = cli((0, "--seed SEED", ""))
    assert asked.help_text() == "--seed SEED"
    assert engine.commands[1][-4:] == ["--entrypoint=/usr/local/bin/vllm", IMAGE, "serve", "--help=all"]
    assert not [word for word in engine.commands[1] if word.startswith("--env=PATH=")]
    assert "--env=HF_HUB_OFFLINE=1" in engine.commands[1]


def test_the_parser_is_asked_by_the_python_of_the_image_with_the_instance_s_environment() -> None:
    said = 'MODELOPS_RESULT {"args": {"seed": 3}, "reasoning": [], "envs": []}\n'
    asked, engine = cli((0, said, ""))
    assert asked.parse("/tmp/q/x.yaml", {"PYTHONPATH": "/plug", "HF_HOME": "/no"}, {"seed": 4}) is not None
    command = engine.commands[1]
    assert "--entrypoint=/usr/bin/python3" in command
    assert command[-1] == "/tmp/q/x.yaml"
    assert "--env=PYTHONPATH=/plug" in command
    assert "--env=HF_HOME=/no" not in command


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ((127, "", "there is no vllm in the image"), "there is no vllm"),
        ((126, "", "unresolvable CDI devices nvidia.com/gpu=9"), "gpu=9"),
        ((0, "/usr/local/bin/vllm\n", ""), "/usr/local/bin/vllm"),
    ],
)
def test_an_image_that_does_not_run_is_an_error_with_the_reason(answer: tuple[int, str, str], word: str) -> None:
    with pytest.raises(ModelopsError, match=word) as e:
        ContainerCli(Sandbox(IMAGE), "vllm", Engine(answer), "/tmp/q")
    assert IMAGE in str(e.value)
    assert "nvidia-ctk cdi generate" in e.value.remedy


def test_a_broken_image_is_not_called_a_broken_venv() -> None:
    asked, _engine = cli((1, "", "ImportError: libcuda.so.1"))
    with pytest.raises(ModelopsError, match=r"libcuda.so.1") as e:
        asked.help_text()
    assert "venv" not in str(e.value)


def test_another_image_is_asked_anew() -> None:
    asked, _engine = cli()
    engine = Engine((0, "/usr/local/bin/vllm\n" + FACTS, ""))
    other = ContainerCli(Sandbox(IMAGE.replace("0123", "f123")), "vllm", engine, "/tmp/q")
    known = [acceptance.identity(c.binary, c.python, c.version()) for c in (asked, other)]
    assert known[0] != known[1]


def test_the_question_finds_script_python_and_version(tmp_path: Path) -> None:
    # The container is left out: what it would run is run here, with a vllm that this Python has.
    site = tmp_path / "site"
    (site / "vllm-0.31.0.dist-info").mkdir(parents=True)
    (site / "vllm-0.31.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.31.0\n")
    (site / "transformers" / "models" / "llama").mkdir(parents=True)
    for name in ("transformers", "transformers/models/llama"):
        (site / name / "__init__.py").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    script = tmp_path / "vllm"
    script.write_text(f"#!{python}\n")
    for path in (python, script):
        path.chmod(0o755)

    def inside(argv: t.Sequence[str]) -> tuple[int, str, str]:
        words = list(argv[argv.index(IMAGE) + 1 :])
        env = {"PATH": f"{tmp_path}:{os.defpath}"}
        run = subprocess.run(["/bin/sh", *words], capture_output=True, text=True, check=False, env=env)
        return run.returncode, run.stdout, run.stderr

    asked = ContainerCli(Sandbox(IMAGE), "vllm", inside, str(tmp_path))
    assert (asked.version(), asked.model_types(), asked.python) == ("0.31.0", {"llama"}, sys.executable)
    script.write_text("\x7fELF")
    with pytest.raises(ModelopsError, match="no Python script"):
        ContainerCli(Sandbox(IMAGE), "vllm", inside, str(tmp_path))
    with pytest.raises(ModelopsError, match="there is no wllm"):
        ContainerCli(Sandbox(IMAGE), "wllm", inside, str(tmp_path))
