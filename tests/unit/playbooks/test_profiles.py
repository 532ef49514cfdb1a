# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profiles are data that the roles and the planner understand, and the guide shows what they give."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.modelops.vllm.plugins.module_utils._gpu.checks import unexpected
from ansible_collections.modelops.vllm.plugins.module_utils._planner.api import layout_info
from ansible_collections.modelops.vllm.plugins.module_utils._planner.layout import Layout
from ansible_collections.modelops.vllm.plugins.module_utils._planner.values import version_of

from tests.support import profiles

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "unit" / "fixtures"
ENTRIES = {m["id"]: m for m in json.loads((FIXTURES / "models.json").read_text())["models"]}
FLAGS = json.loads((FIXTURES / "vllm_compat.json").read_text())["flags"]
MODELS, HARDWARE = profiles.load("models"), profiles.load("hardware")
SERVED = {name: model for name, model in MODELS.items() if "download_only" not in model}

# The parsers that a profile may name, each with a release that has it for certain. Source: tool_parsers/__init__.py and
# reasoning/__init__.py of vLLM 0.32.0; the wheels that were read, and the recipes of the models.
TOOL_PARSERS = {
    "deepseek_v32": "0.13.0",
    "glm47": "0.14.1",
    "hermes": "0.10.0",
    "kimi_k2": "0.10.0",
    "llama3_json": "0.10.0",
    "minimax_m2": "0.11.2",
    "openai": "0.10.2",
    "qwen3_coder": "0.10.0",
}
REASONING_PARSERS = {
    "deepseek_v3": "0.11.2",
    "glm45": "0.10.0",
    "kimi_k2": "0.11.2",
    "minimax_m2_append_think": "0.11.2",
    "openai_gptoss": "0.10.2",
    "qwen3": "0.10.0",
}
VLLM = os.environ.get("VLLM_VENV", "")

ALWAYS = {"name": str, "repo_id": str, "revision": str, "served_name": str, "disk_bytes": int}
TO_SERVE = {
    "config": dict,
    "serve_args": dict,
    "serve_env": dict,
    "reasoning": str,
    "tool_call": bool,
    "min_vllm": str,
    "trust_remote_code": bool,
    "allow_pickle": bool,
    "layouts": list,
}
SOMETIMES = {
    "allow_patterns": list,
    "ignore_patterns": list,
    "bad_vllm": list,
    "max_model_len": int,
    "layouts_by_link": dict,
    "download_only": str,
}
OF_HARDWARE = {"name": str, "accelerator": str, "gpus": dict, "serve_args": dict, "serve_env": dict}
SOMETIMES_OF_HARDWARE = {"nodes": int, "layouts": list}


def test_the_models_and_machines_of_the_project_are_there():
    assert set(MODELS) == {
        "deepseek_v3_2",
        "glm_4_7_fp8",
        "glm_5_fp8",
        "glm_5_gguf",
        "glm_5_nvfp4",
        "gpt_oss_120b",
        "kimi_k2_5",
        "kimi_k2_5_nvfp4",
        "llama_3_3_70b",
        "minimax_m2",
        "minimax_m2_1",
        "minimax_m2_5",
        "minimax_m2_5_nvfp4",
        "qwen3_235b_a22b_fp8",
        "qwen3_coder_480b_fp8",
    }
    assert set(HARDWARE) == {
        "a100_x8",
        "b200_x8",
        "cpu",
        "gb10_x1",
        "gb10_x2",
        "h100_x8",
        "h200_x2",
        "h200_x8",
        *(f"rtx_pro_6000_x{n}" for n in (1, 2, 4, 8)),
    }


def _typed(profile, required, optional):
    known = {**required, **optional}
    assert set(profile) <= set(known), "a key that no role reads"
    assert set(required) <= set(profile)
    assert [k for k, v in profile.items() if not isinstance(v, known[k])] == []


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_keys_that_are_read(name):
    model = MODELS[name]
    _typed(model, ALWAYS | ({} if "download_only" in model else TO_SERVE), SOMETIMES)
    assert re.fullmatch(r"[0-9a-f]{40}", model["revision"])
    assert model["disk_bytes"] > 10**10
    assert not any(value == [] for key, value in model.items() if key != "layouts")


