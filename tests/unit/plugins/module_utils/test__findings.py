# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.modelops.vllm.plugins.module_utils import _findings as f


def test_a_finding_is_returned_with_all_its_parts() -> None:
    finding = f.error("fp8-block", "1536/8=192 is no multiple of 128.", "Use tp8-ep.", shard=192, block=128)
    assert finding.as_dict() == {
        "id": "fp8-block",
        "severity": "error",
        "message": "1536/8=192 is no multiple of 128.",
        "numbers": {"shard": 192, "block": 128},
        "remedy": "Use tp8-ep.",
    }


def test_only_an_error_makes_the_wanted_thing_impossible() -> None:
    mild = [f.warning("a", "w"), f.info("b", "i")]
    assert not f.has_errors(mild)
    assert f.has_errors([*mild, f.error("c", "e")])
    assert [d["id"] for d in f.as_dicts(mild)] == ["a", "b"]
