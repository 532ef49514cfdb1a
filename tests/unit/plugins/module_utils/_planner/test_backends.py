# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of classes and kernels, and the rules on them."""

from __future__ import annotations

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._planner import architectures, tuned_moe
from ansible_collections.modelops.vllm.plugins.module_utils._planner.backends import (
    attention_backends,
    moe_backends,
    tuned_moe_config,
)
from ansible_collections.modelops.vllm.plugins.module_utils._planner.case import Case, Flags
from ansible_collections.modelops.vllm.plugins.module_utils._planner.gpus import Gpus
from ansible_collections.modelops.vllm.plugins.module_utils._planner.layout import Layout
from ansible_collections.modelops.vllm.plugins.module_utils._planner.rules import judge
from ansible_collections.modelops.vllm.plugins.module_utils._planner.shape import ModelShape

RTX = Gpus(8, "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, (12, 0), "pcie")
H200 = Gpus(8, "NVIDIA H200", 143771, (9, 0), "nvlink")
B200 = Gpus(8, "NVIDIA B200", 183359, (10, 0), "nvlink")
A100 = Gpus(8, "NVIDIA A100-SXM4-80GB", 81920, (8, 0), "nvlink")
ADA = Gpus(8, "NVIDIA L40S", 46068, (8, 9), "pcie")
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
CHANNEL = {"quant_method": "fp8"}
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
INT4 = {"quant_method": "gptq", "bits": 4, "group_size": 128}
MOE = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "hidden_size": 3072,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "intermediate_size": 1536,
    "num_local_experts": 256,
}


def case(config, layout="tp8", gpus=RTX, version=(0, 32, 0), **flags):
    return Case(ModelShape.from_config(config), Layout.parse(layout), gpus, 1, version, Flags(**flags))


def moe(quant, layout="tp4", gpus=RTX, version=(0, 32, 0)):
    return case({**MOE, "quantization_config": quant}, layout, gpus, version)


def found(case_):
    return {f.id: f for f in judge(case_)}


@pytest.mark.parametrize(
    ("name", "first"),
    [("MiniMaxM2ForCausalLM", (0, 11, 2)), ("GlmMoeDsaForCausalLM", (0, 16, 0)), ("LlamaForCausalLM", (0, 10, 0))],
)
def test_classes_have_the_release_in_which_they_were_seen_first(name, first):
    assert architectures.FIRST_READ[name] == first
    assert name not in architectures.PIPELINE_NEVER


def test_tables_of_classes_agree_with_each_other():
    names = set(architectures.FIRST_READ)
    assert names >= set(architectures.PIPELINE_SINCE) | set(architectures.FIRST_REPORTED) | architectures.PIPELINE_NEVER
    assert set(architectures.FIRST_READ.values()) <= set(architectures.READ)
    assert list(architectures.READ) == sorted(architectures.READ)
    for name, since in architectures.PIPELINE_SINCE.items():
        assert since > architectures.FIRST_READ[name] or name in architectures.FIRST_REPORTED


def test_what_lies_between_two_releases_that_were_read_is_not_refused():
    glm = {"architectures": ["GlmMoeDsaForCausalLM"]}
    assert architectures.last_without("GlmMoeDsaForCausalLM") == (0, 15, 1)
    assert "architecture-version" in found(case(glm, gpus=H200, version=(0, 15, 1)))
    assert "architecture-version" not in found(case(glm, gpus=H200, version=(0, 15, 2)))
    assert architectures.last_without("LlamaForCausalLM") is None
    assert architectures.last_without("SomethingNew") is None


@pytest.mark.parametrize("name", sorted(architectures.PIPELINE_NEVER))
def test_classes_without_pipelines(name):
    assert found(case({"architectures": [name]}, "tp1-pp2", version=(0, 33, 0)))["pp-unsupported"].severity == "error"


@pytest.mark.parametrize(
    ("config", "gpus", "version", "first"),
    [
        (MOE, RTX, (0, 32, 0), "FLASH_ATTN"),
        (MOE, H200, (0, 32, 0), "FLASH_ATTN"),
        (MOE, B200, (0, 32, 0), "FLASHINFER"),
        ({"kv_lora_rank": 512}, RTX, (0, 32, 0), "TRITON_MLA"),
        ({"kv_lora_rank": 512}, H200, (0, 32, 0), "FLASH_ATTN_MLA"),
        ({"kv_lora_rank": 512}, H200, (0, 10, 0), "FLASHMLA"),
        ({"kv_lora_rank": 512}, B200, (0, 32, 0), "FLASHINFER_MLA"),
        ({"kv_lora_rank": 512}, A100, (0, 32, 0), "TRITON_MLA"),
        ({"index_topk": 2048}, RTX, (0, 24, 0), "FLASHINFER_MLA_SPARSE_SM120"),
        ({"index_topk": 2048}, H200, (0, 24, 0), "FLASHMLA_SPARSE"),
        ({"index_topk": 2048}, B200, (0, 24, 0), "FLASHINFER_MLA_SPARSE"),
        ({"model_type": "gpt_oss"}, RTX, (0, 26, 0), "TRITON_ATTN"),
        ({"model_type": "gpt_oss"}, RTX, (0, 28, 0), "FLASHINFER"),
        ({"model_type": "gpt_oss"}, RTX, None, "FLASHINFER"),
        ({"model_type": "gpt_oss"}, H200, (0, 26, 0), "FLASH_ATTN"),
    ],
)
def test_attention_of_each_family(config, gpus, version, first):
    assert attention_backends(case(config, gpus=gpus, version=version))[0] == first