@pytest.mark.parametrize("name", MODELS)
def test_each_fact_of_a_model_stands_under_its_source(name):
    """A comment right above the revision, the config and the flags, which says where they are from."""
    lines = (ROOT / "playbooks/vars/models" / f"{name}.yml").read_text().splitlines()
    for key in ("revision", "config", "serve_args", "disk_bytes"):
        place = next((i for i, line in enumerate(lines) if line.startswith(f"  {key}:")), None)
        if place is None:
            assert "download_only" in MODELS[name]
            continue
        above = lines[place - 1]
        assert above.startswith("  #"), f"{key} of {name} has no source"


@pytest.mark.parametrize("name", SERVED)
def test_a_flag_of_a_model_exists_from_its_oldest_vllm_on(name):
    model = SERVED[name]
    oldest = version_of(model["min_vllm"])
    for flag in model["serve_args"]:
        assert version_of(FLAGS[f"--{flag}"]["first_seen"]) <= oldest, flag
        assert FLAGS[f"--{flag}"]["last_seen"] == "0.33.0", flag
    for flag, known in (("tool-call-parser", TOOL_PARSERS), ("reasoning-parser", REASONING_PARSERS)):
        parser = model["serve_args"].get(flag)
        assert parser is None or version_of(known[parser]) <= oldest, parser
    assert ("tool-call-parser" in model["serve_args"]) is model["tool_call"]


