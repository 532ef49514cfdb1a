# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that a test of a molecule scenario runs again on the scenario's nodes."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

ROLLBACK = Path(__file__).parents[2] / "playbooks" / "rollback.yml"


def command(playbook: Path, *arguments: str, **variables: t.Any) -> list[str]:
    """What runs a playbook on the nodes of the scenario, with other variables."""
    inventory = os.environ["MOLECULE_INVENTORY_FILE"]
    return ["ansible-playbook", "-i", inventory, *arguments, str(playbook), "-e", json.dumps(variables)]


def environment() -> dict[str, str]:
    """Molecule asks for colours, in which a test would have to look for words."""
    return {**os.environ, "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"}


def run_playbook(playbook: Path, *arguments: str, **variables: t.Any) -> subprocess.CompletedProcess[str]:
    """Run it to its end. ``stdout`` has all that it printed, in one line, since the callback wraps long messages."""
    run = subprocess.run(
        command(playbook, *arguments, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=environment(),
    )
    run.stdout = " ".join(run.stdout.split())
    return run