def test_attention_that_cannot_be_told():
    assert attention_backends(case(MOE, gpus=None)) is None
    assert attention_backends(case(MOE, gpus=Gpus(8))) is None
    assert attention_backends(case({"hidden_size": 1024})) is None
    assert attention_backends(case(MOE, gpus=Gpus(8, compute_cap=(7, 5)))) is None


@pytest.mark.parametrize(
    ("quant", "layout", "gpus", "names"),
    [
        (FP8, "tp4", RTX, ["DEEPGEMM", "TRITON"]),
        (FP8, "tp8", RTX, ["TRITON"]),  # refined blocks
        (FP8, "tp4", H200, ["TRITON"]),
        (FP8, "tp8-ep", H200, ["FLASHINFER_CUTLASS", "DEEPGEMM", "TRITON"]),
        (FP8, "tp4", B200, ["FLASHINFER_TRTLLM", "DEEPGEMM", "TRITON"]),
        (FP8, "tp4", A100, ["MARLIN"]),
        (FP8, "tp4", ADA, ["TRITON"]),
        (CHANNEL, "tp4", RTX, ["TRITON"]),
        (NVFP4, "tp4", RTX, ["FLASHINFER_CUTLASS", "CUTLASS", "MARLIN"]),
        (NVFP4, "tp4", H200, ["MARLIN"]),
        (INT4, "tp4", RTX, ["MARLIN"]),
        (None, "tp4", H200, ["TRITON"]),
    ],
)
def test_experts_of_each_family(quant, layout, gpus, names):
    assert moe_backends(moe(quant, layout, gpus)) == names


def test_experts_that_cannot_be_told():
    assert moe_backends(moe(FP8, version=(0, 23, 0))) is None
    assert moe_backends(case({**MOE, "num_local_experts": 0})) is None
    assert moe_backends(moe({"quant_method": "new"})) is None


@pytest.mark.parametrize(
    ("device", "kind", "experts", "width", "version", "there"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "fp8-128", 256, 384, (0, 32, 0), True),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "fp8-128", 256, 192, (0, 32, 0), False),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "fp8-128", 256, 384, (0, 32, 0), False),
        ("NVIDIA RTX PRO 6000 Blackwell", "fp8-128", 256, 384, (0, 32, 0), None),
        ("NVIDIA H200", "fp8-128", 128, 768, None, True),
        ("NVIDIA H200 NVL", "fp8-128", 128, 768, None, True),
        ("NVIDIA GB10", "fp8-128", 256, 512, (0, 27, 1), False),
        ("NVIDIA GB10", "fp8-128", 256, 512, (0, 28, 0), True),
        ("NVIDIA GB10", "bf16", 256, 512, None, False),
        ("", "fp8", 1, 1, None, None),
    ],
)
def test_tuned_configurations_by_exact_name(device, kind, experts, width, version, there):
    assert tuned_moe.has_tuned_config(device, kind, experts, width, version) is there


@pytest.mark.parametrize(
    ("layout", "tuned"), [("tp4", True), ("tp4-ep", True), ("tp8", False), ("tp8-ep", False), ("tp1-dp4-ep", True)]
)
def test_minimax_on_the_server_edition(layout, tuned):
    # Serving facts 2e: E=256,N=384 and E=64,N=1536 are there, E=256,N=192 and E=32,N=1536 are not.
    assert tuned_moe_config(moe(FP8, layout)) is tuned
    assert ("moe-config-default" in found(moe(FP8, layout))) is not tuned


def test_a_missing_configuration_names_the_rank():
    finding = found(moe(FP8, "tp8-ep"))["moe-config-default"]
    assert (finding.severity, finding.numbers) == ("info", {"experts": 32, "width": 1536, "device": RTX.name})
    assert "VLLM_TUNED_CONFIG_FOLDER" in finding.remedy


def test_other_kernels_need_no_triton_configuration():
    assert tuned_moe_config(moe(NVFP4)) is None
    assert tuned_moe_config(moe({**FP8, "weight_block_size": [64, 64]})) is None
    assert tuned_moe_config(moe(FP8, gpus=None)) is None


@pytest.mark.parametrize("backend", ["FLASHINFER_MLA", "FLASHMLA_SPARSE"])
def test_a_forced_backend_of_another_kind_is_refused(backend):
    finding = found(case(MOE, attention_backend=backend))["attention-backend"]
    assert finding.severity == "error"
    assert finding.numbers["usable"] == ["FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION"]


def test_a_forced_backend_that_nobody_knows_is_a_warning():
    assert found(case(MOE, attention_backend="B12X"))["attention-backend-unknown"].severity == "warning"