@pytest.mark.skipif(not VLLM, reason="VLLM_VENV names no vLLM")
@pytest.mark.parametrize(("package", "known"), [("tool_parsers", TOOL_PARSERS), ("reasoning", REASONING_PARSERS)])
def test_the_parsers_are_those_of_the_installed_vllm(package, known):
    (table,) = Path(VLLM).glob(f"lib/python3*/site-packages/vllm/{package}/__init__.py")
    assert set(known) <= set(re.findall(r'^    "([^"]+)": \(', table.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", SERVED)
def test_what_a_model_says_is_sane(name):
    model = SERVED[name]
    assert model["reasoning"] in ("none", "split", "append")
    if model["reasoning"] == "append":
        assert model["serve_args"]["reasoning-parser"].endswith("_append_think")
    if model["reasoning"] == "split":
        assert not model["serve_args"]["reasoning-parser"].endswith("_append_think")
    assert all(Layout.parse(id_).id == id_ for id_ in model["layouts"])
    # Drafts cost throughput when many requests run: whoever wants them says so.
    assert "speculative-config" not in model["serve_args"]
    for bad in model.get("bad_vllm", []):
        assert set(bad) == {"version", "why"}
        assert version_of(bad["version"]) > version_of(model["min_vllm"])
        assert "#" in bad["why"]


@pytest.mark.parametrize("name", [n for n in SERVED if SERVED[n]["repo_id"] in ENTRIES])
def test_the_config_of_a_model_gives_the_sizes_of_the_table_of_shapes(name):
    """Weights and KV bytes of all layouts are those of the published shapes, which leave out the vision tower."""
    model = SERVED[name]
    asked = {"gpus": HARDWARE["h200_x8"]["gpus"], "vllm_version": profiles.VERSION}
    mine = layout_info({**asked, "config": model["config"]})["layouts"]
    theirs = layout_info({**asked, "config": ENTRIES[model["repo_id"]]})["layouts"]
    vision = 0.9 if "vision_config" in model["config"] else 0.0
    assert [x["id"] for x in mine] == [x["id"] for x in theirs]
    assert [x["kv_bytes_per_token"] for x in mine] == [x["kv_bytes_per_token"] for x in theirs]
    for a, b in zip(mine, theirs, strict=True):
        assert 0 <= a["weights_gib_per_gpu"] - b["weights_gib_per_gpu"] <= vision, a["id"]


@pytest.mark.parametrize("name", SERVED)
def test_the_disk_holds_what_the_shapes_say(name):
    """disk_bytes is at least the weights of the table, and at most 6 % more (MTP layers, vision tower, tokenizer)."""
    entry = ENTRIES[SERVED[name]["repo_id"]]
    assert 0.999 <= SERVED[name]["disk_bytes"] / entry["weights_bytes_computed"] <= 1.06


@pytest.mark.parametrize("name", HARDWARE)
def test_a_machine_has_the_keys_that_are_read(name):
    hardware = HARDWARE[name]
    _typed(hardware, OF_HARDWARE, SOMETIMES_OF_HARDWARE)
    assert hardware["accelerator"] == ("cpu" if name == "cpu" else "cuda")
    keys = {"count", "name", "memory_mib", "compute_cap", "link"}
    assert set(hardware["gpus"]) - {"unified_memory"} == keys
    assert f"x{hardware['gpus']['count'] * hardware.get('nodes', 1)}" == name.rpartition("_")[2] or name == "cpu"
    assert all(f"--{flag}" in FLAGS for flag in hardware["serve_args"])
    assert all(isinstance(value, str) for value in hardware["serve_env"].values())


@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("edition", ["Server Edition", "Workstation Edition", "Max-Q Workstation Edition"])
def test_one_profile_stands_for_all_editions_of_the_card(edition, count):
    """The names as nvidia-smi shows them."""
    expected = HARDWARE[f"rtx_pro_6000_x{count}"]["gpus"]
    name = f"NVIDIA RTX PRO 6000 Blackwell {edition}"
    gpu = {"index": 0, "name": name, "compute_cap": "12.0", "memory_mib": 97887}
    assert unexpected([gpu] * count, "pcie", "ok", expected) == []
    (finding,) = unexpected([{**gpu, "name": "NVIDIA RTX PRO 5000 Blackwell"}] * count, "pcie", "ok", expected)
    assert finding.id == "gpu-name"


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("model", SERVED)
def test_every_model_on_every_machine_has_a_plan_or_a_reason(model, hardware):
    answer = profiles.plan(SERVED[model], HARDWARE[hardware])
    best = profiles.chosen(SERVED[model], HARDWARE[hardware], answer)
    assert answer["layouts"]
    if best is None:
        assert answer["recommended"] is None
        assert profiles.reason(answer).endswith(".")
        assert all(any(f["severity"] == "error" for f in x["findings"]) for x in answer["layouts"])
    else:
        count = HARDWARE[hardware]["gpus"]["count"] * HARDWARE[hardware].get("nodes", 1)
        assert best["gpus"] <= count
        assert best["kv_tokens_total"] >= best["max_model_len_fit"] > 16384


@pytest.mark.parametrize(
    ("model", "hardware", "layout"),
    [
        pytest.param("minimax_m2_5", "rtx_pro_6000_x8", "tp8-ep", id="the case of the project"),
        pytest.param("minimax_m2_5", "rtx_pro_6000_x4", "tp4", id="half of it"),
        pytest.param("minimax_m2_5", "h200_x2", "tp2", id="no preferred layout fits two GPUs"),
        pytest.param("minimax_m2_5_nvfp4", "rtx_pro_6000_x2", "tp2", id="published on two cards"),
        pytest.param("kimi_k2_5", "rtx_pro_6000_x8", "tp8", id="INT4"),
        pytest.param("kimi_k2_5_nvfp4", "rtx_pro_6000_x8", "tp8", id="NVFP4"),
        pytest.param("glm_5_nvfp4", "rtx_pro_6000_x8", "tp8", id="sparse attention on SM120"),
        pytest.param("glm_5_fp8", "rtx_pro_6000_x8", None, id="695 GiB do not fit 760"),
        pytest.param("glm_5_fp8", "a100_x8", None, id="no kernel for sparse attention"),
        pytest.param("deepseek_v3_2", "h200_x8", "tp1-dp8-ep", id="data parallel attention"),
        pytest.param("gpt_oss_120b", "gb10_x1", "tp1", id="on a desk"),
        pytest.param("gpt_oss_120b", "cpu", None, id="not in 64 GiB"),
    ],
)
def test_what_is_known_to_fit_or_not(model, hardware, layout):
    answer = profiles.plan(SERVED[model], HARDWARE[hardware])
    best = profiles.chosen(SERVED[model], HARDWARE[hardware], answer)
    assert (best and best["id"]) == layout


def test_the_tables_of_the_guide_are_of_today():
    text = profiles.GUIDE.read_text(encoding="utf-8")
    assert text == profiles.written(text), "run: python tests/support/profiles.py"
    assert text.count("rtx_pro_6000_x8") > len(SERVED) - 1


@pytest.mark.parametrize("path", sorted((ROOT / "playbooks").glob("deploy_*.yml")), ids=lambda p: p.stem)
def test_a_playbook_of_a_family_names_a_profile_and_nothing_else(path):
    (play,) = yaml.safe_load(path.read_text())
    assert set(play) == {"name", "ansible.builtin.import_playbook", "vars"}
    assert play["ansible.builtin.import_playbook"] == "deploy.yml"
    assert list(play["vars"]) == ["model_profile"]
    assert play["vars"]["model_profile"] in SERVED
    comment = "".join(line for line in path.read_text().splitlines() if line.startswith("#"))
    named = set(re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)+", comment)) - {"hardware_profile", "model_profile"}
    assert named <= set(SERVED)
