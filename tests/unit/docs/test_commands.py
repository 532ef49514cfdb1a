# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command of the guides can be typed as it stands, and is run by a test or marked as one that no test can run."""

from __future__ import annotations

import importlib
import itertools
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.support import profiles
from tests.support.guides import GUIDES, ROOT, Command, commands, stems

COMMANDS = [c for guide in GUIDES for c in commands(guide)]
TABLE = yaml.safe_load((Path(__file__).parent / "commands.yml").read_text(encoding="utf-8"))
CLI = {"ansible-playbook": "playbook.PlaybookCLI", "ansible": "adhoc.AdHocCLI", "ansible-galaxy": "galaxy.GalaxyCLI"}
PLAYBOOKS = [c for c in COMMANDS if c.kind.startswith("playbook ")]


def label(command: Command) -> str:
    return f"{command.guide.removeprefix('guide_')}: {' '.join(command.words)[:60]}"


def test_every_kind_of_command_is_run_by_a_test_or_needs_something() -> None:
    known = [*TABLE["run_by"], *itertools.chain(*TABLE["needs"].values())]
    assert len(known) == len(set(known))
    # None is missing, and none is listed that no guide has any more.
    assert sorted({c.kind for c in COMMANDS}) == sorted(known)


@pytest.mark.parametrize(("kind", "proof"), [pytest.param(k, v, id=k) for k, v in TABLE["run_by"].items()])
def test_the_test_of_a_command_has_it(kind: str, proof: t.Mapping[str, str]) -> None:
    assert proof["text"] in (ROOT / proof["file"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.words[0] in CLI], ids=label)
def test_ansible_takes_the_options_of_a_command(command: Command) -> None:
    """Its own parser, which ends the process where an option is unknown or wrong."""
    # Imported here, since that ends the process too, where standard output is not as ansible wants it.
    module, _dot, name = CLI[command.words[0]].partition(".")
    cli = getattr(importlib.import_module(f"ansible.cli.{module}"), name)(list(command.words))
    cli.init_parser()
    cli.parser.parse_args(list(command.words[1:]))


@pytest.mark.parametrize("command", PLAYBOOKS, ids=label)
def test_the_playbook_of_a_command_exists_and_its_tags_do(command: Command) -> None:
    name = command.playbook
    path = ROOT / name if "/" in name else ROOT / "playbooks" / f"{name.removeprefix('modelops.vllm.')}.yml"
    assert path.exists()
    for option, value in itertools.pairwise(command.words):
        if option == "--tags":
            assert re.search(rf"tags: \[.*\b{value}\b", path.read_text(encoding="utf-8"))


def is_target(target: str) -> bool:
    if target.startswith("molecule-"):
        return (ROOT / "molecule" / target.removeprefix("molecule-") / "molecule.yml").exists()
    return re.search(rf"^(?:[\w-]+ )*{target}(?: [\w-]+)*:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.words[0] == "make"], ids=label)
def test_a_target_of_make_exists(command: Command) -> None:
    assert is_target(command.words[1])


@pytest.mark.parametrize("workflow", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda path: path.stem)
def test_a_workflow_calls_targets_of_make_and_needs_no_secret(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"].values()
    steps = [step for job in jobs for step in job["steps"]]
    called = {w for step in steps for w in re.findall(r"\bmake ([a-z]+)\b(?!-)", step.get("run", ""))}
    targets = called | {x for job in jobs for x in job.get("strategy", {}).get("matrix", {}).get("target", [])}
    assert targets
    assert [x for x in sorted(targets) if not is_target(x)] == []
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    assert "secrets." not in text


def test_the_plan_in_the_guide_to_the_rtx_pro_6000_is_what_the_planner_says() -> None:
    model, hardware = profiles.load("models")["minimax_m2_5"], profiles.load("hardware")["rtx_pro_6000_x8"]
    answer = profiles.plan(model, hardware)
    plan = {x["id"]: x for x in answer["layouts"]}
    text = (ROOT / "docs" / "docsite" / "rst" / "guide_rtx_pro_6000.rst").read_text(encoding="utf-8")
    assert f"plan_vllm_version={profiles.VERSION}" in text
    rows = re.findall(r"^(tp[\w-]+) +(\d) +([\d.]+) +([\d.]+) +([\d,]+) ", text, re.MULTILINE)
    assert len(rows) == 6
    for id_, gpus, weights, overhead, tokens in rows:
        layout = plan[id_]
        assert layout["valid"]
        assert int(gpus) == hardware["gpus"]["count"] - layout["idle_gpus"]
        assert float(weights) == round(layout["weights_gib_per_gpu"], 2)
        assert float(overhead) == round(layout["overhead_gib_per_gpu"], 1)
        assert int(tokens.replace(",", "")) == layout["kv_tokens_total"]
    assert answer["recommended"] == rows[0][0]
    assert profiles.chosen(model, hardware, answer)["id"] == rows[2][0]
    for id_ in ("tp2", "tp1"):
        assert not plan[id_]["valid"]
        assert f"{plan[id_]['weights_gib_per_gpu']:.2f}" in text


def test_the_profiles_that_the_readme_deploys_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"model_profile=(\w+)", text)) <= stems("playbooks/vars/models/*.yml")
    assert set(re.findall(r"hardware_profile=(\w+)", text)) <= stems("playbooks/vars/hardware/*.yml")
    assert {x for x in re.findall(r"inventories/\w+", text) if not (ROOT / x).is_dir()} == set()
