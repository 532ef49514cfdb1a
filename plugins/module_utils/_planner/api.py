# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# PRIVATE: this file is an implementation detail of modelops.vllm and may change without notice.
"""From the options of layout_info to its result."""

from __future__ import annotations

import typing as t

from .._errors import ModelopsError
from .case import DATA_PARALLEL_BACKENDS, ENCODER_MODES, Flags
from .cost import OBJECTIVES
from .gpus import Gpus
from .headers import measure
from .layout import Layout
from .plan import make_plan
from .request import Request
from .shape import ModelShape
from .snapshot import read_configs
from .values import parse_version, whole, whole_or_none

__all__ = ["DATA_PARALLEL_BACKENDS", "ENCODER_MODES", "OBJECTIVES", "layout_info"]


def layout_info(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The plan for the options of the module, as it is returned.

    :raises ModelopsError: when an option is wrong; an invalid layout is a result.
    """
    hf_quant = None
    config = options.get("config")
    if options.get("model_dir"):
        config, hf_quant = read_configs(str(options["model_dir"]))
    if not config:
        raise ModelopsError("config is empty.", "Give the content of config.json, or model_dir.")
    shape = ModelShape.from_config(config, hf_quant)
    gpus, remarks = Gpus.parse(options.get("gpus"))
    measured = None
    if options.get("model_dir"):
        measured, told = measure(str(options["model_dir"]), shape)
        remarks = remarks + told
    layouts = options.get("layouts")
    plan = make_plan(
        Request(
            shape=shape,
            gpus=gpus,
            nodes=whole(options.get("nodes") or 1, "nodes"),
            version=parse_version(options.get("vllm_version")),
            max_model_len=whole_or_none(options.get("max_model_len"), "max_model_len"),
            max_num_seqs=whole_or_none(options.get("max_num_seqs"), "max_num_seqs"),
            utilization=options.get("gpu_memory_utilization"),
            objective=str(options.get("objective") or "throughput"),
            flags=Flags.parse(options),
            measured=measured.parts if measured else None,
        ),
        [Layout.parse(x) for x in layouts] if layouts else None,
    )
    result = plan.as_dict()
    result["findings"] = [f.as_dict() for f in remarks] + result["findings"]
    return result
