# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What serve_layout: auto takes."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._planner import choice


def answer(*valid: str, recommended: str | None = None) -> dict[str, t.Any]:
    """A result of layout_info with tp8 and tp4 (four GPUs idle), tp4-r2 and tp8-pp2."""
    layouts = [
        {"id": id_, "valid": id_ in valid, "replicas": 2 if id_ == "tp4-r2" else 1, "idle_gpus": 4 * (id_ == "tp4")}
        for id_ in ("tp8", "tp4", "tp4-r2", "tp8-pp2")
    ]
    return {"layouts": layouts, "recommended": recommended}


@pytest.mark.parametrize(
    ("judged", "wanted", "one_engine", "expected"),
    [
        (answer("tp8", "tp4", recommended="tp8"), ["tp4-r2", "tp4"], False, "tp4"),
        (answer("tp8", "tp4", recommended="tp8"), ["tp2"], False, "tp8"),
        (answer("tp4", "tp8-pp2"), ["tp8"], False, "tp4"),
        (answer(recommended=None), ["tp8"], False, ""),
        ({}, ["tp8"], False, ""),
        ({"layouts": None}, [], False, ""),
        # One engine on two nodes leaves no GPU out and is no two engines.
        (answer("tp4", "tp4-r2", "tp8-pp2", recommended="tp4-r2"), ["tp4"], True, "tp8-pp2"),
        (answer("tp4", "tp4-r2"), ["tp4"], True, ""),
    ],
)
def test_the_preferred_the_recommended_the_first(
    judged: dict[str, t.Any], wanted: list[str], one_engine: bool, expected: str
) -> None:
    assert choice.chosen(judged, wanted, one_engine) == expected


MODEL = {"layouts": ["tp8"], "layouts_by_link": {"pcie": ["tp1-r8"]}}


@pytest.mark.parametrize(
    ("model", "hardware", "expected"),
    [
        (MODEL, {"gpus": {"link": "pcie"}}, ["tp1-r8"]),
        (MODEL, {"gpus": {"link": "nvlink"}}, ["tp8"]),
        (MODEL, {"gpus": {"link": None}}, ["tp8"]),
        (MODEL, {}, ["tp8"]),
        (MODEL, {"gpus": {"link": "pcie"}, "layouts": ["tp1"]}, ["tp1"]),
        (MODEL, {"gpus": {"link": "pcie"}, "layouts": []}, []),
        ({}, {}, []),
    ],
)
def test_the_hardware_is_asked_before_the_link_and_the_model(
    model: dict[str, t.Any], hardware: dict[str, t.Any], expected: list[str]
) -> None:
    assert choice.preferred(model, hardware) == expected
