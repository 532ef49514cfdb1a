# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a survey become variables of roles; blanks do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow

PLAY = """
- hosts: localhost
  gather_facts: false
  vars: {serve_port: 8000, serve_host: here, serve_smoke: true, weights_retries: 5, unrelated: kept}
  tasks:
    - ansible.builtin.import_tasks: %s
    - ansible.builtin.copy:
        content: "{{ {'port': serve_port, 'host': serve_host, 'smoke': serve_smoke | bool, 'unrelated': unrelated,
          'start': serve_start | default('unset') | string | lower, 'retries': weights_retries | int} | to_json }}"
        dest: %s
        mode: "0600"
"""


def taken(tmp_path, **extra):
    """(the variables after the answers, all output)"""
    play, result = tmp_path / "play.yml", tmp_path / "result.json"
    play.write_text(PLAY % (ROOT / "playbooks" / "tasks" / "survey.yml", result))
    command = [Path(sys.executable).parent / "ansible-playbook", "-vvv", str(play), "-e", json.dumps(extra)]
    environment = {**os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(result.read_text()), done.stdout + done.stderr


def test_an_answer_wins_and_a_blank_is_none(tmp_path):
    variables, output = taken(
        tmp_path,
        survey_serve_port="8001",
        survey_serve_host="",
        survey_serve_smoke="false",
        survey_weights_retries=None,
        survey_serve_start="no",
        survey_serve_api_key="sk-test-4711",
        survey_unrelated="taken",
    )
    assert variables["start"] in ("no", "false")
    del variables["start"]
    assert {**variables, "port": int(variables["port"])} == {
        "port": 8001,
        "host": "here",
        "smoke": False,
        "retries": 5,
        "unrelated": "kept",
    }
    assert "sk-test-4711" not in output.split("PLAY [")[1]


def test_zero_and_false_are_answers(tmp_path):
    variables, _output = taken(tmp_path, survey_weights_retries=0, survey_serve_smoke=False)
    assert variables["retries"] == 0
    assert variables["smoke"] is False
