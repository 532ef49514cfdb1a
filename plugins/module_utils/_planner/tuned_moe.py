# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""The tuned configurations of the Triton MoE kernel that vLLM ships, by exact device name.

Without one vLLM logs "Using default MoE config. Performance might be sub-optimal!". Source: file names in
model_executor/layers/fused_moe/configs of the wheels 0.10.0 to 0.33.0 (architectures.READ); none was taken out again.
"""

from __future__ import annotations

import typing as t

from .values import Version, version_of

# Device, then the type of the weights (bf16; fp8: scales a channel or tensor; fp8-128: blocks of 128 x 128), then
# experts x intermediate width of one rank, "@" the first release that was read with it if that is not 0.10.0.
TUNED: t.Mapping[str, t.Mapping[str, str]] = {
    "NVIDIA_A100-SXM4-40GB": {
        "bf16": "8x1792 8x3584 16x1344",
    },
    "NVIDIA_A100-SXM4-80GB": {
        "bf16": (
            "1x1792 1x3584 1x7168 1x14336 8x1792 8x2048 8x3584 8x4096 8x7168 16x1344 16x1792 16x2688 16x3584 "
            "16x7168 16x14336 64x640 64x1280 128x192 512x64@0.11.2 512x128@0.11.2"
        ),
    },
    "NVIDIA_A100_80GB_PCIe": {
        "bf16": "256x512@0.30.0",
    },
    "NVIDIA_A800-SXM4-80GB": {
        "bf16": "64x640 64x1280 160x192 256x64",
    },
    "NVIDIA_B200": {
        "bf16": (
            "16x1024 32x1408@0.11.2 64x1408@0.11.2 128x512@0.16.0 128x768@0.14.1 128x1856@0.16.0 "
            "512x64@0.10.2 512x128@0.10.2 512x256@0.10.2 512x512@0.10.2 512x672@0.17.1 512x1344@0.16.0"
        ),
        "fp8": "16x1024 40x1536@0.11.2 128x512@0.16.0 128x704@0.10.2 160x384@0.16.0",
        "fp8-128": (
            "16x4096@0.16.0 20x2560@0.10.2 32x2048@0.11.2 40x2560@0.10.2 64x512@0.14.1 128x384@0.10.2 "
            "128x512@0.14.1 128x768 160x640@0.10.2 256x256 256x512@0.14.1 384x128@0.10.2 384x256@0.10.2 "
            "512x128@0.14.1 512x256@0.14.1 512x512@0.14.1"
        ),
    },
    "NVIDIA_B300_SXM6_AC": {
        "fp8": "160x192@0.14.1 160x384@0.14.1 160x768@0.14.1",
    },
    "NVIDIA_GB10": {
        "fp8-128": "256x512@0.28.0 512x512@0.28.0",
    },
    "NVIDIA_GB200": {
        "fp8": "128x512@0.16.0 512x128@0.11.0 512x256@0.11.0 512x512@0.11.0",
        "fp8-128": (
            "20x2560@0.10.2 40x2560@0.10.2 128x384@0.10.2 128x768@0.10.2 160x640@0.10.2 384x128@0.10.2 384x256@0.10.2"
        ),
    },
    "NVIDIA_GeForce_RTX_4090": {
        "fp8": "8x3584 64x640",
    },
    "NVIDIA_H100": {
        "bf16": "16x1024",
        "fp8": "128x1024@0.11.0",
        "fp8-128": "20x2560@0.10.2 40x2560@0.10.2 160x640@0.10.2",
    },
    "NVIDIA_H100_80GB_HBM3": {
        "bf16": (
            "1x3072 8x1792 8x2048 8x3584 8x4096 8x7168 16x1344 16x1792@0.11.2 16x2688 32x1792@0.18.1 "
            "62x256@0.10.2 62x512@0.10.2 64x320 64x640 64x1280 64x1536@0.18.1 72x384@0.10.2 72x768@0.10.2 "
            "128x192 128x384@0.19.1 128x512 128x928@0.11.2 128x1856@0.11.2 128x2880@0.21.0 256x512@0.10.2 "
            "512x128@0.10.2 512x256@0.10.2 512x512@0.10.2"
        ),
        "fp8": (
            "8x2048 8x3584 8x4096 8x7168 8x8192 8x14336 16x800 16x3200 16x6400 64x320 64x640 64x1280 64x2560 "
            "64x8960@0.11.2 128x352@0.10.2 128x704@0.10.2 128x8960@0.11.2"
        ),
        "fp8-128": "256x128 256x384@0.11.2 512x128@0.24.0 512x256@0.11.2",
    },
    "NVIDIA_H100_PCIe": {
        "fp8-128": "64x768@0.11.2",
    },
    "NVIDIA_H20": {
        "bf16": "64x384 64x768 64x896 64x3072 128x96 128x192 128x384 128x768 256x256@0.26.0 256x512@0.28.0",
        "fp8": "64x384 64x768 64x1536 64x3072",
        "fp8-128": "128x384 128x768 256x128 256x256",
    },
    "NVIDIA_H20-3e": {
        "bf16": (
            "128x192 128x384 160x192@0.10.2 160x320@0.10.2 512x64@0.10.2 512x128@0.10.2 512x192@0.28.0 "
            "512x256@0.10.2 512x512@0.10.2"
        ),
        "fp8-128": "20x2560@0.10.2 128x384 128x768 256x256",
    },
    "NVIDIA_H200": {
        "bf16": (
            "8x1792 8x2048 8x3584 8x4096 8x7168 8x14336 16x1024@0.11.2 16x2048@0.11.2 64x320 64x640 64x1280 "
            "64x2560 128x96@0.17.1 128x192 128x384 128x512@0.16.0 128x768 128x1024@0.11.2 512x64@0.10.2 "
            "512x128@0.10.2 512x256@0.10.2 512x512@0.10.2"
        ),
        "fp8": (
            "8x1792 8x2048 8x3584 8x4096 8x7168 8x8192 8x14336 16x1024@0.11.2 16x2048@0.11.2 64x320 64x640 "
            "64x1280 64x2560 128x96@0.17.1 128x512@0.12.0 128x1024@0.11.2 128x1856@0.17.1 160x192@0.12.0 "
            "256x320@0.33.0"
        ),
        "fp8-128": (
            "8x2048@0.10.2 16x4096@0.16.0 32x2048@0.11.2 128x384 128x512@0.16.0 128x768 256x256 "
            "256x512@0.19.1 384x128@0.10.2"
        ),
    },
    "NVIDIA_H800": {
        "fp8": "128x192@0.19.1",
    },
    "NVIDIA_L20": {
        "fp8-128": "256x256",
    },
    "NVIDIA_L20Y": {
        "fp8-128": "256x128",
    },
    "NVIDIA_L40S": {
        "bf16": "8x3584 128x928@0.11.2 128x1856@0.11.2",
        "fp8": "256x512@0.29.0",
    },
    "NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition": {
        "fp8": "20x1536@0.12.0",
        "fp8-128": "64x1536@0.20.2 256x384@0.20.2 256x512@0.20.2",
    },
    "NVIDIA_RTX_PRO_6000_Blackwell_Workstation_Edition": {
        "fp8": "128x704@0.14.1 129x704@0.14.1",
    },
}


def has_tuned_config(device: str, kind: str, experts: int, width: int, version: Version | None) -> bool | None:
    """Whether vLLM ships a configuration for this rank; None when the device is not named exactly.

    ``version`` None stands for the newest release that was read.
    """
    name = device.strip().replace(" ", "_")
    if "H200" in name.split("_"):
        name = "NVIDIA_H200"  # fused_moe.py get_config_file_name takes the whole family together
    if name not in TUNED:
        # A name that is the beginning of known ones (a family) says nothing about the card.
        return None if not name or any(known.startswith(name) for known in TUNED) else False
    for entry in TUNED[name].get(kind, "").split():
        shape, _at, since = entry.partition("@")
        if shape == f"{experts}x{width}":
            return version is None or version >= version_of(since or "0.10.0")
    return False
